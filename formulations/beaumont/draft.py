"""From what a model says of a pattern (orders and shifts) to a plan with exact times, and back.

Orders on the resources and shifts along the batch decide the memory (Lemma 10), so the shortest period that they
allow is taken, in exact numbers: rounding in a solver, and grids, leave no trace in the plan.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from itertools import pairwise

from ...instances.base.amounts import as_written
from ...instances.chain.plan import PatternPlan
from ...instances.chain.problem import ChainProblem
from ..timetable import Timetable, Wait, tightest
from .instants import Relations, relations_at

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

    def path(self, row: int) -> list[Activity]:
        """The tasks of a batch, and its transfers as far as they are activities of their own."""
        activities = []
        for task in range(1, self.problem.tasks + 1):
            activities.append(Activity(row, task))
            transfer = Activity(row, task, is_transfer=True)
            if transfer in self.positions:
                activities.append(transfer)
        return activities

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
    paths = [draft.path(row) for row in range(draft.batches)]
    number = {activity: n for n, activity in enumerate(a for path in paths for a in path)}
    table = tightest(len(number), _waits(draft, paths, number), Fraction(0)) if tighten else None
    if table is None:
        starts = [draft.positions[activity] for activity in number]
        table = Timetable(draft.period, tuple(starts))
    return _plan(draft, paths, number, table)


def _waits(draft: Draft, paths: Sequence[Sequence[Activity]], number: Mapping[Activity, int]) -> list[Wait]:
    """Precedence along each batch, order around the period on each resource, and exclusive buffers."""
    waits = []
    for path in paths:
        for a, b in pairwise(path):
            waits.append(Wait(number[a], number[b], draft.duration(a), draft.shift(a, b)))
        if draft.problem.exclusive_buffers:
            waits += _buffer_waits(draft, path, number)
    for users in draft.orders:
        for a, b in pairwise(users):
            waits.append(Wait(number[a], number[b], draft.duration(a), 0))
        waits.append(Wait(number[users[-1]], number[users[0]], draft.duration(users[-1]), 1))
    for a, b, least, periods in draft.relations.waits(draft.duration):
        waits.append(Wait(number[a], number[b], least, periods))
    return waits


def _buffer_waits(draft: Draft, path: Sequence[Activity], number: Mapping[Activity, int]) -> list[Wait]:
    """What a task wrote is sent, and what was received is read, within one period."""
    waits = []
    for a, transfer, b in zip(path, path[1:], path[2:], strict=False):
        if transfer.is_transfer:
            time_held = draft.duration(transfer) - draft.duration(a)
            waits.append(Wait(number[transfer], number[a], time_held, 1 - draft.shift(a, transfer)))
            waits.append(Wait(number[b], number[transfer], Fraction(0), 1 - draft.shift(transfer, b)))
    return waits


def _plan(
    draft: Draft, paths: Sequence[Sequence[Activity]], number: Mapping[Activity, int], table: Timetable
) -> PatternPlan:
    origin = table.starts[number[Activity(0, 1)]]
    rows: list[tuple[float, ...]] = []
    transfers: list[dict[int, float]] = []
    for path in paths:
        time = _absolute(draft, path, number, table, origin)
        rows.append(tuple(float(time[a]) for a in path if not a.is_transfer))
        transfers.append({edge: float(start) for edge, start in _transfer_starts(draft, path[0].row, time).items()})
    return PatternPlan(float(table.period), draft.allocation, tuple(rows), tuple(transfers))


def _absolute(
    draft: Draft, path: Sequence[Activity], number: Mapping[Activity, int], table: Timetable, origin: Fraction
) -> dict[Activity, Fraction]:
    """When a batch comes to each of its activities, counted from `origin`."""
    periods, time = 0, {path[0]: table.starts[number[path[0]]] - origin}
    for a, b in pairwise(path):
        periods += draft.shift(a, b)
        time[b] = table.starts[number[b]] + periods * table.period - origin
    return time


def _transfer_starts(draft: Draft, row: int, time: Mapping[Activity, Fraction]) -> dict[int, Fraction]:
    """Starts of a batch's transfers; those that take no time happen when their task ends."""
    starts = {}
    for edge in draft.problem.remote_edges:
        if edge_is_cut(draft.problem, draft.allocation, edge):
            sender = Activity(row, edge)
            ended = time[sender] + draft.duration(sender)
            starts[edge] = time.get(Activity(row, edge, is_transfer=True), ended)
    return starts


# ---- from a plan to positions and shifts -------------------------------------------------------------------


@dataclass(frozen=True)
class Folded:
    """A plan within one period: where each activity is, and how many periods later its batch comes to it."""

    period: Fraction
    positions: Mapping[Activity, Fraction]
    laps: Mapping[Activity, int]

    def is_before(self, a: Activity, b: Activity, problem: ChainProblem) -> bool:
        """Does a come before b on a resource? Of activities at one instant, those without a duration come first."""
        return self._key(a, problem) < self._key(b, problem)

    def _key(self, a: Activity, problem: ChainProblem) -> tuple[Fraction, bool, int, Activity]:
        return self.positions[a], time_of(problem, a) > 0, -self.laps[a], a

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
