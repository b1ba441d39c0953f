"""Waits between starts, some of which get shorter as a number T grows: the least T at which all of them hold.

`ilp-zero-bubble` times its orders here; T is a span. It checks methods that time theirs elsewhere, so that none of
these may use this module.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

# (i, j, w, k): the start of j is at least the start of i, plus w, minus k times T.
Wait = tuple[int, int, Fraction, int]


def least(count: int, waits: Sequence[Wait], lower: Fraction) -> tuple[Fraction, list[Fraction]] | None:
    """The least T of at least `lower`, and the earliest starts from 0 on; None: no T is large enough.

    Around a cycle the waits must not sum to more than 0. A cycle whose waits do at some T asks for a larger T: the sum
    of its w's over the sum of its k's; one whose k's do not sum to more than 0 is impossible at every T.
    """
    parts = math.lcm(*{w.denominator for _, _, w, _ in waits}, 1)
    whole = [(i, j, int(w * parts), k) for i, j, w, k in waits]
    value = lower * parts
    while True:
        top, bottom = value.numerator, value.denominator
        lengths = [(i, j, w * bottom - k * top) for i, j, w, k in whole]
        starts, cycle = longest([0] * count, lengths)
        if not cycle:
            return value / parts, [Fraction(start or 0, bottom * parts) for start in starts]
        periods = sum(whole[a][3] for a in cycle)
        if periods <= 0:
            return None
        value = Fraction(sum(whole[a][2] for a in cycle), periods)


def longest(
    starts: Sequence[int | None], arcs: Sequence[tuple[int, int, int]]
) -> tuple[list[int | None], tuple[int, ...]]:
    """Each start raised to its longest path along the arcs; and a cycle of positive length where there is one, as
    positions of arcs. None: not reached."""
    paths, by = list(starts), [-1] * len(starts)
    for _ in range(len(paths) + 1):
        changed = -1
        for a, (i, j, w) in enumerate(arcs):
            here, there = paths[i], paths[j]
            if here is not None and (there is None or here + w > there):
                paths[j], by[j], changed = here + w, a, j
        if changed < 0:
            return paths, ()
    for _ in paths:
        changed = arcs[by[changed]][0]
    cycle = [by[changed]]
    while arcs[cycle[-1]][0] != changed:
        cycle.append(by[arcs[cycle[-1]][0]])
    return paths, tuple(cycle)
