"""Large-neighbourhood search: annealing over the devices of groups, restarted from the best plan and from others.

Cycles take turns: from the best plan so far, from the linearised DP's plan, from a random assignment; every round is
twice as long as the one before, since some inputs need many tries and others long ones. With several threads each
cycle runs once per thread with a random stream of its own. Small inputs run uncompiled, so that they do not pay for
numba; larger ones are compiled once and cached.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from typing import Any

from ...instances.result import Stop, WarmStart, Warmth, relative_gap
from ..contract import Outcome, Request
from . import annealing
from .groups import Groups, contract
from .linear_dp import PLANNER as LINEAR_DP
from .options import CYCLES, OPTIONS, STEPS

COMPILED_FROM = 40
"""Groups from which on compiling pays."""

SCHEDULES = ((1e-2, 2e-6, 4), (2e-2, 2e-6, 4), (1e-2, 1e-5, 7))
"""(start and end temperature relative to the value, squarings): from the best plan, the DP's, a random one."""

MAX_STEPS = 64_000_000

CHUNK = 200_000
"""Steps between looks at the clock, compiled."""


class Lns:
    name = "lns"
    title = "large-neighbourhood search by annealing"
    problem_kind = "placement"
    exact = False
    options = OPTIONS[name]

    def plan(self, request: Request) -> Outcome:
        return _Search(request).outcome()


PLANNER = Lns()


class _Search:
    def __init__(self, request: Request) -> None:
        options = request.options
        self.request = request
        self.contiguous = not options.get("non_contiguous", False)
        self.groups = contract(request.problem, self.contiguous, options.get("objective", "max-load"))
        self.cycles: int = options.get("cycles", CYCLES.default)
        self.steps: int = options.get("steps", STEPS.default)
        self.rng = random.Random(request.limits.seed)
        self.best: list[int] | None = None
        self.value = math.inf
        self.linear: list[int] | None = None
        self.interrupted = False
        self.warm_start = WarmStart()

    def outcome(self) -> Outcome:
        self._starts()
        if self.best is None:
            return Outcome(Stop.COMPLETED, messages=("no start fits the memory",), warm_start=self.warm_start)
        stop = Stop.COMPLETED
        threads = self.request.limits.threads or 1
        kernels = [_Kernel(self.groups, self.rng.getrandbits(62) | 1) for _ in range(threads)]
        for cycle in range(self.cycles):
            if self.request.out_of_time() or self._good_enough():
                stop = Stop.TIME if self.request.out_of_time() else Stop.COMPLETED
                break
            self._cycle(kernels, cycle)
        return Outcome(stop, self.groups.plan(self.request.problem, self.best), self.value, warm_start=self.warm_start)

    def _good_enough(self) -> bool:
        """Whoever asked has a bound on the board and a gap that satisfies him."""
        gap = relative_gap(self.value, self.request.board.bound)
        return self.value == 0 or (gap is not None and gap <= self.request.limits.rel_gap)

    def _cycle(self, kernels: Sequence[_Kernel], cycle: int) -> None:
        """One annealing run per thread; the compiled sweep leaves Python alone meanwhile."""
        from concurrent.futures import ThreadPoolExecutor

        kind = cycle % len(SCHEDULES)
        steps = min(MAX_STEPS, self.steps * 2 ** (cycle // len(SCHEDULES)))
        assert self.best is not None
        starts = {0: [self.best], 1: [self.linear or self.best]}.get(kind)
        if starts is None or (self.contiguous and kind == 2):
            starts = [self.best] if self.contiguous else [self._random_start() for _ in kernels]
        with ThreadPoolExecutor(len(kernels)) as pool:
            tasks = [
                pool.submit(self._anneal, kernel, starts[i % len(starts)], *SCHEDULES[kind], steps)
                for i, kernel in enumerate(kernels)
            ]
            try:
                found = [task.result() for task in tasks]
            except BaseException:
                self.interrupted = True  # an interrupt: the threads see it at their next look at the clock
                raise
        for device_of in found:
            if device_of is not None:
                self._take(device_of)

    def _starts(self) -> None:
        """The warm start and the linearised DP's plan, which is contiguous and so fits both variants."""
        if self.request.warm_start is not None:
            device_of = self.groups.device_of(self.request.problem, self.request.warm_start)
            fine = device_of is not None and self.groups.fits(device_of) and self._stages(device_of) is not None
            outcome = Warmth.ACCEPTED if fine else Warmth.REJECTED
            self.warm_start = WarmStart(outcome, value=self.groups.value(device_of) if fine and device_of else None)
            if fine and device_of is not None:
                self._take(device_of)
        quick = Request(
            self.request.problem,
            {"objective": self.request.options.get("objective", "max-load"), "orders": 2},
            self.request.limits,
        )
        plan = LINEAR_DP.plan(quick).plan
        device_of = None if plan is None else self.groups.device_of(self.request.problem, plan)
        if device_of is not None:
            self.linear = device_of
            self._take(device_of)
        if self.best is None and not self.contiguous:
            for _ in range(50):
                self._take(self._random_start())

    def _take(self, device_of: Sequence[int]) -> None:
        value = self.groups.value(device_of)
        if value < self.value and self.groups.fits(device_of):
            self.best, self.value = list(device_of), value
            plan = self.groups.plan(self.request.problem, self.best)
            self.request.board.post(plan, value, source=Lns.name)

    def _random_start(self) -> list[int]:
        groups = self.groups
        choices = []
        for g in range(groups.count):
            allowed = list(range(groups.accelerators if groups.supported[g] else 0))
            allowed += range(groups.accelerators, groups.devices) if not allowed or groups.cpu_work[g] == 0 else ()
            choices.append(self.rng.choice(allowed))
        return choices

    def _stages(self, device_of: Sequence[int]) -> list[int] | None:
        """The stage of each device in an order that the plan obeys; None where its devices form a circle."""
        from graphlib import CycleError, TopologicalSorter

        sorter: TopologicalSorter[int] = TopologicalSorter(dict.fromkeys(range(self.groups.devices), ()))
        for u, v in self.groups.arcs:
            if device_of[u] != device_of[v]:
                sorter.add(device_of[v], device_of[u])
        try:
            order = list(sorter.static_order())
        except CycleError:
            return None
        return [order.index(d) for d in range(self.groups.devices)]

    def _anneal(
        self, kernel: _Kernel, start: Sequence[int], hot: float, cold: float, squarings: int, wanted: int
    ) -> list[int] | None:
        """The best assignment met on one run, if it is better than what we have; runs in a thread."""
        stages = self._stages(start)
        if stages is None:
            return None
        steps = wanted if kernel.compiled else min(wanted, 1_000 * self.groups.count)
        chunk = CHUNK if kernel.compiled else 5_000
        chunks = max(1, -(-steps // chunk))
        kernel.set(start, stages, self.contiguous)
        factor = (cold / hot) ** (1 / chunks)
        best, value = None, self.value
        for number in range(chunks):
            found = kernel.run(chunk, hot * factor**number, hot * factor ** (number + 1), squarings, value)
            if found is not None and self.groups.fits(found) and self.groups.value(found) < value:
                best, value = found, self.groups.value(found)
            if self.interrupted or self.request.out_of_time():
                break
        return best


class _Kernel:
    """The arrays of one problem, and the sweep over them, compiled or not."""

    def __init__(self, groups: Groups, seed: int) -> None:
        import numpy as np

        self.groups = groups
        self.compiled = groups.count >= COMPILED_FROM
        self.sweep: Callable[..., float] = _compiled_sweep() if self.compiled else annealing.sweep
        self.random_state = np.array([seed], dtype=np.uint64) if self.compiled else [seed]
        self.times = np.array(groups.times)
        self.cpu_times = np.array(groups.cpu_times)
        self.sizes = np.array(groups.sizes)
        self.supported = np.array(groups.supported)
        self.capacity = math.inf if groups.memory is None else groups.memory
        self.net_cost = np.array([cost for _, cost, _ in groups.nets], dtype=np.float64)
        self.net_part = np.array([part for _, _, part in groups.nets], dtype=np.int64)
        self.net_start, self.net_pins = _ragged([pins for pins, _, _ in groups.nets])
        nets_of: list[list[int]] = [[] for _ in range(groups.count)]
        near: list[dict[int, None]] = [{} for _ in range(groups.count)]
        for e, (pins, _, _) in enumerate(groups.nets):
            for g in pins:
                nets_of[g].append(e)
                near[g].update(dict.fromkeys(h for h in pins if h != g))
        self.of_start, self.of_nets = _ragged(nets_of)
        self.near_start, self.near = _ragged([list(row) for row in near])
        before: list[list[int]] = [[] for _ in range(groups.count)]
        after: list[list[int]] = [[] for _ in range(groups.count)]
        for u, v in groups.arcs:
            before[v].append(u)
            after[u].append(v)
        self.before_start, self.before = _ragged(before)
        self.after_start, self.after = _ragged(after)
        self.ordered = False

    def set(self, device_of: Sequence[int], stages: Sequence[int], ordered: bool) -> None:
        import numpy as np

        groups = self.groups
        self.ordered = ordered
        self.stage_of_device = np.array(stages, dtype=np.int64)
        self.device = np.array(device_of, dtype=np.int64)
        self.load = np.array(groups.loads(device_of))
        self.memory = np.zeros(groups.devices)
        self.held = np.zeros((len(groups.nets), groups.devices), dtype=np.int64)
        for g, d in enumerate(device_of):
            if d < groups.accelerators:
                self.memory[d] += groups.sizes[g]
        for e, (pins, _, _) in enumerate(groups.nets):
            for g in pins:
                self.held[e, device_of[g]] += 1
        self.reference = float(self.load.sum(axis=0).max()) or 1.0

    def run(self, steps: int, hot: float, cold: float, squarings: int, value: float) -> list[int] | None:
        """Anneal; the best assignment if it is better than `value`."""
        best = self.device.copy()
        # Rounding adds up over many moves: an improvement must be more than that.
        found = self.sweep(
            self.random_state, steps, hot, cold, squarings, self.reference, self.device, self.held, self.load,
            self.memory, best, value * (1 - 1e-12), self.times, self.cpu_times, self.sizes, self.supported,
            self.capacity, self.groups.accelerators, self.net_start, self.net_pins, self.net_cost, self.net_part,
            self.of_start, self.of_nets, self.near_start, self.near, self.before_start, self.before,
            self.after_start, self.after, self.stage_of_device, self.ordered,
        )  # fmt: skip
        return [int(d) for d in best] if found < value * (1 - 1e-12) else None


def _ragged(rows: Sequence[Sequence[int]]) -> tuple[Any, Any]:
    """Rows as (starts, entries)."""
    import numpy as np

    starts = np.zeros(len(rows) + 1, dtype=np.int64)
    starts[1:] = np.cumsum([len(row) for row in rows])
    return starts, np.array([entry for row in rows for entry in row], dtype=np.int64)


_cache: list[Callable[..., float]] = []


def _compiled_sweep() -> Callable[..., float]:
    """numba, imported and asked only once; the machine code is kept on disk."""
    if not _cache:
        import numba

        shift = numba.njit(cache=True, nogil=True)(annealing._shift)
        annealing._shift = shift
        _cache.append(numba.njit(cache=True, nogil=True)(annealing.sweep))
    return _cache[0]
