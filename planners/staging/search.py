"""The least limit on all loads: decisions by bisection, each snapped to a plan that is there."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from ...instances.staging.plan import StagedPlan
from . import trace
from .layers import worst_load
from .model import PiperModel
from .tables import build_tables, loop
from .trace import Step

STRICT = 1e-12
"""Relative: a plan is optimal when no plan is better by more than this."""

NEAR = 1e-3
"""Relative distance of value and bound from which on the value itself is put to the test."""

FIRST_TRY, FASTER = 1.02, 2.0
"""The first limit is so many times the bound of work; what it is above that bound then grows by so many times itself,
again and again. Low limits are decided fastest."""

RELAXED_GAP = 1e-7
"""Relative: how sharply the bound of relaxed knapsacks is located."""

MAX_SUMS = 30_000_000
"""Entries (downset, devices, sum of degrees) where the degrees must sum to a number exactly."""


class TooManySumsError(Exception):
    """The degrees must sum to a number exactly, and the table of all sums would be too large."""


@dataclass
class Search:
    """Decisions for one model and one cluster."""

    model: PiperModel
    exact: bool = True
    """Knapsacks solved to the optimum, or by the published greedy."""
    tick: Callable[[], None] = lambda: None
    decisions: int = 0
    settled: bool = True
    """Was the last answer a proof? Too hard knapsacks count as not fitting."""
    bound: float = 0.0
    """No plan has a smaller value."""

    def __post_init__(self) -> None:
        import numpy as np

        problem = self.model.problem
        self.tables = build_tables(self.model, self.tick)
        shape = (self.model.downsets, problem.devices + 1)
        if problem.exact_batches:
            if math.prod(shape) * (problem.micro_batches + 1) > MAX_SUMS:
                raise TooManySumsError
            self.came = np.zeros((*shape, problem.micro_batches + 1, 3), dtype=np.int32)
        else:
            self.front_size = np.zeros(shape[0], dtype=np.int64)
            self.front = np.zeros((*shape, 6), dtype=np.int32)

    def decide(self, limit: float, relaxed: bool = False) -> bool:
        """Is there a plan with all loads within the limit? `steps` tells which."""
        from . import kernel

        model, tables = self.model, self.tables
        self.decisions += 1
        mode = kernel.RELAXED if relaxed else kernel.EXACT if self.exact else kernel.GREEDY
        given = (tables.layers, tables.table, tables.cluster, mode, limit)
        if model.problem.exact_batches:
            found, undecided = loop(model, "decide_sums")(*given, self.came)
            self.least_devices = int(found)
        else:
            found, undecided = loop(model, "decide")(*given, model.rest_work, self.front_size, self.front)
        self.tick()
        self.settled = bool(found) or not undecided
        return bool(found)

    def steps(self) -> list[Step]:
        """The stages of the plan that the last decision found."""
        if self.model.problem.exact_batches:
            return trace.steps_of_sums(self.tables, self.came, self.least_devices)
        return trace.steps_of_fronts(self.tables, self.front)

    def value(self, steps: list[Step]) -> float:
        return max(trace.load(self.tables, step) for step in steps)

    def plan(self, steps: list[Step]) -> StagedPlan:
        return trace.plan_of(self.tables, steps, self.exact)

    def lower_bound(self) -> float:
        """All work on all devices, and no faster than one replica per micro-batch."""
        return float(self.model.rest_work[0]) / self.model.problem.devices

    def best(
        self, hear: Callable[[float, float, list[Step]], None] | None = None
    ) -> tuple[float, list[Step]] | None:
        """The optimum and its stages in execution order; None where nothing fits."""
        low = self.bound = self.lower_bound()
        most = worst_load(self.tables.layers, float(self.tables.cluster.sync.max()))
        limit = low * FIRST_TRY or most
        while not self.decide(limit := min(limit, most)):
            if limit >= most:
                return None
            low = self._missed(limit)
            limit += FASTER * (limit - self.lower_bound())
        steps = self.steps()
        high = min(limit, self.value(steps))
        while True:
            if hear is not None:
                hear(high, self.bound, steps)
            close = high - low <= NEAR * high
            limit = high * (1 - STRICT) if close else math.sqrt(low * high) if low > 0 else high / 2
            if limit <= low:
                break
            if self.decide(limit):
                steps = self.steps()
                high = min(limit, self.value(steps))
                continue
            low = self._missed(limit)
            if close:
                break
        if self.bound < high * (1 - 2 * STRICT):
            self._relax(high)
        if self.bound >= high * (1 - 2 * STRICT):
            self.bound = high
        return high, steps

    def _missed(self, limit: float) -> float:
        """There is no plan below: a bound, where that is a proof."""
        if self.settled and self.exact:
            self.bound = max(self.bound, limit)
        return limit

    def _relax(self, high: float) -> None:
        """Raise the bound: below which limit not even the relaxed knapsacks allow a plan?"""
        low = self.bound
        while high - low > RELAXED_GAP * high:
            middle = (low + high) / 2
            low, high = (low, middle) if self.decide(middle, relaxed=True) else (middle, high)
        self.bound = max(self.bound, low)
