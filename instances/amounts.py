"""Amounts as they are written: what fits into a memory, decided exactly, in this one place.

A number in a file is the decimal that it prints as: 0.1 is a tenth, not the nearest binary fraction. Sums and
products of such numbers are exact fractions, and *fits* means sum <= limit, without any tolerance.

Loops that must be fast work on whole numbers instead (`whole_amounts`): after one common scaling every sum of them
is exact in floating point as well, in any order, so that they compare plainly and need no slack.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

Amount = int | float | Fraction
"""As read from a file, or derived from what was read by exact arithmetic."""

MOST_EXACT = 2**53
"""Floats hold every whole number up to here."""


@lru_cache(maxsize=2**16)
def _decimal(value: float) -> Fraction:
    return Fraction(repr(value))


def as_written(value: Amount) -> Fraction:
    """The exact value of an amount: of a float, the decimal number that it prints as."""
    return _decimal(value) if isinstance(value, float) else Fraction(value)


def exact_sum(amounts: Iterable[Amount]) -> Fraction:
    return sum((as_written(amount) for amount in amounts), Fraction(0))


def fits(amounts: Iterable[Amount], limit: Amount | None) -> bool:
    """Is the exact sum at most the limit? No limit (None) takes everything."""
    return limit is None or exact_sum(amounts) <= as_written(limit)


def in_digits(value: Amount) -> str:
    """All digits of an amount, so that two amounts that differ never look alike in a message."""
    exact = as_written(value)
    if exact.denominator == 1:
        return str(exact.numerator)
    denominator, twos, fives = exact.denominator, 0, 0
    while denominator % 2 == 0:
        denominator, twos = denominator // 2, twos + 1
    while denominator % 5 == 0:
        denominator, fives = denominator // 5, fives + 1
    if denominator != 1:  # no decimal number
        return f"{exact.numerator}/{exact.denominator}"
    places = max(twos, fives)
    digits = str(abs(exact.numerator) * 10**places // exact.denominator).rjust(places + 1, "0")
    return f"{'-' if exact < 0 else ''}{digits[:-places]}.{digits[-places:]}"


@dataclass(frozen=True, slots=True)
class WholeAmounts:
    """Amounts and limits in one common unit, as whole numbers.

    `exact`: a sum of amounts fits a limit exactly where the whole numbers say so. Otherwise everything was
    rounded down: what fits in truth fits here, too, and what fits here may exceed the limit by a hair (about one
    part in 10^12). Bounds stay valid then, plans must be checked, as every plan is.
    """

    amounts: tuple[int, ...]
    limits: tuple[int | None, ...]
    exact: bool


def whole_amounts(
    amounts: Sequence[Amount], limits: Sequence[Amount | None], most: int = MOST_EXACT, copies: int = 1
) -> WholeAmounts:
    """Amounts and limits as whole numbers whose sums stay below `most`, even if each amount comes `copies` times.

    An amount above all limits is cut to the largest limit and one unit: it fits nowhere either way.
    """
    written = [as_written(amount) for amount in amounts]
    bounds = [None if limit is None else as_written(limit) for limit in limits]
    whole = _in_units(written, bounds, _common_unit(written), copies)
    if copies * sum(whole.amounts) < most:
        return whole
    given = [limit for limit in bounds if limit is not None]
    ceiling = max(given) if given and len(given) == len(bounds) else None
    total = copies * sum(written if ceiling is None else (min(amount, ceiling) for amount in written))
    # Half of the room, since the cut of large amounts adds up to a unit for each.
    return _in_units(written, bounds, total / (most // 2 - copies * len(written)), copies)


def _in_units(
    amounts: Sequence[Fraction], limits: Sequence[Fraction | None], unit: Fraction, copies: int
) -> WholeAmounts:
    whole = [math.floor(amount / unit) for amount in amounts]
    exact = all(amount == number * unit for amount, number in zip(amounts, whole, strict=True))
    # Where amounts are exact their sums are whole, so that rounding a limit down changes nothing.
    finite = [math.floor(limit / unit) for limit in limits if limit is not None]
    if finite and len(finite) == len(limits):
        whole = [min(number, max(finite) + 1) for number in whole]
    most = copies * sum(whole)
    whole_limits = tuple(None if limit is None else min(math.floor(limit / unit), most) for limit in limits)
    return WholeAmounts(tuple(whole), whole_limits, exact)


def _common_unit(numbers: Sequence[Fraction]) -> Fraction:
    """The largest unit of which all are whole multiples."""
    nonzero = [number for number in numbers if number]
    if not nonzero:
        return Fraction(1)
    common = math.lcm(*(number.denominator for number in nonzero))
    divisor = math.gcd(*(number.numerator * (common // number.denominator) for number in nonzero))
    return Fraction(divisor, common)
