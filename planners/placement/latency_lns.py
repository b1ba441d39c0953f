"""Large-neighbourhood search for latency: annealing that moves classes, and whole ends of pieces, to other pieces.

Cycles start by turns from the best plan and from the other starts (greedy, all on the CPUs, the best row of cells, the
linearised DP's split); with several threads each makes its own run.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from ...formulations.tarnawski_latency.atoms import atoms_of
from ...formulations.tarnawski_latency.cells import stages_of_row
from ...instances.base import clock
from ...instances.placement.plan import PlacementPlan
from ..contract import Board, FunctionPlanner, Outcome, Request
from ..registry import LATENCY_CYCLES, LATENCY_STEPS
from .annealing import LargeNeighbourhoodSearch, Run
from .latency import LINEAR_DP, Annealing, Incumbent, World, plan_greedily, world_of

# Temperatures relative to the value: at the beginning from other starts and from the best plan, and at the end.
HOT, WARM, COLD = 0.1, 0.02, 1e-5

# Steps between looks at the clock, compiled and not.
CHUNK, PLAIN_CHUNK = 50_000, 500

# Steps of a cycle where nothing is compiled: such problems are tiny.
PLAIN_STEPS = 4_000

# Share of the time left for the linearised dynamic program.
START_SHARE = 0.25


class _Search(LargeNeighbourhoodSearch):
    def __init__(self, request: Request) -> None:
        self.world = world_of(request)
        super().__init__(
            request, Incumbent(request, self.world), request.options.get("cycles", LATENCY_CYCLES.default)
        )
        self.steps: int = request.options.get("steps", LATENCY_STEPS.default)
        self.starts: list[list[int]] = []

    # ---- starts ---------------------------------------------------------------------------------------

    def read(self, plan: PlacementPlan) -> list[int] | None:
        place = self.world.places(plan)
        return place if place is not None and self._take(place) else None

    def take_starts(self) -> None:
        """Take all on the CPUs, the greedy plan, the rows of cells, and the linearised DP's split, which is quick only
        for graphs that are not large: it is limited to 1000 nodes and a share of the time."""
        self._take([0] * len(self.request.problem.nodes))
        self._borrow(plan_greedily, self.request)
        with clock.within(self.request.seconds_left()):
            places = list(cell_places(self.world))
        for place in places:
            self._take(place)
        if len(self.request.problem.nodes) <= 1000:
            left = self.request.seconds_left()
            limits = self.request.limits
            if left is not None:
                limits = replace(limits, time_limit_s=self.request.board.seconds + START_SHARE * left)
            self._borrow(LINEAR_DP.plan, replace(self.request, limits=limits))
        if not self.starts or not self.world.slots:
            self.cycles = 0  # there is nothing to move, or nowhere to move it

    def _borrow(self, planner: Callable[[Request], Outcome], request: Request) -> None:
        """Take the plan of another planner, which posts on a board of its own."""
        board = Board(started=request.board.started)
        plan = planner(replace(request, board=board, warm_start=None)).plan
        place = self.world.places(plan) if isinstance(plan, PlacementPlan) else None
        if place is not None:
            self._take(place)

    def _take(self, place: list[int]) -> bool:
        """Keep and offer a start that breaks no rule; False: it breaks one."""
        if not self.world.fits(place) or not math.isfinite(self.world.latency(place)):
            return False
        if place not in self.starts:
            self.starts.append(place)
        self.incumbent.offer(place)
        return True

    # ---- runs -----------------------------------------------------------------------------------------

    def run(self, cycle: int, thread: int, rng: random.Random) -> Run:
        number = cycle * (self.request.limits.threads or 1) + thread
        best = self.incumbent.best
        assert best is not None, "there is a start"
        from_best = number % 2 == 1
        start = best if from_best else self.starts[number // 2 % len(self.starts)]
        steps = int(self.steps * 1.5 ** min(number // 2, 12)) if self.world.compiled else PLAIN_STEPS
        return lambda: self._anneal(start, WARM if from_best else HOT, steps, rng)

    def _anneal(self, start: Sequence[int], hot: float, steps: int, rng: random.Random) -> list[int] | None:
        """The best placement met, or None."""
        annealing = Annealing(self.world, start, rng.getrandbits(62))
        chunks = max(1, -(-steps // (CHUNK if self.world.compiled else PLAIN_CHUNK)))

        def anneal(hot: float, cold: float, value: float) -> tuple[list[int], float] | None:
            better = annealing.run(steps // chunks, hot, cold, value)
            return None if better is None else (better, self.world.latency(better, annealing.scratch))

        scale = self.incumbent.value
        return self.cool(anneal, chunks, scale * hot, scale * COLD, math.inf)


# A start for graphs that are rows of cells: a plan of the row that the bound by cells has chosen.


def cell_places(world: World) -> Iterator[list[int]]:
    """Placements with one piece per accelerator, and with as many as there may be, where the accelerators have room."""
    for pieces in sorted({1, world.pieces}):
        stages = stages_of_row(atoms_of(world.problem, pieces))
        place = None if stages is None else _placed(world, stages)
        if place is not None:
            yield place


def _placed(world: World, stages: list[int | None]) -> list[int] | None:
    """Each piece on the fullest accelerator that has room for it."""
    sizes = [0.0] * (1 + max((stage for stage in stages if stage is not None), default=-1))
    for v, stage in enumerate(stages):
        if stage is not None:
            sizes[stage] += world.node_sizes[v]
    used, count = [0.0] * world.accelerators, [0] * world.accelerators
    slots = []
    for size in sizes:
        fitting = [
            d for d in range(world.accelerators) if count[d] < world.pieces and used[d] + size <= world.capacity
        ]
        if not fitting:
            return None
        d = max(fitting, key=lambda d: used[d])
        slots.append(1 + d * world.pieces + count[d])
        used[d] += size
        count[d] += 1
    return [0 if stage is None else slots[stage] for stage in stages]


PLANNER = FunctionPlanner(lambda request: _Search(request).outcome())
