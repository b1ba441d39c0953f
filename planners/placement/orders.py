"""Topological orders of groups."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Protocol


class Ordered(Protocol):
    """What an order is taken of: things with numbers, and which comes before which."""

    @property
    def count(self) -> int: ...

    @property
    def arcs(self) -> tuple[tuple[int, int], ...]: ...


def various_orders(groups: Ordered, count: int, seed: int) -> list[list[int]]:
    """Depth first along the arcs and against them, the input's own order, then seeded ties; each order once.

    Depth first keeps branches together; the input's own order is better where the graph is a long narrow band.
    """
    rng = random.Random(seed)
    own = list(range(groups.count))
    orders = [depth_first(groups, own), depth_first(groups, own, backwards=True), in_input_order(groups)]
    orders += [depth_first(groups, rng.sample(own, groups.count), backwards=n % 2 == 0) for n in range(3, count)]
    return [list(order) for order in dict.fromkeys(map(tuple, orders[:count]))]


def in_input_order(groups: Ordered) -> list[int]:
    """The topological order that is nearest to the numbers of the groups."""
    import heapq

    after, missing = _degrees(groups, False)
    ready = [g for g in range(groups.count) if not missing[g]]
    order = []
    while ready:
        g = heapq.heappop(ready)
        order.append(g)
        for h in after[g]:
            missing[h] -= 1
            if not missing[h]:
                heapq.heappush(ready, h)
    return order


def depth_first(groups: Ordered, priority: Sequence[int], backwards: bool = False) -> list[int]:
    """A topological order that follows one branch as long as it can; `backwards`: from the sinks up."""
    after, missing = _degrees(groups, backwards)
    ready = sorted((g for g in range(groups.count) if not missing[g]), key=lambda g: priority[g], reverse=not backwards)
    order = []
    while ready:
        g = ready.pop()
        order.append(g)
        for h in sorted(after[g], key=lambda h: priority[h], reverse=not backwards):
            missing[h] -= 1
            if not missing[h]:
                ready.append(h)
    return order[::-1] if backwards else order


def random_order(groups: Ordered, rng: random.Random) -> list[int]:
    """A topological order in which each next group is drawn from all that are ready."""
    after, missing = _degrees(groups, False)
    ready = [g for g in range(groups.count) if not missing[g]]
    order = []
    while ready:
        place = rng.randrange(len(ready))
        ready[place], ready[-1] = ready[-1], ready[place]
        g = ready.pop()
        order.append(g)
        for h in after[g]:
            missing[h] -= 1
            if not missing[h]:
                ready.append(h)
    return order


def _degrees(groups: Ordered, backwards: bool) -> tuple[list[list[int]], list[int]]:
    after: list[list[int]] = [[] for _ in range(groups.count)]
    missing = [0] * groups.count
    for u, v in groups.arcs:
        tail, head = (v, u) if backwards else (u, v)
        after[tail].append(head)
        missing[head] += 1
    return after, missing


def gathered_order(groups: Ordered, part_of: Sequence[int]) -> list[int]:
    """A topological order that stays in one part as long as it can; early parts first."""
    size = [0] * (max(part_of) + 1)
    middle = [0.0] * len(size)
    for place, g in enumerate(depth_first(groups, range(groups.count))):
        size[part_of[g]] += 1
        middle[part_of[g]] += place
    rank = [middle[part] / max(1, size[part]) for part in range(len(size))]
    after, missing = _degrees(groups, False)
    ready = {g for g in range(groups.count) if not missing[g]}
    order: list[int] = []
    while ready:
        here = part_of[order[-1]] if order else -1
        g = min(ready, key=lambda g: (part_of[g] != here, rank[part_of[g]], g))
        ready.remove(g)
        order.append(g)
        for h in after[g]:
            missing[h] -= 1
            if not missing[h]:
                ready.add(h)
    return order
