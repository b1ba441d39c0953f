"""From what a model says of a pattern (orders and shifts) to a plan with exact times, and back.

Orders on the resources and shifts along the batch decide the memory (Lemma 10), so the shortest period that they
allow is taken, in exact numbers: rounding in a solver, and grids, leave no trace in the plan. A larger shift never
takes less memory: so no valid pattern has the allocation and the orders of a refused one with shifts that are all at
least as large, and `NoGoods` cuts those off.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import combinations, pairwise, product
from typing import Any

from ...instances.base.amounts import as_written
from ...instances.chain.plan import PatternPlan
from ...instances.chain.problem import ChainProblem
from ..contract import ExtraRow, Values
from ..timetable import Timetable, Wait, tightest
from .instants import Relations, relations_at, timeless_pairs

# Ends that are later than the next start by less than this part of a period are taken for equal.
TIE = Fraction(1, 10**6)


@dataclass(frozen=True, slots=True, order=True)
class Activity:
    """Task t or the transfer of edge e (both from 1) of one batch of the pattern."""

    row: int
    number: int
    is_transfer: bool = False


@dataclass(frozen=True)
class Draft:
    """Positions are starts within one period, whose ends lie in [0, T]; `orders` lists the users of each resource.

    Tasks that take no time use none: `relations` says where they are.
    """

    problem: ChainProblem
    allocation: tuple[int, ...]
    period: Fraction
    batches: int
    positions: Mapping[Activity, Fraction]
    orders: Sequence[Sequence[Activity]]
    relations: Relations[Activity] = field(default_factory=Relations)
    shifts: Mapping[Activity, int] | None = None
    """Shifts from each activity to the next of its batch, where they are not simply the least ones: several batches
    pass each task in turn, and one may have to wait for the sake of the turn."""

    @cached_property
    def rank(self) -> dict[Activity, int]:
        return {activity: n for users in self.orders for n, activity in enumerate(users)}

    def duration(self, activity: Activity) -> Fraction:
        return as_written(time_of(self.problem, activity))

    @cached_property
    def paths(self) -> list[list[Activity]]:
        """The tasks of each batch, and its transfers as far as they are activities of their own."""
        numbers, kinds = range(1, self.problem.tasks + 1), (False, True)
        paths = [[Activity(row, n, is_it) for n in numbers for is_it in kinds] for row in range(self.batches)]
        return [[a for a in path if not a.is_transfer or a in self.positions] for path in paths]

    @cached_property
    def number(self) -> dict[Activity, int]:
        return {activity: n for n, activity in enumerate(a for path in self.paths for a in path)}

    def shift(self, before: Activity, after: Activity) -> int:
        """Least number of periods by which the next activity of a batch lags behind in the pattern."""
        if not before.is_transfer and not after.is_transfer and self._gpu(before) == self._gpu(after):
            if self.relations.concern(before, after):
                return self.relations.shift(before, after)
            return int(self.rank[after] < self.rank[before])
        if self.shifts is not None:
            return self.shifts[before]
        late = self.positions[before] + self.duration(before) - self.positions[after]
        return max(0, math.ceil(late / self.period - TIE)) if self.period else int(late > 0)

    def _gpu(self, activity: Activity) -> int:
        return self.allocation[self.problem.layer_of[activity.number - 1]]


def time_of(problem: ChainProblem, activity: Activity) -> float:
    """Duration of a task or transfer, in the problem's own numbers."""
    return (problem.edge_times if activity.is_transfer else problem.durations)[activity.number - 1]


def tasks_by_gpu(
    problem: ChainProblem, allocation: Sequence[int], activities: Iterable[Activity]
) -> list[list[Activity]]:
    """The tasks among the activities, a list for each GPU; transfers are left out."""
    gpus: dict[int, list[Activity]] = {}
    for activity in activities:
        if not activity.is_transfer:
            gpus.setdefault(allocation[problem.layer_of[activity.number - 1]], []).append(activity)
    return list(gpus.values())


def edge_is_cut(problem: ChainProblem, allocation: Sequence[int], edge: int) -> bool:
    """Are the two tasks of an edge (from 1) on different GPUs?"""
    return allocation[problem.layer_of[edge - 1]] != allocation[problem.layer_of[edge]]


def is_activity(problem: ChainProblem, edge: int) -> bool:
    """Must the transfer of an edge be placed in time, where its tasks are on different GPUs?"""
    return edge != problem.layers and (problem.edge_times[edge - 1] > 0 or problem.exclusive_buffers)


def link_of(problem: ChainProblem, allocation: Sequence[int], edge: int) -> tuple[int, int]:
    """Who sends over which link: an ordered pair of GPUs where each direction has a link of its own."""
    sender, receiver = allocation[problem.layer_of[edge - 1]], allocation[problem.layer_of[edge]]
    return (sender, receiver) if problem.duplex == "full" else (min(sender, receiver), max(sender, receiver))


def plan_of(draft: Draft, *, tighten: bool = True) -> PatternPlan:
    """The plan with the shortest period of these orders and shifts; as drafted where there is none."""
    plan = tightened(draft) if tighten else None
    return plan or _plan_at(draft, Timetable(draft.period, tuple(map(draft.positions.__getitem__, draft.number))))


def tightened(draft: Draft) -> PatternPlan | None:
    """The plan with the shortest period of these orders and shifts; None where there is none."""
    table = tightest(len(draft.number), _waits(draft), Fraction(0))
    return None if table is None else _plan_at(draft, table)


def _plan_at(draft: Draft, table: Timetable) -> PatternPlan:
    problem, number = draft.problem, draft.number
    origin = table.starts[number[Activity(0, 1)]]
    rows: list[tuple[float, ...]] = []
    transfers: list[dict[int, float]] = []
    for row, path in enumerate(draft.paths):
        periods, time = 0, {path[0]: table.starts[number[path[0]]] - origin}
        for a, b in pairwise(path):
            periods += draft.shift(a, b)
            time[b] = table.starts[number[b]] + periods * table.period - origin
        starts = {}
        for edge in problem.remote_edges:
            if edge_is_cut(problem, draft.allocation, edge):  # a transfer without time happens when its task ends
                ended = time[Activity(row, edge)] + draft.duration(Activity(row, edge))
                starts[edge] = float(time.get(Activity(row, edge, is_transfer=True), ended))
        rows.append(tuple(float(time[a]) for a in path if not a.is_transfer))
        transfers.append(starts)
    return PatternPlan(float(table.period), draft.allocation, tuple(rows), tuple(transfers))


def _waits(draft: Draft) -> list[Wait]:
    """Precedence along each batch, order around the period on each resource, and exclusive buffers."""
    paths, number = draft.paths, draft.number
    waits = [(a, b, draft.duration(a), draft.shift(a, b)) for path in paths for a, b in pairwise(path)]
    for path in paths if draft.problem.exclusive_buffers else ():
        for a, transfer, b in zip(path, path[1:], path[2:], strict=False):
            if transfer.is_transfer:  # what a task wrote is sent, and what was received is read, within one period
                time_held = draft.duration(transfer) - draft.duration(a)
                waits.append((transfer, a, time_held, 1 - draft.shift(a, transfer)))
                waits.append((b, transfer, Fraction(0), 1 - draft.shift(transfer, b)))
    for users in draft.orders:
        waits += [(a, b, draft.duration(a), 0) for a, b in pairwise(users)]
        waits.append((users[-1], users[0], draft.duration(users[-1]), 1))
    waits += draft.relations.waits(draft.duration)
    return [Wait(number[a], number[b], least, periods) for a, b, least, periods in waits]


# ---- from a plan to positions and shifts -------------------------------------------------------------------


@dataclass(frozen=True)
class Folded:
    """A plan within one period: where each activity is, and how many periods later its batch comes to it."""

    period: Fraction
    positions: Mapping[Activity, Fraction]
    laps: Mapping[Activity, int]

    def is_before(self, a: Activity, b: Activity, problem: ChainProblem) -> bool:
        """Does a come before b on a resource? Of activities at one instant, those without a duration come first."""

        def key(activity: Activity) -> tuple[Fraction, bool, int, Activity]:
            return self.positions[activity], time_of(problem, activity) > 0, -self.laps[activity], activity

        return key(a) < key(b)

    def relations(self, problem: ChainProblem, allocation: Sequence[int]) -> Relations[Activity]:
        """What the plan's positions say about the order of tasks that take no time."""
        gpus = tasks_by_gpu(problem, allocation, sorted(self.positions))
        durations = {task: as_written(time_of(problem, task)) for tasks in gpus for task in tasks}
        timeless = frozenset(task for task, duration in durations.items() if not duration)
        return relations_at(gpus, timeless, self.positions, durations.__getitem__, self.period)


def fold(problem: ChainProblem, plan: PatternPlan) -> Folded | None:
    """The plan with its first task at 0 and all ends in (0, T]; None where it is no plan of this problem."""
    shape = len(plan.allocation) == problem.layers and all(len(row) == problem.tasks for row in plan.starts)
    if not shape or not plan.starts or plan.period <= 0:
        return None
    period = as_written(plan.period)
    origin = as_written(plan.starts[0][0])
    positions: dict[Activity, Fraction] = {}
    laps: dict[Activity, int] = {}
    for row, (starts, transfers) in enumerate(zip(plan.starts, plan.transfers, strict=True)):
        times = {Activity(row, t): as_written(start) for t, start in enumerate(starts, 1)}
        times |= {Activity(row, e, is_transfer=True): as_written(start) for e, start in transfers.items()}
        for activity, start in times.items():
            end = start - origin + as_written(time_of(problem, activity))
            # An end within rounding of a multiple of the period belongs to that multiple.
            lap = math.ceil(end / period - Fraction(1, 10**9)) - 1 if end > 0 else 0
            laps[activity] = lap
            positions[activity] = start - origin - lap * period
    return Folded(period, positions, laps)


# Is the variable of a family for two activities 1? Families: w and wc (tasks, transfers: the first one comes
# first), ended and far (see `instants`).
Holds = Callable[[str, Activity, Activity], bool]

# The most shifts before a transfer, and the most after it.
MOST_SHIFTS = 2


def draft_of(
    problem: ChainProblem,
    allocation: tuple[int, ...],
    period: Fraction,
    positions: Mapping[Activity, Fraction],
    timeless: frozenset[Activity],
    holds: Holds,
    batches: int = 1,
    shifts: Mapping[Activity, int] | None = None,
) -> Draft:
    """What a model's values say: positions, and by its order variables (`holds`) who comes first on each GPU and link.

    The users of each resource are sorted by how many others come before them; positions alone say nothing where
    activities without a duration share an instant.
    """
    users: dict[tuple[int, ...], list[Activity]] = {}
    for activity in positions:
        if activity.is_transfer:
            if problem.edge_times[activity.number - 1]:
                users.setdefault(link_of(problem, allocation, activity.number), []).append(activity)
        elif activity not in timeless:
            users.setdefault((allocation[problem.layer_of[activity.number - 1]],), []).append(activity)
    pairs = tuple(timeless_pairs(tasks_by_gpu(problem, allocation, positions), timeless))
    order = frozenset(pair for x, z in pairs for pair in ((x, z), (z, x)) if holds("w", *pair))
    ended, far = (frozenset(pair for pair in pairs if holds(family, *pair)) for family in ("ended", "far"))
    orders = [_sorted(group, positions, holds) for group in users.values()]
    relations = Relations(timeless, order, ended, far, pairs)
    return Draft(problem, allocation, period, batches, positions, orders, relations, shifts)


def _sorted(group: Sequence[Activity], positions: Mapping[Activity, Fraction], holds: Holds) -> list[Activity]:
    def place(activity: Activity) -> tuple[int, int]:
        """Models name pairs of tasks batch by batch, pairs of transfers edge by edge."""
        return (activity.number, activity.row) if activity.is_transfer else (activity.row, activity.number)

    before = dict.fromkeys(group, 0)
    for a, b in combinations(sorted(group, key=place), 2):
        before[b if holds("wc" if a.is_transfer else "w", a, b) else a] += 1
    return sorted(group, key=lambda activity: (before[activity], positions[activity]))


def orders_and_shifts(
    problem: ChainProblem,
    allocation: Sequence[int],
    folded: Folded,
    batches: int,
    edges: Iterable[int],
    named: Callable[[str, Activity, Activity], str | None],
    shift_named: Callable[[str, int, int, str], str],
) -> dict[str, float] | None:
    """The order of tasks and the shifts at these edges, as models name them; None for shifts that no model knows.

    `named`: the name of a variable of a family for two tasks, None where the model has none. `shift_named`: that of
    the first ("") or second ("2") shift before (v) or after (u) the transfer of a row and an edge.
    """
    relations, gpu = folded.relations(problem, allocation), [allocation[layer] for layer in problem.layer_of]
    values: dict[str | None, float] = {}
    tasks = [Activity(row, number) for row in range(batches) for number in range(1, problem.tasks + 1)]
    for a, b in combinations(tasks, 2):
        if not relations.concern(a, b):
            together = gpu[a.number - 1] == gpu[b.number - 1]
            values[named("w", a, b)] = float(together and folded.is_before(a, b, problem))
            continue
        x, z = (a, b) if b in relations.timeless else (b, a)
        values |= {named("w", *pair): float(pair in relations.order) for pair in ((x, z), (z, x))}
        if x not in relations.timeless:
            values |= {named("ended", x, z): float((x, z) in relations.ended)}
            values |= {named("far", x, z): float((x, z) in relations.far)}
    for row, edge in product(range(batches), edges):
        before, after = Activity(row, edge), Activity(row, edge + 1)
        staged = is_activity(problem, edge)
        moved = folded.laps.get(replace(before, is_transfer=True)) if staged else None
        moved = folded.laps[before] if moved is None else moved
        shifts = {"v": moved - folded.laps[before]} if staged else {}
        shifts["u"] = folded.laps[after] - moved
        told = gpu[edge - 1] == gpu[edge] and relations.concern(before, after)
        if not all(0 <= number <= MOST_SHIFTS for number in shifts.values()):
            return None
        if told and sum(shifts.values()) != relations.shift(before, after):
            return None
        for name, number in shifts.items():
            values |= {shift_named(name, row, edge, ""): float(number >= 1)}
            values |= {shift_named(name, row, edge, "2"): float(number >= 2)}
    return {name: value for name, value in values.items() if name is not None}


# Variables of the models for allocation and orders: any change counts.
DECIDING = ("Z", "on", "w", "ended", "far")
# Variables of the models for shifts: only a smaller shift counts.
SHIFTS = ("v", "v2", "u", "u2")


class NoGoods:
    """Remembers which values of the model each decoded plan came from: the plan itself has other forms as well.

    What one model remembers, the next one of the same form and problem knows: a refused plan is cut off there.
    """

    def __init__(
        self,
        form: str,
        problem: ChainProblem,
        decode: Callable[[Values], Any],
        encode: Callable[[Any], Values | None],
    ) -> None:
        self._decode, self._encode = decode, encode
        self._decoded = _remembered(form, problem.hash)

    def decode(self, values: Values) -> Any:
        plan = self._decode(values)
        self._decoded.setdefault((plan.period, plan.allocation, plan.starts), []).append(values)
        return plan

    def exclude(self, plan: Any) -> Sequence[ExtraRow]:
        forms = [*self._decoded.get((plan.period, plan.allocation, plan.starts), ()), self._encode(plan)]
        return [no_good(values) for values in forms if values is not None]


@lru_cache(maxsize=4)
def _remembered(form: str, digest: str) -> dict[Any, list[Values]]:
    return {}


def no_good(values: Values) -> ExtraRow:
    """A row by which at least one variable differs from these values."""
    coefficients: dict[str, float] = {}
    for name, value in values.items():
        family = name.partition("[")[0]
        if family in DECIDING:
            coefficients[name] = -1.0 if value > 0.5 else 1.0
        elif family in SHIFTS and value > 0.5:
            coefficients[name] = -1.0
    return ExtraRow(coefficients, 1.0 - sum(sign < 0 for sign in coefficients.values()), math.inf)
