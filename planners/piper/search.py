"""The least limit on all loads: decisions by bisection, each snapped to a plan that is there."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...instances.checks import NodeId
from ...instances.compiled import compiled
from ...instances.referee.staged import TRIPS
from ...instances.staged_plan import PlannedStage, StagedPlan
from ...instances.staging import Configuration
from ..dp.lattice import held, sums
from .model import ROUNDING, PiperModel

STRICT = 1e-12
"""Relative: a plan is optimal when no plan is better by more than this."""

NEAR = 1e-3
"""Relative distance of value and bound from which on the value itself is put to the test."""

FIRST_TRY, FASTER = 1.02, 2.0
"""The first limit is so many times the bound of work; what it is above that bound then grows by so many times itself,
again and again. Low limits are decided fastest."""

RELAXED_GAP = 1e-7
"""Relative: how sharply the bound of relaxed knapsacks is located."""

PLAIN_UP_TO = 150
"""Downsets times layers up to which the loops run as plain Python."""

MAX_SUMS = 30_000_000
"""Entries (downset, devices, sum of degrees) where the degrees must sum to a number exactly."""

MAX_PAIRS = 200_000_000
"""Of nested downsets: 4 bytes each, 8 where some need a knapsack."""

MAX_ENTRIES = 40_000_000
"""Pairs times degrees that need a knapsack, of 32 bytes each."""

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
        most = worst_load(self.tables.layers, float(self.sync.max()))
        limit = low * FIRST_TRY or most
        while not self.decide(limit := min(limit, most)):
            if limit >= most:
                return None
            low = self._missed(limit)
            limit += FASTER * (limit - self.lower_bound())
        steps = self.trace()
        high = min(limit, self.value(steps))
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
        base, _, fastest, _, start = self._stage(step)
        budget = math.inf
        if self.exact and y > fastest:
            budget = float(t.upper[start + y - fastest - 1])
            # Sums in another order round differently: a hair more, or the choice would not be found again.
            budget += ROUNDING * (base + budget)
        given = (self.tables.layers, step.smaller, step.larger, step.tau, y, budget, choice)
        answer, _ = self.function("exact_knapsack")(*given)
        assert answer == 1, "a choice within this budget was found before"
        ids = {}
        for v in np.flatnonzero(choice >= 0):
            way = model.ways[tau][v][int(choice[v] - model.options.start[tau, v])]
            ids[model.problem.layers[model.order[v]].id] = way.id
        return PlannedStage(tuple(ids), step.replicas, model.degrees[tau], ids)

    def value(self, steps: list[Step]) -> float:
        return max(self.load(step) for step in steps)

    def load(self, step: Step) -> float:
        n = int((self.replicas == step.replicas).argmax())
        base, weight, fastest, _, start = self._stage(step)
        total = base + self.sync[n] * weight
        y = -(-step.suffix // step.replicas)
        if y > fastest:
            total += self.tables.table.upper[start + y - fastest - 1]
        return float(total) / step.replicas

    def _stage(self, step: Step) -> tuple[float, float, int, int, int]:
        given = (self.tables.layers, self.tables.table, step.pair, step.smaller, step.larger, step.tau)
        return self.kernel.stage_at(*given)


@dataclass(frozen=True)
class Step:
    """A stage between two downsets, with its degrees and the sum of degrees of it and all later ones."""

    smaller: int
    larger: int
    pair: int
    tau: int
    replicas: int
    suffix: int


def worst_load(layers: Any, worst_sync: float) -> float:
    """No stage has a greater load, on any number of replicas: all layers in one, the worst options, all edges cut."""
    import numpy as np

    x, total = layers, 1.0
    gathered = np.add.reduceat(np.append(x.gather, 0.0), x.gather_start[:-1]) if len(x.time) else np.zeros(0)
    gathered[np.diff(x.gather_start) == 0] = 0.0
    cost = x.time + worst_sync * x.weight + gathered
    for v in range(x.option_start.shape[1] - 1):
        ways = [cost[row[v] : row[v + 1]].max() for row in x.option_start if row[v] < row[v + 1]]
        total += max(ways, default=0.0)
    return float(total + x.edge_time.sum())


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
    """All pairs of nested downsets, and the knapsacks of those that may need one."""
    import numpy as np

    from . import kernel

    starts, sources = _pairs(model)
    tick()
    layers = _layers(model, rows, sync, most)
    number = function(model, "number_rows")
    row, count = np.empty(0, dtype=np.int32), number(layers, starts, sources, np.empty(0, dtype=np.int32))
    if count * len(rows) > MAX_ENTRIES:
        raise TooManyPairsError
    if count:
        row = np.empty(len(sources), dtype=np.int32)
        number(layers, starts, sources, row)
    tick()
    shape = (count, len(rows))
    table = kernel.Table(
        starts,
        sources,
        row,
        np.full(shape, np.inf),
        np.zeros(shape),
        np.zeros(shape, dtype=np.int32),
        np.zeros(shape, dtype=np.int32),
        np.zeros(shape, dtype=np.int64),
        np.empty(FIRST_EXTRAS),
        np.empty(FIRST_EXTRAS),
    )
    return Tables(layers, *_tabulated(model, layers, table, tick))


def _tabulated(model: PiperModel, layers: Any, table: Any, tick: Callable[[], None]) -> tuple[Any, int]:
    """The table with all rows, and how many extra times it holds."""
    import numpy as np

    if not len(table.row):
        return table, 0
    starts = table.pair_start
    tabulate = function(model, "tabulate")
    at, used = 1, 0
    while at < model.downsets:
        last = min(model.downsets, at + max(1, 2_000_000 // max(1, int(starts[at + 1] - starts[at]))))
        at, used = tabulate(layers, table, at, last, used)
        if at < last:
            more = np.empty(len(table.upper))
            table = table._replace(upper=np.concatenate([table.upper, more]), lower=np.concatenate([table.lower, more]))
        tick()
    return table, used


def _layers(model: PiperModel, rows: list[tuple[int, int]], sync: Any, most: int) -> Any:
    """What the loops know about layers, options and edges."""
    import numpy as np

    from . import kernel

    problem, options = model.problem, model.options
    return kernel.Layers(
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
        **_borders(model, rows),
    )


def _prefixes(model: PiperModel, rows: list[tuple[int, int]], sync: Any) -> dict[str, Any]:
    """Sums over downsets of what the fastest options take, where all options of a layer gather the same."""
    import numpy as np

    alike = [all(_gather_alike(ways) for ways in row) for row in model.ways]
    prefix = np.zeros((len(rows), 7, model.downsets))
    for r, (tau, n) in enumerate(rows):
        if alike[tau]:
            price = 0.0 if n < 0 else float(sync[n])
            columns = [_fastest(ways, price) for ways in model.ways[tau]]
            for q, values in enumerate(zip(*columns, strict=True)):
                prefix[r, q] = sums(model.bits, values)
    return {"simple": np.array([alike[tau] for tau, _ in rows]), "prefix": prefix}


def _gather_alike(ways: Sequence[Configuration]) -> bool:
    return all(way.gather_in == ways[0].gather_in and way.gather_out == ways[0].gather_out for way in ways)


def _fastest(ways: Sequence[Configuration], price: float) -> tuple[float, ...]:
    """In the order of the kernel's names."""
    if not ways:
        return (0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0)
    best = min(ways, key=lambda way: way.time + price * way.weight_bytes)
    least = min(way.memory_bytes(1) for way in ways)
    cost = best.time + price * best.weight_bytes
    several = 1.0 if len(ways) > 1 else 0.0
    return cost, best.weight_bytes, best.memory_per_batch, best.memory_fixed, least, 0.0, several


def _borders(model: PiperModel, rows: list[tuple[int, int]]) -> dict[str, Any]:
    """What the stages on both sides of each downset pay for the edges that it cuts, and for each edge."""
    import numpy as np

    problem, number = model.problem, {i: v for v, i in enumerate(model.order)}
    ends = np.array([(number[u], number[v]) for u, v in problem.arcs], dtype=np.int64).reshape(-1, 2)
    enter, leave = np.zeros((len(rows), model.downsets)), np.zeros((len(rows), model.downsets))
    passing = np.zeros((len(rows), len(ends)))
    for e, ((u, v), edge) in enumerate(zip(ends, problem.edges, strict=True)):
        cut = held(model.bits, int(v)) > held(model.bits, int(u))
        for r, (tau, _) in enumerate(rows):
            into = edge.bytes + _first(model.ways[tau][v], "gather_in", edge.source)
            out = edge.bytes + _first(model.ways[tau][u], "gather_out", edge.target)
            enter[r] += TRIPS * into / problem.bandwidth * cut
            leave[r] += TRIPS * out / problem.bandwidth * cut
            passing[r, e] = TRIPS * (into + out) / problem.bandwidth
    return {
        "enter": enter,
        "leave": leave,
        "octets": np.ascontiguousarray(model.bits).view(np.uint8).reshape(model.downsets, -1),
        "from_layer": ends[:, 0].copy(),
        "to_layer": ends[:, 1].copy(),
        "passing": passing,
    }


def _first(ways: Sequence[Configuration], side: str, end: NodeId) -> float:
    """What the first option gathers: where it matters, all do."""
    return getattr(ways[0], side).get(end, 0.0) if ways else 0.0


def function(model: PiperModel, name: str) -> Callable[..., Any]:
    """A loop of the kernel: compiled, but for models so small that it would not repay the loading."""
    from . import kernel

    plain: Callable[..., Any] = getattr(kernel, name)
    return plain if model.downsets * model.layers <= PLAIN_UP_TO else compiled(kernel, name)


def _pairs(model: PiperModel) -> tuple[Any, Any]:
    import numpy as np

    starts = np.zeros(model.downsets + 1, dtype=np.int64)
    room = min(MAX_PAIRS, model.downsets * (model.downsets - 1) // 2)
    sources = np.empty(room, dtype=np.int32)  # memory is taken only as it is filled
    count = function(model, "nested_pairs")(model.bits, room, starts, sources)
    if count < 0:
        raise TooManyPairsError
    sources.resize(count, refcheck=False)
    return starts, sources
