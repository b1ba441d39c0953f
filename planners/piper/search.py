"""The least limit on all loads: decisions by bisection, each snapped to a plan that is there."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ...instances.staged_plan import PlannedStage, StagedPlan
from ..compiled import compiled
from .model import PiperModel

STRICT = 1e-12
"""Relative: a plan is optimal when no plan is better by more than this."""

NEAR = 1e-3
"""Relative distance of value and bound from which on the value itself is put to the test."""

RELAXED_GAP = 1e-7
"""Relative: how sharply the bound of relaxed knapsacks is located."""

MAX_PAIRS = 40_000_000
FIRST_EXTRAS = 1 << 16


class TooManyPairsError(Exception):
    """More stages than the tables may hold."""


@dataclass
class Tables:
    """The table of stages for one cost of weights, and what the compiled loops know about layers."""

    layers: Any
    table: Any
    extras: int


@dataclass
class Search:
    """Decisions for one model and one cluster."""

    model: PiperModel
    exact: bool = True
    """Knapsacks solved to the optimum, or by the published greedy."""
    tick: Callable[[], None] = lambda: None
    seconds: dict[str, float] = field(default_factory=dict)
    decisions: int = 0
    settled: bool = True
    """Was the last answer a proof? Too hard knapsacks count as not fitting."""
    bound: float = 0.0
    """No plan has a smaller value."""

    def __post_init__(self) -> None:
        import numpy as np

        from . import kernel

        problem = self.model.problem
        self.kernel = kernel
        self.most = min(problem.devices, problem.micro_batches)
        self.tables = build_tables(self.model, self.most, 0.0, self.tick)
        self.replicas = self.model.replicas
        self.sync = np.array([self.model.sync_time(int(d)) for d in self.replicas])
        self.degree = np.array(self.model.degrees, dtype=np.int64)
        shape = (self.model.downsets, problem.devices + 1)
        self.front_size = np.zeros(shape[0], dtype=np.int64)
        self.front = np.zeros((*shape, 6), dtype=np.int32)

    def decide(self, limit: float, relaxed: bool = False) -> bool:
        """Is there a plan with all loads within the limit? Its fronts stay in `front`."""
        problem = self.model.problem
        self.decisions += 1
        found, undecided = compiled(self.kernel, "decide")(
            self.tables.layers,
            self.tables.table,
            self.kernel.RELAXED if relaxed else self.kernel.EXACT if self.exact else self.kernel.GREEDY,
            limit,
            problem.devices,
            problem.micro_batches,
            self.replicas,
            self.sync,
            self.degree,
            self.model.rest_work,
            self.front_size,
            self.front,
        )
        self.tick()
        self.settled = bool(found) or not undecided
        return bool(found)

    def lower_bound(self) -> float:
        """All work on all devices, and no faster than one replica per micro-batch."""
        return float(self.model.rest_work[0]) / self.model.problem.devices

    def best(self, hear: Callable[[float, float, list[Step]], None] | None = None) -> tuple[float, list[Step]] | None:
        """The optimum and its stages, last to first; None where nothing fits."""
        low = self.bound = self.lower_bound()
        if not self.decide(worst_load(self.tables, float(self.sync.max()))):
            return None
        steps = self.trace()
        high = self.value(steps)
        while True:
            if hear is not None:
                hear(high, self.bound, steps)
            close = high - low <= NEAR * high
            limit = high * (1 - STRICT) if close else math.sqrt(low * high) if low > 0 else high / 2
            if limit <= low:
                break
            if self.decide(limit):
                steps = self.trace()
                high = min(limit, self.value(steps))
                continue
            if self.settled:
                self.bound = max(self.bound, limit)
            low = limit
            if close:
                break
        if not self.exact or self.bound < high * (1 - 2 * STRICT):
            self._relax(high)
        if self.bound >= high * (1 - 2 * STRICT):
            self.bound = high
        return high, steps

    def _relax(self, high: float) -> None:
        """Raise the bound: below which limit not even the relaxed knapsacks allow a plan?"""
        low = self.bound
        while high - low > RELAXED_GAP * high:
            middle = (low + high) / 2
            low, high = (low, middle) if self.decide(middle, relaxed=True) else (middle, high)
        self.bound = max(self.bound, low)

    def trace(self) -> list[Step]:
        """The stages of the plan with the fewest devices, first in execution order first."""
        j, x, steps = self.model.downsets - 1, 0, []
        while j > 0:
            _, s, p, tau, d, left = (int(value) for value in self.front[j, x])
            source = int(self.tables.table.pair_source[p])
            steps.append(Step(source, j, p, tau, d, s))
            j, x = source, left
        return steps

    def value(self, steps: list[Step]) -> float:
        return max(self.load(step) for step in steps)

    def load(self, step: Step) -> float:
        t = self.tables.table
        n = int((self.replicas == step.replicas).argmax())
        total = t.base[step.pair, step.tau] + self.sync[n] * t.weight[step.pair, step.tau]
        y = -(-step.suffix // step.replicas)
        if y > t.fastest[step.pair, step.tau]:
            total += t.upper[t.extra_start[step.pair, step.tau] + y - t.fastest[step.pair, step.tau] - 1]
        return float(total) / step.replicas


@dataclass(frozen=True)
class Step:
    """A stage between two downsets, with its degrees and the sum of degrees of it and all later ones."""

    smaller: int
    larger: int
    pair: int
    tau: int
    replicas: int
    suffix: int


def worst_load(tables: Tables, worst_sync: float) -> float:
    """No stage that fits has a greater load, on any number of replicas."""
    import numpy as np

    t = tables.table
    finite = np.isfinite(t.base)
    if not finite.any():
        return 1.0
    most = float(t.base[finite].max()) + (float(t.upper[: tables.extras].max()) if tables.extras else 0.0)
    return most + float(t.weight[finite].max()) * worst_sync + 1.0


def build_tables(model: PiperModel, most: int, sync: float, tick: Callable[[], None]) -> Tables:
    """All stages between nested downsets, with the knapsack of each."""
    import numpy as np

    from . import kernel

    problem, options = model.problem, model.options
    starts, sources = _pairs(model)
    layers = kernel.Layers(
        bits=model.bits,
        option_start=options.start,
        time=options.time,
        weight=options.weight,
        per_batch=options.per_batch,
        fixed=options.fixed,
        gather_start=options.gather_start,
        gather=options.gather,
        edge_start=options.edge_start,
        edge_layer=options.edge_layer,
        edge_time=options.edge_bytes,
        memory=math.inf if problem.memory_bytes is None else problem.memory_bytes,
        sync=sync,
        most=most,
    )
    shape = (len(sources), len(model.degrees))
    room = FIRST_EXTRAS
    table = kernel.Table(
        starts,
        sources,
        np.full(shape, np.inf),
        np.zeros(shape),
        np.zeros(shape, dtype=np.int32),
        np.zeros(shape, dtype=np.int32),
        np.zeros(shape, dtype=np.int64),
        np.empty(room),
        np.empty(room),
    )
    tabulate = compiled(kernel, "tabulate")
    at, used = 1, 0
    while at < model.downsets:
        last = min(model.downsets, at + max(1, 2_000_000 // max(1, int(starts[at + 1] - starts[at]))))
        at, used = tabulate(layers, table, at, last, used)
        if at < last:
            more = np.empty(len(table.upper))
            table = table._replace(upper=np.concatenate([table.upper, more]), lower=np.concatenate([table.lower, more]))
        tick()
    return Tables(layers, table, used)


def _pairs(model: PiperModel) -> tuple[Any, Any]:
    import numpy as np

    from . import kernel

    starts = np.zeros(model.downsets + 1, dtype=np.int64)
    room = min(MAX_PAIRS, model.downsets * (model.downsets - 1) // 2)
    sources = np.empty(room, dtype=np.int32)
    count = compiled(kernel, "nested_pairs")(model.bits, room, starts, sources)
    if count < 0:
        raise TooManyPairsError
    return starts, sources[:count].copy()
