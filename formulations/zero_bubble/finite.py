"""`cp-schedule`: schedules of given micro-batches as a native CP-SAT model, behind the common contract.

The solver finds orders; times follow from them exactly (`finite_orders.py`), so starts on a grid are enough.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial

from ...instances.base.amounts import as_written
from ...instances.base.errors import TooLargeError
from ...instances.base.quantities import several
from ...instances.registry import evaluation_of
from ...instances.schedule.plan import SchedulePlan
from ...instances.schedule.problem import ScheduleProblem
from ..contract import BuiltModel, CommonFormulation, NativeModel, NativeOnlyError, Options, Refuted, Values, Wanted
from . import finite_cp_model
from .finite_bounds import lower_bound_of
from .finite_cp_model import order_name, plain_data, rank_name, start_name
from .finite_memory import MemoryRow, memory_rows
from .finite_orders import Timing, in_order, sequences_of, tightest
from .finite_problem import SPAN, FiniteProblem, Node, finite_problem, for_integers

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
    data = plain_data(finite, windows, rows, objective, least, grid.limit, grid.factor, grid.loss)
    if start is not None:
        data["hint"] = run_values(finite, rows, in_order(start), finite.steps * grid.factor)
    return BuiltModel(
        NativeModel(finite_cp_model.BUILDER, data),
        partial(decode, exact, finite, objective),
        partial(encode, exact, finite, rows, objective, grid),
        size={"blocks": len(problem.blocks), "runs": len(finite.times) * finite.batches, "orders": pairs},
        coarse=not finite.exact,
        # On a path through all runs, each and the wait behind it lose less than a step.
        rounding=0.0 if finite.exact else float(2 * len(finite.times) * finite.batches / finite.steps),
    )


# ---- from a solution to a plan, and back ----------------------------------------------------------------


def decode(exact: FiniteProblem, finite: FiniteProblem, objective: str, values: Values) -> SchedulePlan:
    """The plan with the orders of a solution, which is one of `finite`, and the best times for them."""
    plan = tightest(exact, orders_in(finite, values), objective)
    assert plan is not None, "a solution's times and ranks follow its orders"
    return plan


def orders_in(finite: FiniteProblem, values: Values) -> tuple[tuple[Node, ...], ...]:
    """Runs of each device in the order of their starts in a solution; among equal starts, by ranks and by the
    referee's rules for blocks without time."""
    depths, times = finite.problem.depths, finite.times

    def key(node: Node) -> tuple[object, ...]:
        b, n = node
        rank = values.get(rank_name(b, n), 0) if not times[b] else 0
        return round(values[start_name(b, n)]), times[b] > 0, round(rank), n, depths[b], b

    batches = range(finite.batches)
    return tuple(tuple(sorted(((b, n) for b in blocks for n in batches), key=key)) for blocks in finite.on_device)


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
# be fractions whose denominators are at most the number of devices (`finite_orders._least_span`: the mean of the paths
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
