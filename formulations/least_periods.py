"""Which periods need to be asked for: where times are whole, the shortest one is a fraction with a small denominator.

It is a maximum cycle ratio: a whole length over the number of periods that the cycle spans. Between two neighbouring
fractions nothing needs to be asked.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction

from ..instances.base.amounts import as_written, common_unit

# Times that are whole multiples of a unit, but of more units than this together, count as arbitrary numbers.
MOST_UNITS = 10**6


def unit_of_times(times: Iterable[Fraction], most: int = MOST_UNITS) -> Fraction | None:
    """The largest unit of which all times are whole multiples; None where they are too many units together."""
    nonzero = [time for time in times if time]
    if not nonzero:
        return Fraction(1)
    unit = common_unit(nonzero)
    return unit if sum(nonzero) / unit <= most else None


def largest_fraction(limit: Fraction, most: int) -> Fraction:
    """The largest fraction of at most `limit` whose denominator is at most `most`."""
    return max(Fraction(limit.numerator * q // limit.denominator, q) for q in range(1, most + 1))


def next_fraction(value: Fraction, most: int) -> Fraction:
    """The smallest fraction above `value` whose denominator is at most `most`."""
    return min(Fraction(value.numerator * q // value.denominator + 1, q) for q in range(1, most + 1))


def float_below(bound: Fraction) -> float:
    """The largest float that is written as a number of at most `bound`."""
    nearest = float(bound)
    return nearest if as_written(nearest) <= bound else math.nextafter(nearest, 0.0)
