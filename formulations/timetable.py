"""The shortest period for given orders and shifts, exactly: a maximum cycle ratio in whole numbers.

Orders and shifts decide what devices hold, so a schedule may be tightened to this period without a second look at its
memory; and what was found on a grid gets its true, possibly fractional, period here. The ratio is a whole length over
the number of periods that the cycle spans: where times are whole it is a fraction with a small denominator, and between
two neighbouring fractions nothing needs to be asked.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from ..instances.base.amounts import as_written, common_unit

# Times that are whole multiples of a unit, but of more units than this together, count as arbitrary numbers.
MOST_UNITS = 10**6


def unit_of_times(times: Iterable[Fraction]) -> Fraction | None:
    """The largest unit of which all times are whole multiples; None where they are too many units together."""
    nonzero = [time for time in times if time]
    if not nonzero:
        return Fraction(1)
    unit = common_unit(nonzero)
    return unit if sum(nonzero) / unit <= MOST_UNITS else None


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


@dataclass(frozen=True, slots=True)
class Wait:
    """start(after) - start(before) >= least - periods * T."""

    before: int
    after: int
    least: Fraction
    periods: int


@dataclass(frozen=True, slots=True)
class Timetable:
    period: Fraction
    starts: tuple[Fraction, ...]


def tightest(count: int, waits: Sequence[Wait], lower: Fraction) -> Timetable | None:
    """The least period >= `lower` at which all waits hold, with the earliest starts; None where there is none.

    Newton's method from below: at too short a period some cycle of waits adds up to more than its periods allow,
    and its ratio is the next guess. A cycle that allows no period at all is a contradiction.
    """
    scale = math.lcm(*(wait.least.denominator for wait in waits), 1)
    arcs = [(w.before, w.after, int(w.least * scale), w.periods) for w in waits]
    period = lower * scale
    while True:
        starts, cycle = _earliest(count, arcs, period)
        if cycle is None:
            return Timetable(period / scale, tuple(start / scale for start in starts))
        length = sum(arcs[a][2] for a in cycle)
        periods = sum(arcs[a][3] for a in cycle)
        if periods <= 0:
            return None
        period = Fraction(length, periods)


def _earliest(
    count: int, arcs: Sequence[tuple[int, int, int, int]], period: Fraction
) -> tuple[list[Fraction], list[int] | None]:
    """Longest paths from a common source, or the arcs of a cycle of positive length (Bellman and Ford)."""
    top, bottom = period.numerator, period.denominator
    lengths = [least * bottom - periods * top for _, _, least, periods in arcs]
    starts = [0] * count
    reached_by = [-1] * count
    changed = -1
    for _ in range(count + 1):
        changed = -1
        for a, (before, after, _, _) in enumerate(arcs):
            if starts[before] + lengths[a] > starts[after]:
                starts[after] = starts[before] + lengths[a]
                reached_by[after] = a
                changed = after
        if changed < 0:
            return [Fraction(start, bottom) for start in starts], None
    return [], _cycle(changed, arcs, reached_by)


def _cycle(node: int, arcs: Sequence[tuple[int, int, int, int]], reached_by: Sequence[int]) -> list[int]:
    """The cycle that the parents of a node run into."""
    seen: set[int] = set()
    while node not in seen:
        seen.add(node)
        node = arcs[reached_by[node]][0]
    cycle, first = [], node
    while True:
        cycle.append(reached_by[node])
        node = arcs[reached_by[node]][0]
        if node == first:
            return cycle
