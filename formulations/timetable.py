"""The shortest period for given orders and shifts, exactly: a maximum cycle ratio in whole numbers.

Orders and shifts decide what devices hold, so a schedule may be tightened to this period without a second look at its
memory; and what was found on a grid gets its true, possibly fractional, period here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction


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
