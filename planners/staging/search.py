"""The least limit on all loads, by bisection: a decision that finds a plan lowers the limit to the plan's load.

`least_load` and `least_flushed` serve every program of stagings, `Search` decides limits by the loops of `kernel`.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar

import numpy as np

from ...instances.base.errors import InputError
from ...instances.base.result import Stop, met
from ...instances.physics.tolerances import BETTER
from ...instances.registry import evaluation_of
from ...instances.staging.plan import LeveledPlan, PlannedStage, StagedPlan
from ...instances.staging.problem import StagingProblem
from ..contract import Outcome, Request
from ..search import OpenItems, OutOfTimeError
from . import kernel
from .costs import ROUNDED_MEMORY
from .model import ROUNDING, PiperModel, Tables, build_tables, loop, worst_load

# Relative distance of value and bound from which on the next limit is just below the value.
NEAR = 1e-3

# The first limit is FIRST_TRY times the bound of work. The distance from that bound then grows by FASTER times itself
# here, and to FASTER times itself in `levels`, until there is a plan. Low limits are decided fastest.
FIRST_TRY, FASTER = 1.02, 2.0

# Relative: how sharply the bound of relaxed knapsacks is located.
RELAXED_GAP = 1e-7


Planned = TypeVar("Planned", StagedPlan, LeveledPlan)
# A plan, or what a plan is made of.
Made = TypeVar("Made")


@dataclass(frozen=True, slots=True)
class Found(Generic[Made]):
    """A plan and its load."""

    plan: Made
    load: float
    """The largest load of a stage: time per micro-batch."""


def least_load(
    best: Found[Made],
    low: float,
    decide: Callable[[float], Found[Made] | None],
    hear: Callable[[Found[Made], float], None] = lambda best, low: None,
) -> Found[Made]:
    """From a plan and a bound to the plan of the least load, by bisection; each answer is snapped to the plan it has.

    `decide` finds a plan within a limit, or None; `hear` gets each better plan and the bound at that time.
    """
    while True:
        hear(best, low)
        close = best.load - low <= NEAR * best.load
        limit = best.load * (1 - BETTER) if close else math.sqrt(low * best.load) if low > 0 else best.load / 2
        if limit <= low:
            return best
        better = decide(limit)
        if better is not None:
            best = better
            continue
        low = limit
        if close:
            return best


def proven(
    request: Request,
    best: Callable[[bool], Found[Planned] | None],
    fits: Callable[[Found[Planned]], bool],
    checks: tuple[str, ...],
    size: Callable[[], dict[str, int]] = dict,
    claim: Callable[[Found[Planned]], float] | None = None,
) -> Outcome:
    """What a program answers that posts its plans and bounds on the board of the request.

    `best` finds the best plan. If rounding let it through though it does not fit, it is asked again, to search inside a
    memory that is smaller by a hair; the bounds of the first search stay valid. Where the board also has plans with the
    referee's value, `claim` is the value by the program itself: what checks it must not be what it claims.
    """
    board, found, stop = request.board, None, Stop.COMPLETED
    messages: tuple[str, ...] = ()
    try:
        found = best(False)
        if found is None:
            return Outcome(Stop.INFEASIBLE, model_size=size(), checks=checks)
        if not fits(found):
            messages = (ROUNDED_MEMORY,)
            found = best(True)
    except OutOfTimeError:
        stop, checks = Stop.TIME, ()
    plan, value = board.plan, board.value
    if claim is not None and found is not None and fits(found):
        plan, value = found.plan, claim(found)
    stop = Stop.PROVEN if met(value, board.bound) else stop
    return Outcome(stop, plan, value, board.bound, model_size=size(), messages=messages, checks=checks)


@dataclass
class Search:
    """Decides limits for one model, and finds the least."""

    model: PiperModel
    exact: bool = True
    """Are knapsacks solved to the optimum, rather than by the published greedy?"""
    tick: Callable[[], None] = lambda: None
    decisions: int = 0
    settled: bool = True
    """Was the last answer a proof? It was none where a knapsack was too hard and therefore counted as not fitting."""
    bound: float = 0.0
    """No plan has a smaller value."""

    def __post_init__(self) -> None:
        problem = self.model.problem
        self.tables = build_tables(self.model, self.tick)
        shape = (self.model.downsets, problem.devices + 1)
        self.front_size = np.zeros(shape[0], dtype=np.int64)
        self.front = np.zeros((*shape, 6), dtype=np.int32)

    def size(self) -> dict[str, int]:
        table = self.tables.table
        return {
            "downsets": self.model.downsets,
            "stages": len(table.pair_source) * table.base.shape[1],
            "knapsacks": self.tables.extras,
            "decisions": self.decisions,
        }

    def decide(self, limit: float, relaxed: bool = False) -> bool:
        """Is there a plan with all loads within the limit? If so, `steps` gives its stages.

        `relaxed` puts lower bounds in place of knapsacks, so that only the answer no is a proof.
        """
        model, tables = self.model, self.tables
        self.decisions += 1
        mode = kernel.RELAXED if relaxed else kernel.EXACT if self.exact else kernel.GREEDY
        arguments = (tables.layers, tables.table, tables.cluster, mode, limit)
        plans, undecided = loop(model, "decide")(*arguments, model.rest_work, self.front_size, self.front)
        self.tick()
        self.settled = bool(plans) or not undecided
        return bool(plans)

    def steps(self) -> list[Step]:
        """The stages of the plan that the last decision found, in execution order, with the fewest devices."""
        steps, j, x = list[Step](), self.model.downsets - 1, 0
        while j > 0:
            _, s, p, tau, d, x = (int(value) for value in self.front[j, x])
            steps.append(Step(int(self.tables.table.pair_source[p]), j, p, tau, d, s))
            j = steps[-1].smaller
        return steps

    def plan(self, steps: list[Step]) -> StagedPlan:
        return StagedPlan(tuple(_planned(self.tables, step, self.exact) for step in steps))

    def lower_bound(self) -> float:
        """Lower bound on the largest load: all work, shared evenly by all devices."""
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

        def found(limit: float) -> Found[list[Step]]:
            steps = self.steps()
            return Found(steps, min(limit, max(load_of(self.tables, step) for step in steps)))

        def decide(limit: float) -> Found[list[Step]] | None:
            if self.decide(limit):
                return found(limit)
            self._missed(limit)
            return None

        def tell(best: Found[list[Step]], low: float) -> None:
            if hear is not None:
                hear(best.load, self.bound, best.plan)

        best = least_load(found(limit), low, decide, tell)
        steps, high = best.plan, best.load
        if self.bound < high * (1 - 2 * BETTER):
            self._relax(high)
        if self.bound >= high * (1 - 2 * BETTER):
            self.bound = high
        return high, steps

    def _missed(self, limit: float) -> float:
        """Take a limit within which no plan was found as a bound, if that is a proof."""
        if self.settled and self.exact:
            self.bound = max(self.bound, limit)
        return limit

    def _relax(self, high: float) -> None:
        """Raise the bound to the limit below which not even relaxed knapsacks allow a plan."""
        low = self.bound
        while high - low > RELAXED_GAP * high:
            middle = (low + high) / 2
            low, high = (low, middle) if self.decide(middle, relaxed=True) else (middle, high)
        self.bound = max(self.bound, low)


# ---- From what a decision leaves behind to the stages of a plan: their loads, and the options behind these ----


@dataclass(frozen=True)
class Step:
    """A stage between two downsets, with its degrees and the sum of degrees of it and all later ones."""

    smaller: int
    larger: int
    pair: int
    tau: int
    replicas: int
    suffix: int

    @property
    def in_flight(self) -> int:
        """Micro-batches that a replica holds at once."""
        return -(-self.suffix // self.replicas)


def load_of(tables: Tables, step: Step) -> float:
    """Time per micro-batch of a stage."""
    n = int((tables.model.replicas == step.replicas).argmax())
    base, weight, fastest, _, start = _stage(tables, step)
    total = base + tables.cluster.sync[n] * weight
    if step.in_flight > fastest:
        total += tables.table.upper[start + step.in_flight - fastest - 1]
    return float(total) / step.replicas


def _planned(tables: Tables, step: Step, exact: bool) -> PlannedStage:
    """The stage with the options behind its time."""
    model, y = tables.model, step.in_flight
    tau = tables.rows[step.tau][0]
    choice = np.full(model.layers, -1, dtype=np.int64)
    base, _, fastest, _, start = _stage(tables, step)
    budget = math.inf
    if exact and y > fastest:
        budget = float(tables.table.upper[start + y - fastest - 1])
        # Sums in another order round differently: a hair more, or the choice would not be found again.
        budget += ROUNDING * (base + budget)
    arguments = (tables.layers, step.smaller, step.larger, step.tau, y, budget, choice)
    answer, _ = loop(model, "exact_knapsack")(*arguments)
    assert answer == 1, "a choice within this budget was found before"
    ids = {}
    for v in np.flatnonzero(choice >= 0):
        way = model.ways[tau][v][int(choice[v] - tables.layers.option_start[step.tau, v])]
        ids[model.problem.layers[model.order[v]].id] = way.id
    return PlannedStage(tuple(ids), step.replicas, model.degrees[tau], ids)


def _stage(tables: Tables, step: Step) -> tuple[float, float, int, int, int]:
    return kernel.stage_at(tables.layers, tables.table, step.pair, step.smaller, step.larger, step.tau)


# ---- The least time with a flush behind every batch ---------------------------------------------------------------
# The least time with a flush behind every batch, from decisions on loads: on flat networks and on levels alike.
#
# A plan whose stages have X copies in all, and none fewer than m, takes N + X - m slots as long as its largest load
# for a batch of N micro-batches. For each m, the least X within a limit on all loads never grows with the limit. So
# between two limits every plan takes at least the lower one, times the slots of the upper one; the interval with the
# least such bound is divided first, until it is no better than the best plan.


# From a limit and a number to a plan with all loads within the limit and at least so many copies of each stage, and
# of such plans the one with the least sum of copies; None: there is none.
Decide = Callable[[float, int], Found[Planned] | None]


class _Interval(NamedTuple):
    """Plans with at least `fewest` copies of every stage and a largest load above `low`, up to `high`."""

    bound: float
    """No such plan takes less."""
    fewest: int
    low: float
    high: float
    more: int
    """Slots beyond the micro-batches that every such plan has at least."""


def flushed_value(problem: StagingProblem, found: Found[Planned]) -> float:
    """Time per micro-batch, filling and draining included."""
    return float(found.load * evaluation_of(problem, found.plan).slots / problem.micro_batches)


def least_flushed(
    problem: StagingProblem,
    decide: Decide[Planned],
    first: Found[Planned],
    low: float,
    numbers: Iterable[int],
    hear: Callable[[Found[Planned], float], None],
) -> Found[Planned]:
    """The best plan, from any one and a bound `low` on all loads; a stage may have any of `numbers` of copies.

    `hear` gets the best plan and the bound at that time, and at last both equal but for rounding.
    """
    batches = problem.micro_batches
    best, value = first, flushed_value(problem, first)
    open_intervals = OpenItems(_Interval(low, fewest, low, math.inf, 0) for fewest in sorted(numbers))
    for interval in open_intervals:
        hear(best, min(interval.bound, value))
        if interval.bound >= value * (1 - 2 * BETTER):
            break
        highest = value * batches / (batches + interval.more)  # no plan with a greater load is better
        limit = _limit(interval, highest)
        if limit <= interval.low:
            continue
        found = decide(limit, interval.fewest)
        more = math.inf
        if found is not None:
            if flushed_value(problem, found) < value:
                best, value = found, flushed_value(problem, found)
            more = evaluation_of(problem, found.plan).degrees - interval.fewest
            if found.load > interval.low:
                bound = interval.low * (batches + more) / batches
                open_intervals.add(_Interval(bound, interval.fewest, interval.low, found.load, more))
        if interval.high <= highest and more > interval.more:
            bound = limit * (batches + interval.more) / batches
            open_intervals.add(interval._replace(bound=bound, low=limit))
    hear(best, value)
    return best


def _limit(interval: _Interval, highest: float) -> float:
    """The limit to decide next: at first the load of any better plan, then the middle, at last just below the end."""
    if interval.high > highest:
        return highest * (1 - BETTER)
    if interval.high - interval.low <= NEAR * interval.high or interval.low <= 0:
        return interval.high * (1 - BETTER)
    return math.sqrt(interval.low * interval.high)


# ---- The whole table: the least time on every number of devices and every sum of degrees --------------------------
# The whole table of Piper's program: the least time on every number of devices and every sum of degrees, in one run.
#
# For planning clusters: what more devices are worth, and from where on more replicas (and with them a larger batch)
# gain nothing. The entry (k, s) is the optimum on at most k devices with data-parallel degrees of at most s in sum.


# Largest number of entries of the table (downsets times devices times sums of degrees), of 8 bytes each.
MAX_ENTRIES = 100_000_000


@dataclass(frozen=True, slots=True)
class DegreeTable:
    """`times[k - 1][s - 1]`: least time per micro-batch on at most k devices, degrees of at most s in sum; None: no
    plan. `proven`: every knapsack behind it was solved to the optimum, and memory counted exactly."""

    times: tuple[tuple[float | None, ...], ...]
    proven: bool
    name: str | None = None
    time_unit: str | None = None

    def time(self, devices: int, degrees: int) -> float | None:
        """Entry (k, s), both counted from 1; larger sums than the table has gain nothing."""
        row = self.times[devices - 1]
        return row[min(degrees, len(row)) - 1]

    def to_csv(self) -> str:
        """One line for each number of devices, one column for each sum of degrees; empty where there is no plan."""
        head = ["devices", *(str(s) for s in range(1, len(self.times[0]) + 1))]
        lines = [
            [str(k), *("" if time is None else repr(time) for time in row)]
            for k, row in enumerate(self.times, start=1)
        ]
        return "".join(",".join(line) + "\n" for line in [head, *lines])


def table_of(search: Search) -> DegreeTable:
    """The table for the model of a search, which has the stages and the knapsacks that it has solved so far."""
    model, tables = search.model, search.tables
    check_size(model)
    values = np.empty((model.downsets, _most(model.problem) + 1, model.problem.devices + 1))
    values[0] = 0.0
    fill, undecided = loop(model, "fill_values"), 0
    for j in range(1, model.downsets):
        undecided += fill(tables.layers, tables.table, tables.cluster, search.exact, j, j + 1, values)
        search.tick()
    final: list[list[float]] = values[-1, 1:, 1:].T.tolist()
    times = tuple(tuple(value if math.isfinite(value) else None for value in row) for row in final)
    proven = search.exact and not undecided and model.memory.exact
    return DegreeTable(times, proven, model.problem.name, model.problem.time_unit)


def _most(problem: StagingProblem) -> int:
    """Largest sum of degrees: a stage takes at least as many devices as replicas, so no sum exceeds the devices."""
    return min(problem.devices, problem.micro_batches)


def check_size(model: PiperModel) -> None:
    """Refuse a table that is too large. This is also asked before the search, whose result would be lost otherwise."""
    problem = model.problem
    if model.downsets * (_most(problem) + 1) * (problem.devices + 1) > MAX_ENTRIES:
        raise InputError(
            "devices", "make too large a table with this network", "ask for fewer devices or drop --option table"
        )


def check_table(path: str | os.PathLike[str]) -> None:
    """Refuse, before anything is computed, a file that is not a .csv."""
    if Path(path).suffix.lower() != ".csv":
        ending = Path(path).suffix or "nothing"
        raise InputError("table", f"ends in {ending!r}", "name a file that ends in .csv", str(path))
