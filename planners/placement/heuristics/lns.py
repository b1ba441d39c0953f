"""Large-neighbourhood search: annealing over the devices of groups, on ever coarser versions of the problem.

Three kinds of runs take turns; a round of all is twice as long as the one before, since some inputs need many tries
and others long ones:
- from scratch: a ladder of coarser problems is climbed down from a random assignment of a few clusters;
- around the best plan: the same with clusters inside its devices, so that whole regions of it change over;
- polishing: a long annealing of single groups from the best plan, where loads are nearly equal already.

Contiguous plans keep their stage order, so they are only polished, from the best plan and from the linearised DP's.
With several threads each makes its own run. Small inputs run uncompiled: they would pay more for numba than it gives.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass

from ....instances.placement.plan import PlacementPlan
from ...contract import Outcome, Request
from ...method_options import CYCLES, STEPS
from ..groups import FAR, Groups, Incumbent, capped, groups_of, is_contiguous, objective_of
from .kernel import Kernel
from .linear_dp import PLANNER as LINEAR_DP
from .neighbourhood import LargeNeighbourhoodSearch, Run

# Steps of the longest run.
MAX_STEPS = 64_000_000

# Steps between looks at the clock, compiled and uncompiled.
CHUNK, PLAIN_CHUNK = 200_000, 2_000

# Clusters for each device in the coarsest problem.
CLUSTERS_PER_DEVICE = 8

# Temperatures at the start and at the end, relative to the value; squarings of the power mean.
Schedule = tuple[float, float, int]

TOP: Schedule = (2e-2, 1e-5, 4)
MIDDLE: Schedule = (5e-3, 1e-5, 4)
BOTTOM: Schedule = (5e-3, 1e-5, 7)
POLISH: Schedule = (1e-2, 2e-6, 4)


class Lns:
    def plan(self, request: Request) -> Outcome:
        return _Search(request).outcome()


PLANNER = Lns()


class _Search(LargeNeighbourhoodSearch):
    def __init__(self, request: Request) -> None:
        self.contiguous, self.groups = is_contiguous(request), groups_of(request)
        super().__init__(request, Incumbent(request, self.groups), request.options.get("cycles", CYCLES.default))
        self.steps: int = request.options.get("steps", STEPS.default)
        self.linear: list[int] | None = None

    # ---- starts ---------------------------------------------------------------------------------------

    def read(self, plan: PlacementPlan) -> list[int] | None:
        device_of = self.groups.device_of(self.request.problem, plan)
        if device_of is None or not self.groups.fits(device_of) or self._stages(device_of) is None:
            return None
        return device_of

    def take_starts(self) -> None:
        """Offer the linearised DP's plan, which is contiguous and so fits both variants."""
        options = {"objective": objective_of(self.request), "orders": 3}
        quick = Request(self.request.problem, options, self.request.limits)
        plan = LINEAR_DP.plan(quick).plan
        self.linear = self.groups.device_of(self.request.problem, plan) if isinstance(plan, PlacementPlan) else None
        if self.linear is not None:
            self.incumbent.offer(self.linear)

    def _stages(self, device_of: Sequence[int]) -> list[int] | None:
        """The place of each device in a chain of stages; None where the devices form a circle."""
        from graphlib import CycleError, TopologicalSorter

        sorter: TopologicalSorter[int] = TopologicalSorter(dict.fromkeys(range(self.groups.devices), ()))
        for u, v in self.groups.arcs:
            if device_of[u] != device_of[v]:
                sorter.add(device_of[v], device_of[u])
        try:
            order = list(sorter.static_order())
        except CycleError:
            return None
        place = {device: number for number, device in enumerate(order)}
        return [place[d] for d in range(self.groups.devices)]

    # ---- runs -----------------------------------------------------------------------------------------

    def run(self, cycle: int, thread: int, rng: random.Random) -> Run:
        best = self.incumbent.best
        if self.contiguous:
            start = self.linear if cycle % 2 and self.linear is not None else best
            steps = self._steps(cycle // 2)
            return lambda: None if start is None else self._anneal(self.groups, start, POLISH, steps, rng)
        kind, round_ = cycle % 3, cycle // 3
        if kind == 1 and best is not None:
            return lambda: self._descend(best, self._steps(round_) // 10, rng)
        if kind == 2 and best is not None:
            return lambda: self._anneal(self.groups, best, POLISH, self._steps(round_), rng)
        return lambda: self._descend(None, self._steps(round_) // 10, rng)

    def _steps(self, round_: int) -> int:
        return min(MAX_STEPS, self.steps << min(round_, 10))

    def _descend(self, device_of: list[int] | None, steps: int, rng: random.Random) -> list[int] | None:
        """Anneal on each level of a ladder, from coarse to fine."""
        tame = capped(self.groups, FAR * self.incumbent.value)
        levels = ladder(tame, CLUSTERS_PER_DEVICE * self.groups.devices, rng, device_of)
        if device_of is None:
            current = _random_devices(levels[-1].groups, rng)
        else:
            current = device_of
            for level in levels[:-1]:
                assert level.cluster_of is not None
                current = [d for _, d in sorted(set(zip(level.cluster_of, current, strict=True)))]
        for number, level in reversed(list(enumerate(levels))):
            if level.cluster_of is not None:
                current = [current[cluster] for cluster in level.cluster_of]
            top = number == len(levels) - 1 and device_of is None
            schedule = TOP if top else BOTTOM if number == 0 else MIDDLE
            current = self._anneal(level.groups, current, schedule, steps, rng)
        return current

    def _anneal(
        self, groups: Groups, start: Sequence[int], schedule: Schedule, steps: int, rng: random.Random
    ) -> list[int]:
        """The best assignment met, or the start."""
        hot, cold, squarings = schedule
        groups = capped(groups, FAR * self.incumbent.value)  # loads are kept up to date by differences
        kernel = Kernel(groups, rng.getrandbits(62))
        kernel.start(start, self._stages(start) if groups.arcs else None)
        if not kernel.compiled:
            steps = min(steps, 500 * groups.count)
        chunks = max(1, -(-steps // (CHUNK if kernel.compiled else PLAIN_CHUNK)))
        factor = (cold / hot) ** (1 / chunks)
        best, value = list(start), float("inf")
        if groups.fits(best):
            value = groups.value(best)
        for number in range(chunks):
            if self.ended:
                break
            better = kernel.run(
                steps // chunks, hot * factor**number, hot * factor ** (number + 1), squarings, value
            )
            if better is not None and groups.fits(better):
                best, value = better, groups.value(better)
        return best


def _random_devices(groups: Groups, rng: random.Random) -> list[int]:
    """A random device for each group: accelerators for what they support, CPUs for the rest and for what costs them
    nothing."""
    fast, slow = range(groups.accelerators), range(groups.accelerators, groups.devices)
    chosen = []
    for ok, cpu_work in zip(groups.supported, groups.cpu_work, strict=True):
        allowed = [*(fast if ok else ()), *(slow if not ok or cpu_work == 0 else ())]
        chosen.append(rng.choice(allowed or [0]))
    return chosen


# Groups that exchange much are merged in pairs: in the smaller problem annealing moves whole regions at once. Merging
# pairs again and again gives a ladder of problems; a plan for one of them is a plan for all finer ones.

# Pins of the widest net that counts: wider ones say little about which groups belong together.
WIDEST_NET = 40

# A pair of groups is merged up to this share of an accelerator's even part of all work, and of its memory.
HEAVIEST = 0.25


@dataclass(frozen=True, slots=True)
class Level:
    """A problem, and where each of its groups went in the next coarser one (None at the top)."""

    groups: Groups
    cluster_of: tuple[int, ...] | None


def ladder(groups: Groups, fewest: int, rng: random.Random, device_of: Sequence[int] | None = None) -> list[Level]:
    """Problems from fine to coarse, until `fewest` groups are left or hardly any pair may be merged.

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
    """The cluster of each group: pairs that exchange much for little work, chosen greedily and partly by chance."""
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
    """For each group, the cost of what it exchanges with each other group."""
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
    """The problem with clusters as its groups, and without the stage order, which clusters may break."""

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
