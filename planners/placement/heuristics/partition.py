"""Balanced graph partition by METIS, through the extra `partition`: a stand-in for Scotch.

METIS balances work and cuts few transfers, but knows neither CPUs that are slower nor what each device pays; so
several imbalances and seeds are tried and the best maximum load is kept. Groups that break memory or support are
moved afterwards. Its parts are seldom contiguous: where a chain is asked for, they only give the order that is cut.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import combinations, product
from typing import Any

from ....instances.base.errors import NotInstalledError
from ...contract import Outcome, Request
from ..groups import Groups, Incumbent, groups_of, is_contiguous
from ..orders import gathered_order
from .linear_dp import MAX_GROUPS, best_cuts, too_many
from .local_search import mend

# Imbalances that are tried: how much METIS may deviate from equal parts, in per mille.
IMBALANCES = (1, 10, 30, 100, 300, 1000)

# Seeds that are tried for each imbalance.
SEEDS = 3

# Sum of all weights, about: METIS counts in whole numbers of 32 bits.
SCALE = 10_000_000

# Pins up to which a net becomes a clique; wider nets become stars, since a clique would have too many edges.
WIDEST_CLIQUE = 24


class Partition:
    def plan(self, request: Request) -> Outcome:
        metis = _metis()
        groups, contiguous = groups_of(request), is_contiguous(request)
        incumbent = Incumbent(request, groups)
        if contiguous and groups.count > MAX_GROUPS:
            return too_many(incumbent, MAX_GROUPS)
        plans = (
            best_cuts(groups, gathered_order(groups, parts)) if contiguous else mend(groups, parts)
            for parts in _partitions(metis, groups, request.limits.seed)
        )
        return incumbent.tried(plans, "no partition could be made to fit the memory")


PLANNER = Partition()


def _metis() -> Any:
    try:
        import pymetis
    except ImportError:
        raise NotInstalledError(
            "The planner 'partition' needs METIS; install it with pip install 'pipeplan[partition]', or choose "
            "another planner."
        ) from None
    return pymetis


def _partitions(metis: Any, groups: Groups, seed: int) -> Iterator[list[int]]:
    """Device of each group, for each imbalance and seed, without CPUs and with them."""
    starts, ends, weights = _graph(groups)
    work = _whole(groups.work)
    for imbalance, number, shares in product(IMBALANCES, range(SEEDS), _shares(groups)):
        if len(shares) == 1:
            yield [shares[0][0]] * groups.count
            continue
        options = metis.Options(ufactor=imbalance, seed=(seed * SEEDS + number) % 2**31)
        _, parts = metis.part_graph(
            len(shares),
            metis.CSRAdjacency(starts, ends),
            vweights=work,
            eweights=weights,
            tpwgts=[share for _, share in shares],
            recursive=False,
            options=options,
        )
        yield [shares[part][0] for part in parts]


def _shares(groups: Groups) -> list[list[tuple[int, float]]]:
    """The devices that take part, with their shares of the work: first accelerators alone, then CPUs as well, by their
    speed."""
    fast = [(d, 1.0) for d in range(groups.accelerators)]
    total = math.fsum(groups.cpu_work)
    speed = min(1.0, math.fsum(groups.work) / total) if total and groups.accelerators else 1.0
    slow = [(d, max(speed, 1e-3)) for d in range(groups.accelerators, groups.devices)]
    sets = [devices[: groups.count] for devices in (fast, fast + slow) if devices]
    if len(sets) == 2 and sets[0] == sets[1]:
        sets.pop()
    return [[(d, share / math.fsum(s for _, s in devices)) for d, share in devices] for devices in sets]


def _graph(groups: Groups) -> tuple[list[int], list[int], list[int]]:
    """Neighbours in compressed rows, with whole weights; each edge of a net of n pins gets 1 / (n - 1) of its cost."""
    cost: dict[tuple[int, int], float] = {}
    for pins, price, _ in groups.nets:
        clique = len(pins) <= WIDEST_CLIQUE
        pairs = list(combinations(pins, 2)) if clique else [(pins[0], g) for g in pins[1:]]
        for pair in pairs:
            cost[pair] = cost.get(pair, 0.0) + price / (len(pins) - 1)
    whole = dict(zip(cost, _whole(tuple(cost.values())), strict=True))
    rows: list[list[tuple[int, int]]] = [[] for _ in range(groups.count)]
    for (g, h), weight in whole.items():
        rows[g].append((h, weight))
        rows[h].append((g, weight))
    starts = [0]
    for row in rows:
        starts.append(starts[-1] + len(row))
    return starts, [h for row in rows for h, _ in row], [weight for row in rows for _, weight in row]


def _whole(values: tuple[float, ...]) -> list[int]:
    """Proportional whole numbers of at least one."""
    total = math.fsum(values)
    return [1 + round(value / total * SCALE) if total else 1 for value in values]
