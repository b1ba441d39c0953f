"""Topological orders of groups."""

from __future__ import annotations

import heapq
import random
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import Protocol

from ...instances.base.graph import adjacency


class Ordered(Protocol):
    """What can be put in order: `count` numbered things, and arcs from what comes before to what comes after."""

    @property
    def count(self) -> int: ...

    @property
    def arcs(self) -> tuple[tuple[int, int], ...]: ...


def various_orders(groups: Ordered, count: int, seed: int) -> list[list[int]]:
    """Depth first along the arcs and against them, the input's own order, then seeded ties; each order once.

    Depth first keeps branches together; the input's own order is better where the graph is a long narrow band.
    """
    rng = random.Random(seed)
    numbers = list(range(groups.count))
    orders = [depth_first(groups, numbers), depth_first(groups, numbers, backwards=True), in_input_order(groups)]
    orders += [
        depth_first(groups, rng.sample(numbers, groups.count), backwards=n % 2 == 0) for n in range(3, count)
    ]
    return [list(order) for order in dict.fromkeys(map(tuple, orders[:count]))]


def in_input_order(groups: Ordered) -> list[int]:
    """The topological order that is nearest to the numbers of the groups."""
    return in_turn(adjacency(groups.count, groups.arcs), heapq.heappop, heapq.heappush)


def depth_first(groups: Ordered, priority: Sequence[int], backwards: bool = False) -> list[int]:
    """A topological order that follows one branch as long as it can; `backwards`: from the sinks up."""

    def ranked(members: Iterable[int]) -> list[int]:
        return sorted(members, key=lambda g: priority[g], reverse=not backwards)

    arcs = ((v, u) for u, v in groups.arcs) if backwards else groups.arcs
    after = list(map(ranked, adjacency(groups.count, arcs)))
    order = in_turn(after, list.pop, first=ranked(range(groups.count)))
    return order[::-1] if backwards else order


def random_order(groups: Ordered, rng: random.Random) -> list[int]:
    """A topological order in which each next group is drawn from all that are ready."""

    def draw(ready: list[int]) -> int:
        place = rng.randrange(len(ready))
        ready[place], ready[-1] = ready[-1], ready[place]
        return ready.pop()

    return in_turn(adjacency(groups.count, groups.arcs), draw)


def in_turn(
    after: Sequence[Sequence[int]],
    take: Callable[[list[int]], int],
    put: Callable[[list[int], int], object] = list.append,
    first: Sequence[int] | None = None,
) -> list[int]:
    """A topological order: `take` removes the next one from the list of those that are ready, and `put` adds to it.

    `after`: what comes after each; `first`: the order in which those stand that are ready at the beginning.
    """
    missing = Counter(chain.from_iterable(after))
    ready = [g for g in first or range(len(after)) if not missing[g]]
    order = []
    while ready:
        order.append(take(ready))
        for h in after[order[-1]]:
            missing[h] -= 1
            if not missing[h]:
                put(ready, h)
    return order


def gathered_order(groups: Ordered, part_of: Sequence[int]) -> list[int]:
    """A topological order that stays in one part as long as it can, and then goes on with the earliest part."""
    size = [0] * (max(part_of) + 1)
    middle = [0.0] * len(size)
    for place, g in enumerate(depth_first(groups, range(groups.count))):
        size[part_of[g]] += 1
        middle[part_of[g]] += place
    rank = [middle[part] / max(1, size[part]) for part in range(len(size))]
    here = -1

    def nearest(ready: list[int]) -> int:
        nonlocal here
        g = min(ready, key=lambda g: (part_of[g] != here, rank[part_of[g]], g))
        ready.remove(g)
        here = part_of[g]
        return g

    return in_turn(adjacency(groups.count, groups.arcs), nearest)
