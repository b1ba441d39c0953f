"""`cp-schedule`: schedules of given micro-batches as a native CP-SAT model, behind the common contract.

The solver finds orders; times follow from them exactly (`finite_orders.py`), so starts on a grid are enough. A device's
blocks do not overlap, and change its memory alone. So it holds most while a block runs that takes some or has a
workspace, and then it holds what all runs before that one have taken and not given back: memory is rows on orders.
"Before" is in the order in which the referee counts: ends before starts, and blocks without time in between.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from itertools import product
from typing import Any

from ...instances.base.amounts import as_written
from ...instances.base.errors import TooLargeError
from ...instances.base.quantities import several
from ...instances.registry import evaluation_of
from ...instances.schedule.plan import SchedulePlan
from ...instances.schedule.problem import ScheduleProblem
from ..contract import BuiltModel, CommonFormulation, NativeModel, NativeOnlyError, Options, Refuted, Values, Wanted
from ..native import NativeBuilder, NativeBuilt
from .finite_orders import Timing, in_order, sequences_of, tightest
from .finite_problem import (
    SPAN,
    DeviceMemory,
    FiniteProblem,
    Node,
    Windows,
    finite_problem,
    for_integers,
    lower_bound_of,
)

NAME = "cp-schedule"

# The most blocks of all micro-batches together.
MOST_RUNS = 20_000

# The most pairs of runs on whose order the memory of their device may depend.
MOST_PAIRS = 2_000_000


class CpSchedule(CommonFormulation):
    """Minimise makespan or span: a start for each block of each micro-batch, orders where memory depends on them."""

    def check(self, problem: ScheduleProblem, options: Options) -> None:
        check_size(finite_problem(problem, NAME), NAME)

    def lower_bound(self, problem: ScheduleProblem, options: Options) -> float:
        return float(lower_bound_of(problem, options["objective"]))

    def model(self, problem: ScheduleProblem, options: Options, wanted: Wanted) -> BuiltModel | Refuted:
        if not wanted.native:
            raise NativeOnlyError(NAME, instead="ilp-zero-bubble")
        objective = options["objective"]
        cutoff = None if wanted.cutoff is None else as_written(wanted.cutoff)
        return native_model(problem, objective, lower_bound_of(problem, objective), cutoff)


FORMULATION = CpSchedule()


def check_size(finite: FiniteProblem, method: str) -> None:
    runs = len(finite.times) * finite.batches
    if runs > MOST_RUNS:
        raise TooLargeError(
            "blocks", f"of all micro-batches are {runs}, too many for {method}", "choose --planner exact-schedule"
        )


def native_model(
    problem: ScheduleProblem,
    objective: str,
    bound: Fraction,
    cutoff: Fraction | None,
    start: SchedulePlan | None = None,
) -> BuiltModel | Refuted:
    """The CP-SAT model of all schedules of at most the cut-off; the plan `start` need not be one of them."""
    exact = finite_problem(problem, NAME)
    check_size(exact, NAME)
    finite = for_integers(exact)
    grid = grid_of(finite, objective, cutoff)
    least = math.ceil(bound * finite.steps * grid.factor) if finite.exact else 0
    windows = None if least > grid.limit else finite.windows(-(-grid.limit // grid.factor), objective)
    if windows is None:
        return Refuted("paths, work and memory take longer")
    rows = tuple(memory_rows(finite, windows))
    pairs = sum(len(row.terms) for row in rows)
    if pairs > MOST_PAIRS:
        raise TooLargeError(
            "micro_batches",
            f"give {several(pairs, 'order')}, too many for {NAME}",
            "choose --planner exact-schedule",
        )
    parts = finite.steps * grid.factor
    data = {
        "times": list(finite.times),
        "arcs": [[arc.source, arc.target, arc.wait, arc.offset] for arc in finite.arcs],
        "batches": finite.batches,
        "on_device": [list(blocks) for blocks in finite.on_device],
        "early": [list(row) for row in windows.early],
        "late": [list(row) for row in windows.late],
        "rows": [[[list(term) for term in row.terms], row.most] for row in rows],
        "extremes": [_extremes(finite, blocks) for blocks in finite.on_device] if objective == SPAN else None,
        "least": least,
        "limit": grid.limit,
        "factor": grid.factor,
        "scale": float(parts),
        "loss": grid.loss / parts,
        "hint": {} if start is None else run_values(finite, rows, in_order(start), parts),
    }
    return BuiltModel(
        NativeModel(BUILDER, data),
        partial(decode, exact, finite, objective),
        partial(encode, exact, finite, rows, objective, grid),
        size={"blocks": len(problem.blocks), "runs": len(finite.times) * finite.batches, "orders": pairs},
        coarse=not finite.exact,
        # On a path through all runs, each and the wait behind it lose less than a step.
        rounding=0.0 if finite.exact else float(2 * len(finite.times) * finite.batches / finite.steps),
    )


def _extremes(finite: FiniteProblem, blocks: Sequence[int]) -> tuple[list[int], list[int]]:
    """Blocks of a device that may start first, and those that may end last: no other one comes before, or after."""
    after = {b: (finite.distances(b).keys() & set(blocks)) - {b} for b in blocks}
    follows = set().union(*after.values())
    return [b for b in blocks if b not in follows], [b for b in blocks if not after[b]]


# ---- from a solution to a plan, and back ----------------------------------------------------------------


def decode(exact: FiniteProblem, finite: FiniteProblem, objective: str, values: Values) -> SchedulePlan:
    """The plan with the orders of a solution, which is one of `finite`, and the best times for them. Runs of a device
    are in the order of their starts; among equal starts, by ranks and by the referee's rules for blocks without time.
    """
    depths, times, batches = finite.problem.depths, finite.times, range(finite.batches)

    def key(node: Node) -> tuple[object, ...]:
        b, n = node
        rank = values.get(rank_name(b, n), 0) if not times[b] else 0
        return round(values[start_name(b, n)]), times[b] > 0, round(rank), n, depths[b], b

    orders = tuple(tuple(sorted(product(blocks, batches), key=key)) for blocks in finite.on_device)
    plan = tightest(exact, orders, objective)
    assert plan is not None, "a solution's times and ranks follow its orders"
    return plan


def encode(
    exact: FiniteProblem,
    finite: FiniteProblem,
    rows: Sequence[MemoryRow],
    objective: str,
    grid: Grid,
    plan: SchedulePlan,
) -> Values | None:
    """Starts and orders of the plan with its best times; None where it is longer than what is asked for, or its times
    are not on the grid."""
    best = tightest(exact, sequences_of(exact.problem, in_order(plan)), objective)
    if best is None:
        return None
    value = evaluation_of(exact.problem, best).objective(objective)
    parts = finite.steps * grid.factor
    if value is None or value * parts > grid.limit or not finite.exact:
        return None
    if any((start * parts).denominator != 1 for row in best.starts.values() for start in row):
        return None
    return {name: float(number) for name, number in run_values(finite, rows, best, parts).items()}


def run_values(
    finite: FiniteProblem, rows: Sequence[MemoryRow], plan: SchedulePlan, parts: Fraction
) -> dict[str, int]:
    """Values of the model's variables for a plan: starts rounded down to whole parts of a time unit, the order
    of each pair of runs in a memory row, and ranks of blocks without time. `parts`: parts of the grid in one
    time unit."""
    problem = finite.problem
    values = {
        start_name(b, n): math.floor(start * parts)
        for b, block in enumerate(problem.blocks)
        for n, start in enumerate(plan.starts[block.id])
    }
    at = [{node: i for i, node in enumerate(row)} for row in sequences_of(problem, plan)]
    place: dict[int, list[int]] = {}
    for d, blocks in enumerate(finite.on_device):
        for b in blocks:
            place.setdefault(b, []).append(d)
    ranked = False
    for row in rows:
        for first, second, _ in row.terms:
            one, two = min(first, second), max(first, second)
            d = next(d for d in place[one[0]] if two in at[d])
            values[order_name(one, two)] = int(at[d][one] < at[d][two])
            ranked = ranked or not (finite.times[one[0]] or finite.times[two[0]])
    if ranked:
        order = Timing(finite, sequences_of(problem, plan)).order or []
        timeless = [node for node in order if not finite.times[node[0]]]
        values |= {rank_name(b, n): i for i, (b, n) in enumerate(timeless)}
    return values


# Grids on which models of given micro-batches lose nothing, or no more than `Grid.loss`.
#
# For makespan the best times of given orders are whole numbers of steps, as they are longest paths. For span they may
# be fractions whose denominators are at most the number of devices (`finite_orders.tightest`: the mean of the paths
# on a cycle that passes each device at most once). So the grid has parts of a step: fine enough for all of these
# fractions where they are few, and else for the largest one that is below the cut-off, as everything that is asked for
# is below it.


# The most devices for which one grid holds all possible fractions of a step (60 parts).
MOST_FRACTIONS = 6


@dataclass(frozen=True, slots=True)
class Grid:
    """Starts and values are whole numbers of parts of a step."""

    factor: int
    """Parts of a step."""
    limit: int
    """The largest value that is asked for, in parts."""
    loss: int
    """By how many parts the least value on the grid can exceed the true one."""


def grid_of(finite: FiniteProblem, objective: str, cutoff: Fraction | None) -> Grid:
    """A grid of the starts for values up to the cut-off. Spans may be fractions of a step: see above."""
    limit = Fraction(finite.longest)
    if cutoff is not None:
        limit = min(limit, cutoff * finite.steps)
    devices = len(finite.on_device)
    if objective != SPAN or devices <= 1:
        return Grid(1, math.floor(limit), 0)
    if devices <= MOST_FRACTIONS:
        factor = math.lcm(*range(1, devices + 1))
        return Grid(factor, math.floor(limit * factor), 0)
    best = max((Fraction(math.floor(limit * q), q) for q in range(1, devices + 1)), default=limit)
    return Grid(best.denominator, best.numerator, 1)


@dataclass(frozen=True, slots=True)
class MemoryRow:
    """A row of the model: the sum of the coefficients of pairs whose first run comes before the second is at
    most `most`."""

    terms: tuple[tuple[Node, Node, int], ...]
    most: int


def memory_rows(finite: FiniteProblem, windows: Windows) -> Iterator[MemoryRow]:
    """The rows of memory of all devices that some order can break which edges and windows leave open: a device holds no
    more than its room while a run is on, and has never given back more than was there once the run is over."""
    for blocks, memory in zip(finite.on_device, finite.memories, strict=True):
        for k, u in product(blocks, range(finite.batches)):
            change, needed = memory.changes.get(k, 0), memory.needed(k)
            if (memory.room is None or not needed) and change >= 0:
                continue
            terms, before = _before(finite, windows, memory, (k, u))
            if memory.room is not None and needed:
                yield from _row(terms, memory.room - before - needed)
            if change < 0:
                given = [(first, second, -other) for first, second, other in terms]
                yield from _row(given, memory.standing + before + change)


def _row(terms: Sequence[tuple[Node, Node, int]], most: int) -> Iterator[MemoryRow]:
    """None where no order breaks it."""
    if sum(change for *_, change in terms if change > 0) > most:
        yield MemoryRow(tuple(terms), most)


def _before(
    finite: FiniteProblem, windows: Windows, memory: DeviceMemory, run: Node
) -> tuple[list[tuple[Node, Node, int]], int]:
    """Terms (first run, this run, change of memory) for runs that may come before this one, and the sum of the
    changes of those that must."""
    terms, certain = [], 0
    for i, change in memory.changes.items():
        for n in range(finite.batches):
            if (i, n) == run:
                continue
            precedes = must_precede(finite, windows, (i, n), run)
            if precedes is None:
                terms.append(((i, n), run, change))
            elif precedes:
                certain += change
    return terms, certain


def must_precede(finite: FiniteProblem, windows: Windows, first: Node, second: Node) -> bool | None:
    """Must the first run precede the second, by edges or since the other order fits no windows? None: it is open."""
    (i, n), (k, u) = first, second
    precedes = finite.comes_before(first, second)
    if precedes is None and windows.early[k][u] + finite.times[k] > windows.late[i][n]:
        return True
    if precedes is None and windows.early[i][n] + finite.times[i] > windows.late[k][u]:
        return False
    return precedes


BUILDER = f"{__name__}:build"

# The largest value of a row, so that sums of rows stay within the integers of the solver.
LARGEST = 2**60
# The base in which sums that may be larger are written, digit by digit.
BASE = 2**24


def start_name(b: int, n: int) -> str:
    return f"s[{b},{n}]"


def order_name(first: Sequence[int], second: Sequence[int]) -> str:
    return f"o[{first[0]},{first[1]},{second[0]},{second[1]}]"


def rank_name(b: int, n: int) -> str:
    return f"r[{b},{n}]"


def build(data: Mapping[str, Any]) -> NativeBuilt:
    """Called in a worker: values from `least` to `limit` parts of a step."""
    builder = FiniteModel(data)
    builder.build()
    for name, value in data["hint"].items():
        if name in builder.variables:
            builder.model.add_hint(builder.variables[name], value)
    return NativeBuilt(builder.model, builder.variables, data["scale"], 0.0, data["loss"])


class FiniteModel(NativeBuilder):
    """The model: a start for each run, and an order for two runs of a device where its memory depends on it."""

    def __init__(self, data: Mapping[str, Any]) -> None:
        super().__init__()
        self.data = data
        self.batches: int = data["batches"]
        self.times = [time * data["factor"] for time in data["times"]]
        self.start: dict[Node, Any] = {}
        self.before: dict[tuple[Node, Node], Any] = {}
        """Literals for "the first run is before the second", by two runs, the smaller one first."""
        self.rank: dict[Node, Any] = {}

    def build(self) -> None:
        self._starts()
        self._paths()
        for blocks in self.data["on_device"]:
            self._no_overlap(blocks)
        for terms, most in self.data["rows"]:
            self._at_most([(change, self._first(tuple(i), tuple(k)), 1) for i, k, change in terms], most)
        self._orders_follow()
        self._value()

    def _starts(self) -> None:
        factor = self.data["factor"]
        for b, (early, late) in enumerate(zip(self.data["early"], self.data["late"], strict=True)):
            for n in range(self.batches):
                self.start[b, n] = self.integer(start_name(b, n), early[n] * factor, late[n] * factor)

    def _paths(self) -> None:
        factor = self.data["factor"]
        for i, j, wait, offset in self.data["arcs"]:
            for n in range(self.batches - offset):
                self.model.add(self.start[j, n + offset] >= self.start[i, n] + wait * factor)
        for b, time in enumerate(self.times):
            for n in range(self.batches - 1):
                self.model.add(self.start[b, n + 1] >= self.start[b, n] + time)

    def _no_overlap(self, blocks: Sequence[int]) -> None:
        self.model.add_no_overlap(
            self.model.new_fixed_size_interval_var(self.start[b, n], self.times[b], "")
            for b in blocks
            for n in range(self.batches)
        )

    def _at_most(self, terms: list[tuple[int, Any, int]], most: int) -> None:
        """Add the row: the sum of coefficients times variables is at most `most`.

        A term is (coefficient, variable, upper bound of the variable); lower bounds are 0. Where the sum is too long
        for the solver's integers, it is written to the base `BASE`: what the last digits make beyond those of `most`
        is carried to the next ones, in whole units of them.
        """
        while sum(abs(change) * far for change, _, far in terms) + abs(most) > LARGEST:
            far = sum(far for _, _, far in terms)
            carry = self.model.new_int_var(0, far, "")
            self.model.add(sum(change % BASE * x for change, x, _ in terms) <= most % BASE + BASE * carry)
            terms = [(1, carry, far), *((change // BASE, x, far) for change, x, far in terms if change // BASE)]
            most //= BASE
        self.model.add(sum(change * x for change, x, _ in terms) <= most)

    def _first(self, first: Node, second: Node) -> Any:
        """A literal for "the first run is before the second", in whichever order they are given."""
        return self._precedes(first, second) if first < second else ~self._precedes(second, first)

    def _precedes(self, first: Node, second: Node) -> Any:
        """A literal: the first run ends before the second one starts; where it is false, the other way round."""
        if (first, second) not in self.before:
            literal = self.flag(order_name(first, second))
            self.before[first, second] = literal
            for (i, n), (k, u), side in ((first, second, literal), (second, first, ~literal)):
                self.require(self.start[i, n] + self.times[i] <= self.start[k, u], side)
            if not self.times[first[0]] and not self.times[second[0]]:
                self._rank_apart(first, second, literal)
        return self.before[first, second]

    def _rank_apart(self, first: Node, second: Node, literal: Any) -> None:
        """Several blocks without time may run at one instant; then ranks keep their orders free of cycles."""
        self._make_ranks()
        self.require(self.rank[first] + 1 <= self.rank[second], literal)
        self.require(self.rank[second] + 1 <= self.rank[first], ~literal)

    def _make_ranks(self) -> None:
        if self.rank:
            return
        timeless = [(b, n) for b, time in enumerate(self.times) if not time for n in range(self.batches)]
        for b, n in timeless:
            self.rank[b, n] = self.integer(rank_name(b, n), 0, len(timeless) - 1)
        loops = [(b, b, 0, 1) for b, time in enumerate(self.times) if not time]
        for i, j, wait, offset in [*self.data["arcs"], *loops]:
            if not wait and not self.times[j]:
                for n in range(self.batches - offset):
                    self.model.add(self.rank[i, n] + 1 <= self.rank[j, n + offset])

    def _orders_follow(self) -> None:
        """Blocks run their micro-batches in order: what comes before a run comes before all later ones of its block."""
        for ((i, n), (k, u)), literal in self.before.items():
            earlier, later = self.before.get(((i, n - 1), (k, u))), self.before.get(((i, n), (k, u + 1)))
            for other in (earlier, later):
                if other is not None and i != k:
                    self.model.add_implication(literal, other)

    def _value(self) -> None:
        data, model, last = self.data, self.model, self.batches - 1
        value = self.integer("T", data["least"], data["limit"])
        if data["extremes"] is None:
            for b, time in enumerate(self.times):
                model.add(value >= self.start[b, last] + time)
        for firsts, lasts in data["extremes"] or ():
            for a, b in product(firsts, lasts):
                model.add(value >= self.start[b, last] + self.times[b] - self.start[a, 0])
        model.minimize(value)
