"""`cp-beaumont`: periodic patterns of one or several batches as a native CP-SAT model, behind the common contract.

Times are whole numbers of grid steps. Where all times are whole multiples of a unit nothing is lost: the shortest
period is then a fraction with a small denominator, every question is asked on the grid of the largest such fraction
below the cut-off, and found patterns are tightened to their true period. Other times are rounded down on a fine
grid, so that bounds and refutations hold.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from functools import partial

from ...instances.base.amounts import as_written
from ...instances.base.errors import InputError, UsageError
from ...instances.chain.plan import PatternPlan, canonical, given_allocation
from ...instances.chain.problem import ChainProblem
from ..contract import BuiltModel, CommonFormulation, NativeModel, NativeOnlyError, Options, Refuted, Values, Wanted
from .bounds import MOST_BATCHES, Grid, check_chain, grid_below, lower_bound_of, sequential_period
from .cp_pattern import BUILDER, plain_chain
from .draft import Activity, NoGoods, draft_of, edge_is_cut, fold, is_activity, orders_and_shifts, plan_of
from .integer_chain import integer_chain

# With exclusive buffers a pattern need not fit every longer period, so the grid is finer by this factor, and each
# buffer may be held for one step too long: no pattern is lost by rounding its period up.
BUFFER_STEPS = 1000


class BeaumontCp(CommonFormulation):
    """Minimise the period per batch of a pattern of k batches."""

    def check(self, problem: ChainProblem, options: Options) -> None:
        check_chain(problem, "cp-beaumont")
        given_allocation(problem, options)
        batches = options["batches_per_period"]
        if not 1 <= batches <= MOST_BATCHES:
            raise InputError(
                "option batches_per_period", f"is {batches}", f"give a whole number from 1 to {MOST_BATCHES}"
            )
        if batches > 1 and problem.exclusive_buffers:
            raise UsageError(
                "cp-beaumont has no exclusive buffers for several batches per period; drop "
                '--option batches-per-period, or set "exclusive_buffers" to false and see which buffers the referee '
                "finds overrun."
            )

    def lower_bound(self, problem: ChainProblem, options: Options) -> float:
        return lower_bound_of(problem, given_allocation(problem, options))

    def model(self, problem: ChainProblem, options: Options, wanted: Wanted) -> BuiltModel | Refuted:
        if not wanted.native:
            raise NativeOnlyError("cp-beaumont", instead="ilp-beaumont")
        batches = options["batches_per_period"]
        allocation = given_allocation(problem, options)
        least = as_written(lower_bound_of(problem, allocation)) * batches
        limit = None if wanted.cutoff is None else as_written(wanted.cutoff) * batches
        if limit is not None and least > limit * (1 + Fraction(1, 10**9)):
            return Refuted("the GPUs together have too little time or memory for the work")
        grid = _grid(problem, limit, batches)
        chain = integer_chain(problem, grid.steps)
        floor = min(math.floor(least * grid.steps * (1 - Fraction(1, 10**12))), grid.ceiling)
        scale = float(grid.steps * batches)
        data = {
            "chain": plain_chain(chain),
            "batches": batches,
            "floor": max(0, floor),
            "ceiling": grid.ceiling,
            "slack": int(problem.exclusive_buffers),
            "scale": scale,
            "loss": float(grid.loss) / scale,
            "allocation": None if allocation is None else list(canonical(allocation)),
        }

        encode_plan = partial(encode, problem, batches, limit)
        decode_values = partial(decode, problem, grid, batches, allocation)
        size = {"layers": problem.layers, "gpus": chain.gpus, "batches": batches}
        no_goods = NoGoods(f"cp, {batches}", problem, decode_values, encode_plan)
        exclude = None if problem.memory_bytes is None or chain.exact_sizes else no_goods.exclude
        model = NativeModel(BUILDER, data)
        return BuiltModel(
            model,
            no_goods.decode,
            encode_plan,
            size=size,
            coarse=not grid.exact,
            exclude=exclude,
            rounding=0.0 if grid.exact else 4 * problem.layers / float(grid.steps),
        )


FORMULATION = BeaumontCp()


def _grid(problem: ChainProblem, limit: Fraction | None, batches: int) -> Grid:
    grid = grid_below(problem, sequential_period(problem) * batches, limit, batches)
    if grid.exact and problem.exclusive_buffers:
        return Grid(grid.steps * BUFFER_STEPS, grid.ceiling * BUFFER_STEPS, Fraction(1), exact=True)
    return grid


# ---- from a solution to a plan, and back ----------------------------------------------------------------


def decode(
    problem: ChainProblem, grid: Grid, batches: int, given: tuple[int, ...] | None, values: Values
) -> PatternPlan:
    """Allocation (unless it was given), orders and positions, timed anew with the problem's own numbers."""
    gpus = range(min(problem.gpus, problem.layers))
    allocation = given or tuple(max(gpus, key=lambda g: values[f"on[{i},{g}]"]) for i in range(problem.layers))
    positions: dict[Activity, Fraction] = {}
    for row in range(batches):
        for t in range(problem.tasks):
            positions[Activity(row, t + 1)] = round(values[f"p[{row},{t}]"]) / grid.steps
        for e in problem.remote_edges:
            if is_activity(problem, e) and edge_is_cut(problem, allocation, e) and f"c[{row},{e}]" in values:
                positions[Activity(row, e, is_transfer=True)] = round(values[f"c[{row},{e}]"]) / grid.steps
    timeless = frozenset(a for a in positions if not a.is_transfer and not problem.durations[a.number - 1])

    def holds(family: str, a: Activity, b: Activity) -> bool:
        return values.get(_named(family, a, b), 0.0) > 0.5

    shifts = _shifts(positions, values) if batches > 1 else None
    period = round(values["T"]) / grid.steps
    return plan_of(draft_of(problem, allocation, period, positions, timeless, holds, batches, shifts))


def _named(family: str, a: Activity, b: Activity) -> str:
    """The name of a variable for two activities: batches by row, tasks from 0, transfers by their edges."""
    ends = (number for x in (a, b) for number in (x.row, x.number if x.is_transfer else x.number - 1))
    return f"{family}[{','.join(map(str, ends))}]"


def _shifts(positions: Mapping[Activity, Fraction], values: Values) -> dict[Activity, int]:
    """The model's shifts from each activity to the next, which count where the two are not on one GPU."""

    def number(name: str) -> int:
        return sum(round(values.get(part, 0.0)) for part in (name, f"{name}2"))

    shifts = {}
    for activity in positions:
        edge = f"[{activity.row},{activity.number}]"
        staged = Activity(activity.row, activity.number, is_transfer=True) in positions
        shifts[activity] = number(f"v{edge}" if staged and not activity.is_transfer else f"u{edge}")
    return shifts


def encode(problem: ChainProblem, batches: int, limit: Fraction | None, plan: PatternPlan) -> Values | None:
    """Allocation, orders and shifts, for which the solver finds times; None for a plan of another shape or too long."""
    if plan.batches_per_period != batches:
        return None
    folded = fold(problem, plan)
    if folded is None or (limit is not None and folded.period > limit):
        return None
    if any(folded.laps[Activity(row, 1)] for row in range(batches)):
        return None
    allocation, gpus = canonical(plan.allocation), range(min(problem.gpus, problem.layers))
    if max(allocation) not in gpus:
        return None
    named = "{0}[{1},{2}]{3}".format
    values = orders_and_shifts(problem, plan.allocation, folded, batches, problem.remote_edges, _named, named)
    on = {f"on[{i},{g}]": float(gpu == g) for i, gpu in enumerate(allocation) for g in gpus}
    return None if values is None else values | on
