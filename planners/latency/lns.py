"""Large-neighbourhood search for latency: annealing over the pieces of classes and of whole ends of pieces.

Cycles start by turns from the best plan and from the other starts (greedy, all on the CPUs, the linearised DP's split);
with several threads each makes its own run.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import replace

from ...instances.plan import PlacementPlan
from ...instances.result import Stop, WarmStart, Warmth, relative_gap
from ..contract import Board, Outcome, Request
from .baselines import LINEAR_DP
from .greedy import PLANNER as GREEDY
from .incumbent import Incumbent, lower_bound, world_of
from .options import CYCLES, LNS_OPTIONS, STEPS
from .world import Annealing

HOT, WARM, COLD = 0.1, 0.02, 1e-5
"""Temperatures relative to the value: from elsewhere, from the best plan, at the end."""

CHUNK, PLAIN_CHUNK = 50_000, 500
"""Steps between looks at the clock, compiled and not."""

PLAIN_STEPS = 4_000
"""Steps of a cycle where nothing is compiled: such problems are tiny."""

START_SHARE = 0.25
"""Of the time that is left, for the linearised DP."""


class LatencyLns:
    name = "latency-lns"
    title = "large-neighbourhood search for latency"
    problem_kind = "placement"
    exact = False
    options = LNS_OPTIONS

    def plan(self, request: Request) -> Outcome:
        return _Search(request).outcome()


PLANNER = LatencyLns()


class _Search:
    def __init__(self, request: Request) -> None:
        self.request = request
        self.world = world_of(request)
        self.cycles: int = request.options.get("cycles", CYCLES.default)
        self.steps: int = request.options.get("steps", STEPS.default)
        self.rng = random.Random(request.limits.seed)
        self.incumbent = Incumbent(request, self.world, LatencyLns.name)
        self.bound = lower_bound(request.problem)
        self.starts: list[list[int]] = []
        self.interrupted = False
        self.warm_start = WarmStart()

    def outcome(self) -> Outcome:
        self._take_warm_start()
        self._take_starts()
        stop = Stop.COMPLETED
        for cycle in range(self.cycles if self.starts and self.world.slots else 0):
            if self._good_enough():
                break
            if self.request.out_of_time():
                stop = Stop.TIME
                break
            self._cycle(cycle)
        messages = ["no start fits the memory"] if self.incumbent.place is None else []
        return self.incumbent.outcome(stop, *messages, warm_start=self.warm_start)

    def _good_enough(self) -> bool:
        bounds = [bound for bound in (self.bound, self.request.board.bound) if bound is not None]
        gap = relative_gap(self.incumbent.value, max(bounds)) if bounds and self.starts else None
        return self.incumbent.value == 0 or (gap is not None and gap <= max(self.request.limits.rel_gap, 1e-9))

    # ---- starts ---------------------------------------------------------------------------------------

    def _take_warm_start(self) -> None:
        if self.request.warm_start is None:
            return
        place = self.world.places(self.request.warm_start)
        if place is None or not self._take(place):
            self.warm_start = WarmStart(Warmth.REJECTED)
        else:
            self.warm_start = WarmStart(Warmth.ACCEPTED, value=self.world.latency(place))

    def _take_starts(self) -> None:
        """The linearised DP is quick unless the graph is large; its share of the time is limited."""
        self._take([0] * len(self.request.problem.nodes))
        self._borrow(GREEDY.plan, self.request)
        if len(self.request.problem.nodes) <= 1000:
            left = self.request.seconds_left()
            limits = self.request.limits
            if left is not None:
                limits = replace(limits, time_limit_s=self.request.board.seconds + START_SHARE * left)
            self._borrow(LINEAR_DP.plan, replace(self.request, limits=limits))

    def _borrow(self, planner: Callable[[Request], Outcome], request: Request) -> None:
        board = Board(started=request.board.started)
        plan = planner(replace(request, board=board, warm_start=None)).plan
        place = self.world.places(plan) if isinstance(plan, PlacementPlan) else None
        if place is not None:
            self._take(place)

    def _take(self, place: list[int]) -> bool:
        """A start that breaks no rule; the best is an incumbent from now on."""
        if not self.world.fits(place) or not math.isfinite(self.world.latency(place)):
            return False
        if place not in self.starts:
            self.starts.append(place)
        self.incumbent.offer(place)
        return True

    # ---- runs -----------------------------------------------------------------------------------------

    def _cycle(self, cycle: int) -> None:
        """One run per thread; compiled annealing leaves Python alone meanwhile."""
        from concurrent.futures import ThreadPoolExecutor

        threads = self.request.limits.threads or 1
        runs = [self._run(cycle * threads + t, random.Random(self.rng.getrandbits(62))) for t in range(threads)]
        with ThreadPoolExecutor(threads) as pool:
            tasks = [pool.submit(run) for run in runs]
            try:
                found = [task.result() for task in tasks]
            except BaseException:
                self.interrupted = True  # an interrupt: the threads see it at their next look at the clock
                raise
        for place in found:
            if place is not None:
                self.incumbent.offer(place)

    def _run(self, number: int, rng: random.Random) -> Callable[[], list[int] | None]:
        best = self.incumbent.place
        assert best is not None, "there is a start"
        from_best = number % 2 == 1
        start = best if from_best else self.starts[number // 2 % len(self.starts)]
        steps = int(self.steps * 1.5 ** min(number // 2, 12)) if self.world.compiled else PLAIN_STEPS
        return lambda: self._anneal(start, WARM if from_best else HOT, steps, rng)

    def _anneal(self, start: Sequence[int], hot: float, steps: int, rng: random.Random) -> list[int] | None:
        """The best placement met, or None."""
        annealing = Annealing(self.world, rng.getrandbits(62))
        annealing.start(start)
        scale, value = self.incumbent.value, math.inf
        chunks = max(1, -(-steps // (CHUNK if self.world.compiled else PLAIN_CHUNK)))
        factor = (COLD / hot) ** (1 / chunks)
        best: list[int] | None = None
        for number in range(chunks):
            if self.interrupted or self.request.out_of_time():
                break
            top = scale * hot * factor**number
            found = annealing.run(steps // chunks, top, top * factor, value)
            if found is not None:
                best, value = found, annealing.latency(found)
        return best
