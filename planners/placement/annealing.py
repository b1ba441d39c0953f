"""`lns`: large-neighbourhood search by annealing over the devices of groups, and what such searches share.

`LargeNeighbourhoodSearch` holds starts, cycles of runs on all threads, and when a value is good enough; the search for
latency is one, too. How runs begin and cool may be changed freely: no proof depends on it.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...instances.base.compiled import compiled as machine_code
from ...instances.base.compiled import repays_loading
from ...instances.base.graph import adjacency
from ...instances.base.result import StartOutcome, Stop, WarmStart, relative_gap
from ...instances.placement.plan import PlacementPlan
from ..contract import FunctionPlanner, Outcome, Request
from ..registry import CYCLES, STEPS
from ..search import Incumbent as AnyIncumbent
from . import annealing_kernel
from .groups import FAR, Groups, Incumbent, capped, groups_of, is_contiguous, objective_of
from .heuristics import plan_linear_dp

# Relative gap to a bound at which every search ends.
ENOUGH = 1e-9

# Finds an assignment, in a thread of its own.
Run = Callable[[], "list[int] | None"]

# Anneals between two temperatures; gives a better assignment than of a value, and its own value.
Anneal = Callable[[float, float, float], "tuple[list[int], float] | None"]


class LargeNeighbourhoodSearch(ABC):
    """With several threads each makes its own run; after a cycle their plans are offered to the incumbent."""

    def __init__(self, request: Request, incumbent: AnyIncumbent, cycles: int) -> None:
        self.request = request
        self.incumbent = incumbent
        self.cycles = cycles
        self.rng = random.Random(request.limits.seed)
        self.warm_start = WarmStart()
        self._interrupted = False

    @abstractmethod
    def read(self, plan: PlacementPlan) -> list[int] | None:
        """The assignment of a warm start; None where it is not one that the search can start from."""

    @abstractmethod
    def take_starts(self) -> None:
        """Offer plans that are quick to make; set `cycles` to 0 where a search cannot improve on them."""

    @abstractmethod
    def run(self, cycle: int, thread: int, rng: random.Random) -> Run:
        """What one thread does in a cycle. It has to end soon after `ended` has become true."""

    @property
    def ended(self) -> bool:
        return self._interrupted or self.request.out_of_time()

    def outcome(self) -> Outcome:
        if self.request.warm_start is not None:
            start = self.read(self.request.warm_start)
            self.warm_start = WarmStart(StartOutcome.REJECTED)
            if start is not None:
                self.warm_start = WarmStart(StartOutcome.ACCEPTED, value=self.incumbent.value_of(start))
                self.incumbent.offer(start)
        self.take_starts()
        stop = Stop.COMPLETED
        for cycle in range(self.cycles):
            if self._good_enough():
                break
            if self.request.out_of_time():
                stop = Stop.TIME
                break
            self._cycle(cycle)
        messages = ["no start fits the memory"] if self.incumbent.best is None else []
        return self.incumbent.outcome(stop, *messages, warm_start=self.warm_start)

    def _good_enough(self) -> bool:
        """The value meets our own bound, or one on the board within the gap that was asked for."""
        value = self.incumbent.value
        bounds = [bound for bound in (self.incumbent.bound, self.request.board.bound) if bound is not None]
        gap = relative_gap(value, max(bounds)) if bounds else None
        return value == 0 or (gap is not None and gap <= max(self.request.limits.rel_gap, ENOUGH))

    def _cycle(self, cycle: int) -> None:
        """One run per thread; compiled annealing leaves Python alone meanwhile."""
        from concurrent.futures import ThreadPoolExecutor

        threads = self.request.limits.threads or 1
        runs = [self.run(cycle, thread, random.Random(self.rng.getrandbits(62))) for thread in range(threads)]
        with ThreadPoolExecutor(threads) as pool:
            try:
                tasks = [pool.submit(run) for run in runs]
                assignments = [task.result() for task in tasks]
            except BaseException:
                # An interrupt, whenever it comes: the pool waits for the threads, which see this at their next look.
                self._interrupted = True
                raise
        for assignment in assignments:
            if assignment is not None:
                self.incumbent.offer(assignment)

    def cool(self, anneal: Anneal, chunks: int, hot: float, cold: float, value: float) -> list[int] | None:
        """Anneal from `hot` to `cold` in so many chunks, until the search has ended; the best assignment met.

        `anneal` runs a chunk between two temperatures and returns the best that it meets below a value, with its
        value. None: there is nothing better than `value`.
        """
        factor, best = (cold / hot) ** (1 / chunks), None
        for number in range(chunks):
            if self.ended:
                break
            better = anneal(hot * factor**number, hot * factor ** (number + 1), value)
            if better is not None:
                best, value = better
        return best


# ---- annealing of groups: arrays, one state, and the choice of compiled or plain code ------------------------

# Groups from which on compiling pays: the first time it takes seconds, later a moment to load the machine code.
COMPILED_FROM = 40


class Kernel:
    """Anneals one assignment of one problem; not to be shared by threads."""

    def __init__(
        self,
        groups: Groups,
        device_of: Sequence[int],
        seed: int,
        stages: Sequence[int] | None = None,
        compiled: bool | None = None,
    ) -> None:
        """Begin with this assignment; `stages`: the place of each device in the chain that must be kept."""
        self.compiled = repays_loading(groups.count, COMPILED_FROM) if compiled is None else compiled
        plain = annealing_kernel.sweep
        self.sweep: Callable[..., float] = machine_code(annealing_kernel, "sweep") if self.compiled else plain
        self.tables = _tables(groups)
        if stages is not None:
            self.tables = self.tables._replace(stage_of_device=np.array(stages, dtype=np.int64))
        held = np.zeros((len(groups.nets), groups.devices), dtype=np.int32)
        for e, (pins, _, _) in enumerate(groups.nets):
            for g in pins:
                held[e, device_of[g]] += 1
        load, device = np.array(groups.loads(device_of)), np.array(device_of, dtype=np.int64)
        memory = np.bincount(device, groups.sizes, groups.devices)
        moved = np.zeros(annealing_kernel.MAX_BLOCK + 1, dtype=np.int64)
        change, term = np.zeros((groups.parts, 2)), np.zeros_like(load)
        random = np.array([seed | 1], dtype=np.uint64) if self.compiled else [seed | 1]
        self.state = annealing_kernel.State(random, device, held, load, memory, term, change, moved, device.copy())
        self.reference = float(load.sum(axis=0).max()) or 1.0

    def run(self, steps: int, hot: float, cold: float, squarings: int, value: float) -> list[int] | None:
        """Anneal on; the best assignment met, if it is better than `value`."""
        # Rounding adds up over many moves: an improvement must be more than that.
        goal = value * (1 - 1e-12)
        reached = self.sweep(self.tables, self.state, steps, hot, cold, squarings, self.reference, goal)
        return [int(d) for d in self.state.best] if reached < goal else None


def _tables(groups: Groups) -> annealing_kernel.Tables:
    nets_of = adjacency(groups.count, ((g, e) for e, (pins, _, _) in enumerate(groups.nets) for g in pins))
    near = [dict.fromkeys(h for e in nets for h in groups.nets[e][0] if h != g) for g, nets in enumerate(nets_of)]
    return annealing_kernel.Tables(
        np.array(groups.times),
        np.array(groups.cpu_times),
        np.array(groups.sizes),
        np.array(groups.supported),
        groups.capacity,
        groups.accelerators,
        np.array([len(pins) for pins, _, _ in groups.nets], dtype=np.int32),
        np.array([cost for _, cost, _ in groups.nets], dtype=np.float64),
        np.array([part for _, _, part in groups.nets], dtype=np.int64),
        *ragged(nets_of),
        *ragged([list(row) for row in near]),
        *ragged(adjacency(groups.count, ((v, u) for u, v in groups.arcs))),
        *ragged(adjacency(groups.count, groups.arcs)),
        np.zeros(groups.devices, dtype=np.int64),
    )


def ragged(rows: Sequence[Sequence[int]]) -> tuple[Any, Any]:
    """Rows as (starts, entries)."""
    starts = np.zeros(len(rows) + 1, dtype=np.int64)
    starts[1:] = np.cumsum([len(row) for row in rows])
    return starts, np.array([entry for row in rows for entry in row], dtype=np.int64)


# ---- the search ----------------------------------------------------------------------------------------------
# Three kinds of runs take turns; a round of all is twice as long as the one before, since some inputs need many tries
# and others long ones:
# - from scratch: hot, from a random assignment;
# - around the best plan: short, and sharp about the fullest device;
# - polishing: a long annealing from the best plan, where loads are nearly equal already.
#
# Contiguous plans keep their stage order, so they are only polished, from the best plan and from the linearised DP's.
# With several threads each makes its own run. Small inputs run uncompiled: they would pay more for numba than it
# gives.

# Steps of the longest run.
MAX_STEPS = 64_000_000

# Steps between looks at the clock, compiled and uncompiled.
CHUNK, PLAIN_CHUNK = 200_000, 2_000

# Temperatures at the start and at the end, relative to the value; squarings of the power mean.
Schedule = tuple[float, float, int]

TOP: Schedule = (2e-2, 1e-5, 4)
SHARP: Schedule = (5e-3, 1e-5, 7)
POLISH: Schedule = (1e-2, 2e-6, 4)


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
        plan = plan_linear_dp(quick).plan
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
        kernel = Kernel(groups, start, rng.getrandbits(62), self._stages(start) if groups.arcs else None)
        if not kernel.compiled:
            steps = min(steps, 500 * groups.count)
        chunks = max(1, -(-steps // (CHUNK if kernel.compiled else PLAIN_CHUNK)))

        def anneal(hot: float, cold: float, value: float) -> tuple[list[int], float] | None:
            better = kernel.run(steps // chunks, hot, cold, squarings, value)
            return None if better is None or not groups.fits(better) else (better, groups.value(better))

        value = groups.value(start) if groups.fits(start) else float("inf")
        return self.cool(anneal, chunks, hot, cold, value) or list(start)


def _random_devices(groups: Groups, rng: random.Random) -> list[int]:
    """A random device for each group: accelerators for what they support, CPUs for the rest and for what costs them
    nothing."""
    fast, slow = range(groups.accelerators), range(groups.accelerators, groups.devices)
    chosen = []
    for ok, cpu_work in zip(groups.supported, groups.cpu_work, strict=True):
        allowed = [*(fast if ok else ()), *(slow if not ok or cpu_work == 0 else ())]
        chosen.append(rng.choice(allowed or [0]))
    return chosen


PLANNER = FunctionPlanner(lambda request: _Search(request).outcome())
