"""`cp-beaumont`: periodic patterns of one or several batches as a native CP-SAT model, behind the common contract.

Times are whole numbers of grid steps. Where all times are whole multiples of a unit nothing is lost: the shortest
period is then a fraction with a small denominator, every question is asked on the grid of the largest such fraction
below the cut-off, and found patterns are tightened to their true period. Other times are rounded down on a fine
grid, so that bounds and refutations hold.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any

from ...instances.amounts import as_written
from ...instances.chain.allocation import canonical, given_allocation
from ...instances.chain.plan import PatternPlan
from ...instances.chain.problem import ChainProblem
from ...instances.errors import InputError, UsageError
from ..contract import BuiltModel, NativeModel, NativeOnlyError, Refuted, Stage, Values, side_by_side
from . import bounds, cp_model
from .checks import check_chain
from .decimals import Grid, grid_below
from .draft import Activity, Draft, Folded, edge_is_cut, fold, is_activity, link_of, plan_of
from .instants import Relations, timeless_pairs
from .integer_chain import integer_chain
from .no_goods import NoGoods
from .scope import MOST_BATCHES

BUFFER_STEPS = 1000
"""With exclusive buffers a pattern need not fit every longer period, so the grid is finer by this factor, and each
buffer may be held for one step too long: no pattern is lost by rounding its period up."""


class BeaumontCp:
    """Minimise the period per batch of a pattern of k batches."""

    def check(self, problem: ChainProblem, options: Mapping[str, Any]) -> None:
        check_chain(problem, "cp-beaumont")
        given_allocation(problem, options)
        batches = options["batches_per_period"]
        if not 1 <= batches <= MOST_BATCHES:
            raise InputError(
                "option batches_per_period", f"is {batches}", f"give a whole number from 1 to {MOST_BATCHES}"
            )
        if batches > 1 and problem.exclusive_buffers:
            raise UsageError(
                "cp-beaumont has no exclusive buffers for several batches per period; drop --batches-per-period, "
                'or set "exclusive_buffers" to false and see which buffers the referee finds overrun.'
            )

    def contiguity(self, options: Mapping[str, Any]) -> str:
        return "none"

    def portfolio(
        self, problem: ChainProblem, options: Mapping[str, Any], *, near: bool, found: bool
    ) -> tuple[Stage, ...]:
        return side_by_side("cp-sat")

    def lower_bound(self, problem: ChainProblem, options: Mapping[str, Any]) -> float:
        return bounds.lower_bound_of(problem, given_allocation(problem, options))

    def build(
        self,
        problem: ChainProblem,
        options: Mapping[str, Any],
        *,
        native: bool,
        cutoff: float | None = None,
        precision: float = 1e-9,
    ) -> BuiltModel | Refuted:
        if not native:
            raise NativeOnlyError("cp-beaumont", instead="ilp-beaumont")
        batches = options["batches_per_period"]
        allocation = given_allocation(problem, options)
        least = as_written(bounds.lower_bound_of(problem, allocation)) * batches
        limit = None if cutoff is None else as_written(cutoff) * batches
        if limit is not None and least > limit * (1 + Fraction(1, 10**9)):
            return Refuted("the GPUs together have too little time or memory for the work")
        grid = _grid(problem, limit, batches)
        chain = integer_chain(problem, grid.steps)
        floor = min(math.floor(least * grid.steps * (1 - Fraction(1, 10**12))), grid.ceiling)
        scale = float(grid.steps * batches)
        data = cp_model.payload(
            chain,
            batches=batches,
            floor=max(0, floor),
            ceiling=grid.ceiling,
            slack=int(problem.exclusive_buffers),
            scale=scale,
            loss=float(grid.loss) / scale,
            allocation=None if allocation is None else canonical(allocation),
        )

        def decode_values(values: Values) -> PatternPlan:
            plan = decode(problem, grid, batches, values)
            return plan if allocation is None else replace(plan, allocation=allocation)

        def encode_plan(plan: PatternPlan) -> Values | None:
            return encode(problem, batches, limit, plan)

        size = {"layers": problem.layers, "gpus": chain.gpus, "batches": batches}
        no_goods = NoGoods(f"cp, {batches}", problem, decode_values, encode_plan)
        exclude = None if problem.memory_bytes is None or chain.exact_sizes else no_goods.exclude
        model = NativeModel(cp_model.BUILDER, data)
        return BuiltModel(model, no_goods.decode, encode_plan, size=size, coarse=not grid.exact, exclude=exclude)


FORMULATION = BeaumontCp()


def _grid(problem: ChainProblem, limit: Fraction | None, batches: int) -> Grid:
    grid = grid_below(problem, bounds.sequential_period(problem) * batches, limit, batches)
    if grid.exact and problem.exclusive_buffers:
        return Grid(grid.steps * BUFFER_STEPS, grid.ceiling * BUFFER_STEPS, Fraction(1), exact=True)
    return grid


# ---- from a solution to a plan, and back ----------------------------------------------------------------


def decode(problem: ChainProblem, grid: Grid, batches: int, values: Values) -> PatternPlan:
    """Allocation, orders and positions, timed anew with the problem's own numbers."""
    gpus = min(problem.gpus, problem.layers)
    allocation = tuple(max(range(gpus), key=lambda g: values[f"on[{i},{g}]"]) for i in range(problem.layers))
    positions: dict[Activity, Fraction] = {}
    for row in range(batches):
        for t in range(problem.tasks):
            positions[Activity(row, t + 1)] = round(values[f"p[{row},{t}]"]) / grid.steps
        for e in problem.remote_edges:
            if is_activity(problem, e) and edge_is_cut(problem, allocation, e) and f"c[{row},{e}]" in values:
                positions[Activity(row, e, is_transfer=True)] = round(values[f"c[{row},{e}]"]) / grid.steps
    orders = _orders(problem, allocation, positions, values)
    relations = _relations(problem, allocation, positions, values)
    shifts = _shifts(problem, positions, values) if batches > 1 else None
    period = round(values["T"]) / grid.steps
    return plan_of(Draft(problem, allocation, period, batches, positions, orders, relations, shifts))


def _relations(
    problem: ChainProblem, allocation: tuple[int, ...], positions: Mapping[Activity, Fraction], values: Values
) -> Relations[Activity]:
    """Where the tasks are that take no time."""
    gpus: dict[int, list[Activity]] = {}
    for activity in positions:
        if not activity.is_transfer:
            gpus.setdefault(allocation[problem.layer_of[activity.number - 1]], []).append(activity)
    tasks = [activity for group in gpus.values() for activity in group]
    timeless = frozenset(task for task in tasks if not problem.durations[task.number - 1])
    pairs = tuple(timeless_pairs(gpus.values(), timeless))

    def holding(family: str, candidates: Iterable[tuple[Activity, Activity]]) -> frozenset[tuple[Activity, Activity]]:
        return frozenset((a, b) for a, b in candidates if values.get(_named(family, a, b), 0.0) > 0.5)

    both = [*pairs, *((b, a) for a, b in pairs)]
    return Relations(timeless, holding("w", both), holding("ended", pairs), holding("far", pairs), pairs)


def _named(family: str, a: Activity, b: Activity) -> str:
    (r, t), (q, u) = _node(a), _node(b)
    return f"{family}[{r},{t},{q},{u}]"


def _shifts(problem: ChainProblem, positions: Mapping[Activity, Fraction], values: Values) -> dict[Activity, int]:
    """What the model says, where the two activities are not on one GPU."""

    def number(name: str) -> int:
        return sum(round(values.get(part, 0.0)) for part in (name, f"{name}2"))

    shifts = {}
    for activity in positions:
        edge = f"[{activity.row},{activity.number}]"
        staged = Activity(activity.row, activity.number, is_transfer=True) in positions
        shifts[activity] = number(f"v{edge}" if staged and not activity.is_transfer else f"u{edge}")
    return shifts


def _orders(
    problem: ChainProblem, allocation: tuple[int, ...], positions: Mapping[Activity, Fraction], values: Values
) -> list[list[Activity]]:
    users: dict[tuple[int, ...], list[Activity]] = {}
    for activity in positions:
        number = activity.number
        if not activity.is_transfer:
            if problem.durations[number - 1]:
                users.setdefault((allocation[problem.layer_of[number - 1]],), []).append(activity)
        elif problem.edge_times[number - 1]:
            users.setdefault(link_of(problem, allocation, number), []).append(activity)
    return [_sorted(group, positions, values) for group in users.values()]


def _sorted(group: list[Activity], positions: Mapping[Activity, Fraction], values: Values) -> list[Activity]:
    """By the order literals: positions say nothing where activities without a duration share an instant."""
    before = dict.fromkeys(group, 0)
    for n, a in enumerate(group):
        for b in group[n + 1 :]:
            x, y = sorted((_node(a), _node(b)), key=(lambda node: node[::-1]) if a.is_transfer else None)
            name = f"{'wc' if a.is_transfer else 'w'}[{x[0]},{x[1]},{y[0]},{y[1]}]"
            early, late = (a, b) if _node(a) == x else (b, a)
            before[late if values[name] > 0.5 else early] += 1
    return sorted(group, key=lambda activity: (before[activity], positions[activity]))


def _node(activity: Activity) -> tuple[int, int]:
    return activity.row, activity.number if activity.is_transfer else activity.number - 1


def encode(problem: ChainProblem, batches: int, limit: Fraction | None, plan: PatternPlan) -> Values | None:
    """Allocation, orders and shifts, for which the solver finds times; None for a plan of another shape or too long."""
    if plan.batches_per_period != batches:
        return None
    folded = fold(problem, plan)
    if folded is None or (limit is not None and folded.period > limit):
        return None
    if any(folded.laps[Activity(row, 1)] for row in range(batches)):
        return None
    label: dict[int, int] = {}
    for gpu in plan.allocation:
        label.setdefault(gpu, len(label))
    gpus = min(problem.gpus, problem.layers)
    if len(label) > gpus:
        return None
    values = {f"on[{i},{g}]": float(label[gpu] == g) for i, gpu in enumerate(plan.allocation) for g in range(gpus)}
    values |= _order_values(problem, plan, batches, folded)
    values |= _relation_values(folded.relations(problem, plan.allocation))
    shifts = _shift_values(problem, batches, folded)
    return None if shifts is None else values | shifts


def _order_values(problem: ChainProblem, plan: PatternPlan, batches: int, folded: Folded) -> dict[str, float]:
    nodes = [(row, t) for row in range(batches) for t in range(problem.tasks) if problem.durations[t]]
    gpu = {node: plan.allocation[problem.layer_of[node[1]]] for node in nodes}
    values = {}
    for n, a in enumerate(nodes):
        for b in nodes[n + 1 :]:
            first = folded.is_before(Activity(a[0], a[1] + 1), Activity(b[0], b[1] + 1), problem)
            values[f"w[{a[0]},{a[1]},{b[0]},{b[1]}]"] = float(gpu[a] == gpu[b] and first)
    return values


def _relation_values(relations: Relations[Activity]) -> dict[str, float]:
    values = {}
    for x, z in relations.pairs:
        values[_named("w", x, z)] = float((x, z) in relations.order)
        values[_named("w", z, x)] = float((z, x) in relations.order)
        if x not in relations.timeless:
            values[_named("ended", x, z)] = float((x, z) in relations.ended)
            values[_named("far", x, z)] = float((x, z) in relations.far)
    return values


def _shift_values(problem: ChainProblem, batches: int, folded: Folded) -> dict[str, float] | None:
    values: dict[str, float] = {}
    for row in range(batches):
        for e in problem.remote_edges:
            sent, read = folded.laps[Activity(row, e)], folded.laps[Activity(row, e + 1)]
            staged = is_activity(problem, e)
            moved = folded.laps.get(Activity(row, e, is_transfer=True), sent) if staged else sent
            parts = {"v": moved - sent, "u": read - moved} if staged else {"u": read - moved}
            for name, number in parts.items():
                if not 0 <= number <= 2:
                    return None
                values[f"{name}[{row},{e}]"] = float(number >= 1)
                values[f"{name}[{row},{e}]2"] = float(number >= 2)
    return values
