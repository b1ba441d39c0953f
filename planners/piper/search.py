"""The least limit on all loads: decisions by bisection, each snapped to a plan that is there."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...instances.referee.staged import TRIPS
from ...instances.staged_plan import PlannedStage, StagedPlan
from ...instances.staging import Configuration
from ..compiled import compiled
from ..dp.lattice import held, sums
from .model import ROUNDING, PiperModel

STRICT = 1e-12
"""Relative: a plan is optimal when no plan is better by more than this."""

NEAR = 1e-3
"""Relative distance of value and bound from which on the value itself is put to the test."""

RELAXED_GAP = 1e-7
"""Relative: how sharply the bound of relaxed knapsacks is located."""

PLAIN_UP_TO = 150
"""Downsets times layers up to which the loops run as plain Python."""

MAX_SUMS = 30_000_000
"""Entries (downset, devices, sum of degrees) where the degrees must sum to a number exactly."""

MAX_PAIRS = 40_000_000
FIRST_EXTRAS = 1 << 16


class TooManySumsError(Exception):
    """The degrees must sum to a number exactly, and the table of all sums would be too large."""


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
        most = min(problem.devices, problem.micro_batches)
        self.replicas = self.model.replicas
        self.sync = np.array([self.model.sync_time(int(d)) for d in self.replicas])
        self.rows = option_rows(self.model)
        self.degree = np.array([self.model.degrees[tau] for tau, _ in self.rows], dtype=np.int64)
        self.tables = build_tables(self.model, self.rows, self.sync, most, self.tick)
        shape = (self.model.downsets, problem.devices + 1)
        if problem.exact_batches:
            if math.prod(shape) * (problem.micro_batches + 1) > MAX_SUMS:
                raise TooManySumsError
            self.came = np.zeros((*shape, problem.micro_batches + 1, 3), dtype=np.int32)
        else:
            self.front_size = np.zeros(shape[0], dtype=np.int64)
            self.front = np.zeros((*shape, 6), dtype=np.int32)

    def decide(self, limit: float, relaxed: bool = False) -> bool:
        """Is there a plan with all loads within the limit? Its fronts stay in `front`."""
        problem = self.model.problem
        self.decisions += 1
        mode = self.kernel.RELAXED if relaxed else self.kernel.EXACT if self.exact else self.kernel.GREEDY
        given: tuple[Any, ...] = (
            *(self.tables.layers, self.tables.table, mode, limit, problem.devices, problem.micro_batches),
            *(self.replicas, self.sync, self.degree),
        )
        if problem.exact_batches:
            found, undecided = self.function("decide_sums")(*given, self.came)
            self.least_devices = int(found)
        else:
            room = (self.model.rest_work, self.front_size, self.front)
            found, undecided = self.function("decide")(*given, *room)
        self.tick()
        self.settled = bool(found) or not undecided
        return bool(found)

    def function(self, name: str) -> Callable[..., Any]:
        return function(self.model, name)

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
            if self.settled and self.exact:
                self.bound = max(self.bound, limit)
            low = limit
            if close:
                break
        if self.bound < high * (1 - 2 * STRICT):
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
        if self.model.problem.exact_batches:
            return self._trace_sums()
        j, x, steps = self.model.downsets - 1, 0, []
        while j > 0:
            _, s, p, tau, d, left = (int(value) for value in self.front[j, x])
            steps.append(Step(self._source(p), j, p, tau, d, s))
            j, x = steps[-1].smaller, left
        return steps

    def _trace_sums(self) -> list[Step]:
        j, k, s, steps = self.model.downsets - 1, self.least_devices, self.model.problem.micro_batches, []
        while j > 0:
            p, tau, n = (int(value) for value in self.came[j, k, s])
            d = int(self.replicas[n])
            steps.append(Step(self._source(p), j, p, tau, d, s))
            j, k, s = steps[-1].smaller, k - d * int(self.degree[tau]), s - d
        return steps

    def _source(self, pair: int) -> int:
        return int(self.tables.table.pair_source[pair])

    def plan(self, steps: list[Step]) -> StagedPlan:
        """Stages in execution order, with the options behind their times."""
        return StagedPlan(tuple(self._planned(step) for step in steps))

    def _planned(self, step: Step) -> PlannedStage:
        import numpy as np

        model, t = self.model, self.tables.table
        tau, y = self.rows[step.tau][0], -(-step.suffix // step.replicas)
        choice = np.full(model.layers, -1, dtype=np.int64)
        extra = y - int(t.fastest[step.pair, step.tau])
        given = (self.tables.layers, step.smaller, step.larger, step.tau, y)
        if self.exact and extra > 0:
            budget = float(t.upper[t.extra_start[step.pair, step.tau] + extra - 1])
            # Sums in another order round differently: a hair more, or the choice would not be found again.
            budget += ROUNDING * (float(t.base[step.pair, step.tau]) + budget)
            answer, _ = self.function("exact_knapsack")(*given, budget, choice)
            assert answer == 1, "a choice within this budget was found before"
        else:
            self.function("greedy_choice")(*given, choice)
        ids = {}
        for v in np.flatnonzero(choice >= 0):
            way = model.ways[tau][v][int(choice[v] - model.options.start[tau, v])]
            ids[model.problem.layers[model.order[v]].id] = way.id
        return PlannedStage(tuple(ids), step.replicas, model.degrees[tau], ids)

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


def option_rows(model: PiperModel) -> list[tuple[int, int]]:
    """Rows of options: (number of the degree, number of the replicas or -1 for all).

    Where the options of a layer differ in weights, their costs depend on the number of replicas: a row for each.
    """
    degrees = range(len(model.degrees))
    if model.uniform:
        return [(tau, -1) for tau in degrees]
    return [(tau, n) for tau in degrees for n in range(len(model.replicas))]


def build_tables(
    model: PiperModel, rows: list[tuple[int, int]], sync: Any, most: int, tick: Callable[[], None]
) -> Tables:
    """All stages between nested downsets, with the knapsack of each."""
    import numpy as np

    from . import kernel

    problem, options = model.problem, model.options
    starts, sources = _pairs(model)
    layers = kernel.Layers(
        bits=model.bits,
        option_start=options.start[[tau for tau, _ in rows]],
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
        sync=np.array([0.0 if n < 0 else sync[n] for _, n in rows]),
        only=np.array([n for _, n in rows], dtype=np.int64),
        most=most,
        **_prefixes(model, rows, sync),
        **_borders(model),
    )
    shape = (len(sources), len(rows))
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
    tabulate = function(model, "tabulate")
    at, used = 1, 0
    while at < model.downsets:
        last = min(model.downsets, at + max(1, 2_000_000 // max(1, int(starts[at + 1] - starts[at]))))
        at, used = tabulate(layers, table, at, last, used)
        if at < last:
            more = np.empty(len(table.upper))
            table = table._replace(upper=np.concatenate([table.upper, more]), lower=np.concatenate([table.lower, more]))
        tick()
    return Tables(layers, table, used)


def _prefixes(model: PiperModel, rows: list[tuple[int, int]], sync: Any) -> dict[str, Any]:
    """Sums over downsets of what the fastest options take, where no option gathers anything."""
    import numpy as np

    simple = np.array([not any(_gathers(way) for row in model.ways[tau] for way in row) for tau, _ in rows])
    prefix = np.zeros((len(rows), 6, model.downsets))
    for r, (tau, n) in enumerate(rows):
        if simple[r]:
            price = 0.0 if n < 0 else float(sync[n])
            columns = [_fastest(ways, price) for ways in model.ways[tau]]
            for q, values in enumerate(zip(*columns, strict=True)):
                prefix[r, q] = sums(model.bits, values)
    return {"simple": simple, "prefix": prefix}


def _gathers(way: Configuration) -> bool:
    return any(way.gather_in.values()) or any(way.gather_out.values())


def _fastest(ways: Sequence[Configuration], price: float) -> tuple[float, ...]:
    if not ways:
        return (0.0, 0.0, 0.0, 0.0, 0.0, 1.0)
    best = min(ways, key=lambda way: way.time + price * way.weight_bytes)
    least = min(way.memory_bytes(1) for way in ways)
    cost = best.time + price * best.weight_bytes
    return cost, best.weight_bytes, best.memory_per_batch, best.memory_fixed, least, 0.0


def _borders(model: PiperModel) -> dict[str, Any]:
    """What each downset cuts, and the edges that this is made of."""
    import numpy as np

    problem = model.problem
    number = {i: v for v, i in enumerate(model.order)}
    times = np.array([TRIPS * edge.bytes / problem.bandwidth for edge in problem.edges], dtype=float)
    ends = np.array([(number[u], number[v]) for u, v in problem.arcs], dtype=np.int64).reshape(-1, 2)
    border = np.zeros(model.downsets)
    for (u, v), time in zip(ends, times, strict=True):
        border += time * (held(model.bits, int(v)) > held(model.bits, int(u)))
    return {
        "border": border,
        "octets": np.ascontiguousarray(model.bits).view(np.uint8).reshape(model.downsets, -1),
        "from_layer": ends[:, 0].copy(),
        "to_layer": ends[:, 1].copy(),
        "time_of_edge": times,
    }


def function(model: PiperModel, name: str) -> Callable[..., Any]:
    """A loop of the kernel: compiled, but for models so small that it would not repay the loading."""
    from . import kernel

    plain: Callable[..., Any] = getattr(kernel, name)
    return plain if model.downsets * model.layers <= PLAIN_UP_TO else compiled(kernel, name)


def _pairs(model: PiperModel) -> tuple[Any, Any]:
    import numpy as np

    starts = np.zeros(model.downsets + 1, dtype=np.int64)
    room = min(MAX_PAIRS, model.downsets * (model.downsets - 1) // 2)
    sources = np.empty(room, dtype=np.int32)
    count = function(model, "nested_pairs")(model.bits, room, starts, sources)
    if count < 0:
        raise TooManyPairsError
    return starts, sources[:count].copy()
