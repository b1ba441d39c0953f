"""Groups that exchange much, merged in pairs: a smaller problem on which annealing moves whole regions at once.

Merging a coarse problem's pairs again and again gives a ladder of problems; a plan for one is a plan for all below it.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass

from ..groups import Groups

WIDEST_NET = 40
"""Nets with more pins say little about which groups belong together."""

HEAVIEST = 0.25
"""Of an accelerator's share of all work, and of its memory: pairs above that are not merged."""


@dataclass(frozen=True, slots=True)
class Level:
    """A problem, and where each of its groups went in the next coarser one (None at the top)."""

    groups: Groups
    cluster_of: tuple[int, ...] | None


def ladder(groups: Groups, fewest: int, rng: random.Random, device_of: Sequence[int] | None = None) -> list[Level]:
    """From fine to coarse, until `fewest` groups are left or hardly any pair may be merged.

    With `device_of`, only groups on the same device are merged, so that this assignment lives on all levels.
    """
    levels = []
    limit = HEAVIEST * math.fsum(groups.work) / max(1, groups.accelerators)
    while groups.count > fewest:
        cluster_of = _match(groups, limit, rng, device_of)
        count = max(cluster_of) + 1
        if count > 0.95 * groups.count:
            break
        levels.append(Level(groups, tuple(cluster_of)))
        if device_of is not None:
            device_of = [d for _, d in sorted(set(zip(cluster_of, device_of, strict=True)))]
        groups = merged(groups, cluster_of, count)
    return [*levels, Level(groups, None)]


def _match(groups: Groups, limit: float, rng: random.Random, device_of: Sequence[int] | None) -> list[int]:
    """Pairs, greedily in random order: much exchanged for little work, with some chance in it."""
    exchanged = _exchanged(groups)
    cluster_of = [-1] * groups.count
    order = list(range(groups.count))
    rng.shuffle(order)
    count = 0
    for g in order:
        if cluster_of[g] >= 0:
            continue
        best, score = -1, 0.0
        for h, cost in exchanged[g].items():
            if (
                cluster_of[h] < 0
                and (device_of is None or device_of[g] == device_of[h])
                and groups.supported[g] == groups.supported[h]
                and groups.work[g] + groups.work[h] <= limit
                and groups.sizes[g] + groups.sizes[h] <= HEAVIEST * groups.capacity
            ):
                small = 1e-3 * limit + 1e-300
                value = cost * (0.5 + rng.random()) / ((groups.work[g] + small) * (groups.work[h] + small))
                if value > score:
                    best, score = h, value
        cluster_of[g] = count
        if best >= 0:
            cluster_of[best] = count
        count += 1
    return cluster_of


def _exchanged(groups: Groups) -> list[dict[int, float]]:
    shared: list[dict[int, float]] = [{} for _ in range(groups.count)]
    for pins, cost, _ in groups.nets:
        if len(pins) <= WIDEST_NET:
            share = cost / (len(pins) - 1)
            for g in pins:
                row = shared[g]
                for h in pins:
                    if h != g:
                        row[h] = row.get(h, 0.0) + share
    return shared


def merged(groups: Groups, cluster_of: Sequence[int], count: int) -> Groups:
    """The problem with clusters for groups; without a stage order, which clusters may break."""

    def add(values: Sequence[float]) -> tuple[float, ...]:
        sums = [0.0] * count
        for g, value in enumerate(values):
            sums[cluster_of[g]] += value
        return tuple(sums)

    members: list[list[int]] = [[] for _ in range(count)]
    supported = [True] * count
    for g, cluster in enumerate(cluster_of):
        members[cluster] += groups.members[g]
        supported[cluster] = supported[cluster] and groups.supported[g]
    costs: dict[tuple[tuple[int, ...], int], float] = {}
    for pins, cost, part in groups.nets:
        outer = tuple(sorted({cluster_of[g] for g in pins}))
        if len(outer) > 1:
            costs[outer, part] = costs.get((outer, part), 0.0) + cost
    return Groups(
        members=tuple(map(tuple, members)),
        times=tuple(map(add, groups.times)),
        cpu_times=tuple(map(add, groups.cpu_times)),
        sizes=add(groups.sizes),
        supported=tuple(supported),
        nets=tuple((pins, cost, part) for (pins, part), cost in costs.items()),
        arcs=(),
        accelerators=groups.accelerators,
        cpus=groups.cpus,
        memory=groups.memory,
    )
