"""Large-neighbourhood search: annealing over the devices of groups.

Three kinds of runs take turns; a round of all is twice as long as the one before, since some inputs need many tries
and others long ones:
- from scratch: hot, from a random assignment;
- around the best plan: short, and sharp about the fullest device;
- polishing: a long annealing from the best plan, where loads are nearly equal already.

Contiguous plans keep their stage order, so they are only polished, from the best plan and from the linearised DP's.
With several threads each makes its own run. Small inputs run uncompiled: they would pay more for numba than it gives.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from ....instances.placement.plan import PlacementPlan
from ...contract import Outcome, Request
from ...registry import CYCLES, STEPS
from ..groups import FAR, Groups, Incumbent, capped, groups_of, is_contiguous, objective_of
from .kernel import Kernel
from .linear_dp import PLANNER as LINEAR_DP
from .neighbourhood import LargeNeighbourhoodSearch, Run

# Steps of the longest run.
MAX_STEPS = 64_000_000

# Steps between looks at the clock, compiled and uncompiled.
CHUNK, PLAIN_CHUNK = 200_000, 2_000

# Temperatures at the start and at the end, relative to the value; squarings of the power mean.
Schedule = tuple[float, float, int]

TOP: Schedule = (2e-2, 1e-5, 4)
SHARP: Schedule = (5e-3, 1e-5, 7)
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
            return lambda: None if start is None else self._anneal(start, POLISH, steps, rng)
        kind, round_ = cycle % 3, cycle // 3
        if kind == 1 and best is not None:
            return lambda: self._anneal(best, SHARP, self._steps(round_) // 10, rng)
        if kind == 2 and best is not None:
            return lambda: self._anneal(best, POLISH, self._steps(round_), rng)
        start = _random_devices(self.groups, rng)
        return lambda: self._anneal(start, TOP, self._steps(round_) // 10, rng)

    def _steps(self, round_: int) -> int:
        return min(MAX_STEPS, self.steps << min(round_, 10))

    def _anneal(self, start: Sequence[int], schedule: Schedule, steps: int, rng: random.Random) -> list[int]:
        """The best assignment met, or the start."""
        hot, cold, squarings = schedule
        groups = capped(self.groups, FAR * self.incumbent.value)  # loads are kept up to date by differences
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
