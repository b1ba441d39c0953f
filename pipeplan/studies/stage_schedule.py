"""Schedules of the stages of a plan: one beside the plan's own and the best named rule, or all of them in one table.

The table has every named schedule and the best that a search finds, with time, idle share and memory; schedules that
need more memory than there is are shown as well. A way to cut stages is a row of `CUTS`.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

from ..instances.base.amounts import as_written
from ..instances.base.clock import now
from ..instances.base.errors import PipeplanError, UsageError
from ..instances.base.fields import AS_TEXT_NEVER, plain_fields
from ..instances.base.result import Found, Result, Stop
from ..instances.physics.schedules import LOOP, ROW, SCHEDULES, V_SHAPE
from ..instances.registry import Plan, Problem, kind_of
from ..instances.schedule.from_plan import LoweredSchedule
from ..instances.schedule.kind_functions import held, with_memory
from ..instances.schedule.order import own_schedule
from ..instances.schedule.plan import AnySchedule, SchedulePlan
from ..instances.schedule.problem import ScheduleProblem
from ..instances.schedule.referee import PERIOD, evaluate_schedule, verify_schedule
from ..instances.simulate import check_has_stages, lower_to_schedule
from ..instances.timeline.model import check_tasks
from ..planners.options import Progress, SolveOptions
from ..planners.registry import methods_of
from ..planners.run.choose import AskedStart, choose
from ..planners.run.solve import solve
from ..planners.schedule.named import RULES, Named, greedy_schedules, schedule_by

OBJECTIVES = ("makespan", "span", PERIOD)
# So many micro-batches fill a pipeline that has no more devices than that.
LEAST_WARM = 16


@dataclass(frozen=True, slots=True)
class Rival:
    """Another schedule of the same stages."""

    name: str
    value: float
    peak: float
    """Memory that the fullest device holds at its peak, in the problem's memory unit."""
    fits: bool = True
    """Does every device hold no more than it may?"""
    plan: AnySchedule | None = field(default=None, metadata=AS_TEXT_NEVER)
    """The schedule, where a rule made it."""


@dataclass(frozen=True, slots=True)
class ScheduleStudy:
    """A schedule of a plan's stages and its rivals."""

    lowered: LoweredSchedule = field(metadata=AS_TEXT_NEVER)
    result: Result
    objective: str
    peak: float | None
    """Memory that the fullest device holds at its peak; None: there is no schedule."""
    own: Rival | None
    """The plan's own order, with whole backward passes and as much memory as that takes; None where the plan has no
    order, or none for so many micro-batches."""
    rule: Rival | None
    """The best of the published rules that fit the problem and its memory; None: none does."""

    @property
    def problem(self) -> ScheduleProblem:
        return self.lowered.problem

    def to_json(self) -> dict[str, Any]:
        return {**plain_fields(self), "notes": list(self.lowered.notes)}


def schedule_study(
    problem: Problem | str | os.PathLike[str],
    plan: Plan,
    *,
    micro_batches: int | None = None,
    memory: float | None = None,
    objective: str | None = None,
    method: Mapping[str, Any] | None = None,
    limits: SolveOptions | None = None,
    on_progress: Callable[[Progress], None] | None = None,
    **lowering: Any,
) -> ScheduleStudy:
    """Lower a plan to a schedule problem, solve that, and compare the schedule with its rivals.

    `memory` is the limit of each device: infinite for none, None for that of the plan's problem. `lowering`: the other
    options of `lower_to_schedule`; `method`: formulation, planner and solver of `solve`.
    """
    lowered = lower_to_schedule(problem, plan, micro_batches=micro_batches, **lowering)
    objective = objective_of(objective, micro_batches)
    if memory is not None:
        lowered = replace(lowered, problem=with_memory(lowered.problem, _limit(memory)))
    by_rules = rule_schedules(lowered.problem, objective, limits)
    start = start_among(lowered.problem, objective, method or {}, by_rules)
    result = solve(
        lowered.problem,
        **(method or {}),
        options={"objective": objective},
        limits=limits,
        warm_start=start,
        on_progress=on_progress,
    )
    if start != "auto":  # the start was a rule's schedule, not the user's
        result = replace(result, warm_start=replace(result.warm_start, source="the best named rule"))
    return ScheduleStudy(
        lowered,
        result,
        objective,
        _peak(lowered.problem, result.plan) if result.verified else None,
        _own(problem, plan, micro_batches, objective, lowered.problem),
        best_rule(by_rules),
    )


def objective_of(asked: str | None, micro_batches: int | None) -> str:
    """The objective that is asked for; by default the makespan, or without a number of micro-batches the period."""
    if micro_batches is None:
        if asked not in (None, PERIOD):
            raise UsageError(f"Without a number of micro-batches there is no {asked}; give --micro-batches.")
        return PERIOD
    return asked or OBJECTIVES[0]


def _peak(problem: ScheduleProblem, plan: Any) -> float:
    return float(held(problem, plan, {}))


def rule_schedules(problem: ScheduleProblem, objective: str, limits: SolveOptions | None) -> list[Rival]:
    """Schedules by all published rules that can plan this problem; rules that refuse it are left out."""
    schedules = []
    for entry in methods_of(problem.kind):
        judged = any(spec.name == "objective" and objective in spec.choices for spec in entry.options)
        if entry.exact or entry.paper is None or not judged:
            continue
        try:
            result = solve(
                problem, planner=entry.name, options={"objective": objective}, limits=limits, warm_start="none"
            )
        except UsageError:
            continue
        if result.verified and result.objective is not None:
            plan: Any = result.plan
            schedules.append(Rival(entry.name, result.objective, _peak(problem, plan), plan=plan))
    return schedules


def best_rule(known: list[Rival]) -> Rival | None:
    """The fastest schedule; of equally fast ones, the one that needs the least memory."""
    return min(known, key=lambda rule: (rule.value, rule.peak), default=None)


def start_among(
    problem: ScheduleProblem,
    objective: str,
    method: Mapping[str, Any],
    known: list[Rival],
    other: Any = None,
) -> AskedStart:
    """The best of the known schedules, for methods that take a start; `other` is a further one that fits."""
    options = {"objective": objective}
    chosen = choose(
        problem, method.get("formulation"), method.get("planner"), method.get("solver", "auto"), options
    )
    plans: list[tuple[float, Any]] = [(rule.value, rule.plan) for rule in known]
    if other is not None:
        value = evaluate_schedule(problem, other).objective(objective)
        plans += [] if value is None else [(float(value), other)]
    best = min(plans, key=lambda pair: pair[0], default=None)
    return best[1] if best is not None and chosen.planner.takes_start else "auto"


# ---- the plan's own schedule ----------------------------------------------------------------------------


def _own(
    problem: Any, plan: Plan, micro_batches: int | None, objective: str, within: ScheduleProblem
) -> Rival | None:
    """The plan's own schedule, with whole backward passes on the stages as they were planned; `within` has the limits
    of memory that it is checked against."""
    steady = lower_to_schedule(problem, plan)
    devices = steady.problem.devices
    periodic = objective == PERIOD or micro_batches is None
    count = 4 * max(len(devices), LEAST_WARM) * steady.pipelines if periodic else micro_batches
    made = _in_own_order(problem, plan, count or 1)
    if made is None:
        return None
    lowered, starts = made
    evaluation = evaluate_schedule(lowered, starts)
    value = _steady(starts) if periodic else evaluation.objective(objective)
    room = {device.name: device.memory for device in within.devices}
    limits = [room.get(use.name, device.memory) for use, device in zip(evaluation.devices, devices, strict=True)]
    fits = all(
        limit is None or use.peak <= as_written(limit)
        for use, limit in zip(evaluation.devices, limits, strict=True)
    )
    assert value is not None, "there are so many micro-batches"
    return Rival("own", float(value), float(max(use.peak for use in evaluation.devices)), fits)


def _steady(plan: SchedulePlan) -> Fraction:
    """The time between two micro-batches in the third quarter of all, when the pipeline has filled and does not drain
    yet: the mean distance of the starts of the slowest block."""
    rows = plan.starts.values()
    return max((row[3 * len(row) // 4] - row[len(row) // 2]) / (len(row) // 4) for row in rows)


def _in_own_order(problem: Any, plan: Plan, micro_batches: int) -> tuple[ScheduleProblem, SchedulePlan] | None:
    """The schedule of the plan's own order; None where the plan has no order, or none for so many micro-batches."""
    lowered = lower_to_schedule(problem, plan, micro_batches=micro_batches)
    if lowered.own is None:
        return None
    check_tasks([micro_batches] * len(lowered.problem.blocks))
    starts = own_schedule(lowered.problem, lowered.own(micro_batches))
    return (lowered.problem, starts) if isinstance(starts, SchedulePlan) else None


OBJECTIVE = "makespan"
# The usual share of a backward pass that is for inputs.
HALF = 0.5
# Micro-batches for each device where neither the problem nor the user says how many an iteration has.
FOR_EACH_DEVICE = 4
# The usual seconds of all searches together.
TIME_LIMIT_S = 30.0
# Names of the schedules that no single rule makes.
BEST, GREEDY = "best", "zb-greedy"


@dataclass(frozen=True, slots=True)
class Cut:
    """How the stages of a plan become blocks."""

    words: str
    divided: bool
    virtual: int | None = None
    shape: str = ROW

    @property
    def rules(self) -> tuple[Named, ...]:
        """The rules for such stages, the simplest ones first."""
        fitting = (own for own in RULES if (own.rule.shape, own.rule.divided) == (self.shape, self.divided))
        return tuple(sorted(fitting, key=lambda own: (not own.rule.all_first, list(SCHEDULES).index(own.name))))


CUTS = (
    Cut("whole stages", divided=False),
    Cut("two chunks in a loop", divided=False, virtual=2, shape=LOOP),
    Cut("whole, backward in two", divided=True),
    Cut("two chunks in a V, backward in two", divided=True, shape=V_SHAPE),
)


@dataclass(frozen=True, slots=True)
class Row:
    """One schedule, or why there is none."""

    name: str
    cut: str
    problem: ScheduleProblem | None = field(default=None, metadata=AS_TEXT_NEVER)
    plan: AnySchedule | None = field(default=None, metadata=AS_TEXT_NEVER)
    time: float | None = None
    idle: float | None = None
    """Share of the time in which the devices wait, from the first start of all to the last end of all."""
    peak: float | None = None
    """Peak memory of the fullest device, in the problem's memory unit."""
    fits: bool = False
    verified: bool = False
    """Does the referee accept the schedule if memory has no limit?"""
    proof: str = ""
    """Status of a search: `proven`, or the gap that is left; empty for a fixed schedule."""
    why_none: str = ""


@dataclass(frozen=True, slots=True)
class ScheduleComparison:
    """All schedules for one number of micro-batches."""

    rows: tuple[Row, ...]
    micro_batches: int
    notes: tuple[str, ...] = ()
    memory_unit: str | None = None
    time_unit: str | None = None
    limit: float | None = None
    """Memory of the smallest device; None: memory has no limit."""

    @property
    def best(self) -> Row | None:
        """The shortest schedule that fits."""
        fitting = [row for row in self.rows if row.fits and row.time is not None]
        return min(fitting, key=lambda row: row.time or 0.0, default=None)

    def to_json(self) -> dict[str, Any]:
        return {**plain_fields(self), "best": None if self.best is None else self.best.name}


def compare_schedules(
    problem: Problem,
    plan: Plan,
    *,
    micro_batches: int | None = None,
    memory: float | None = None,
    split_backward: float | Sequence[float] = HALF,
    limits: SolveOptions | None = None,
    **lowering: Any,
) -> ScheduleComparison:
    """All named schedules, and the best that a search finds for each way to cut the stages.

    `memory` is the limit of each device: infinite for none, None for that of the plan's problem. The time in `limits`
    is for all searches together; `lowering` are further options of `lower_to_schedule` for all rows.
    """
    check_has_stages(problem, plan)
    limits = limits or SolveOptions()
    count = micro_batches or usual_micro_batches(problem, plan)
    ends = now() + (limits.time_limit_s if limits.time_limit_s is not None else TIME_LIMIT_S)
    rows: list[Row] = []
    notes: dict[str, None] = {}
    cuts: list[tuple[Cut, ScheduleProblem]] = []
    for cut in CUTS:
        try:
            lowered = lower_to_schedule(
                problem,
                plan,
                micro_batches=count,
                split_backward=split_backward if cut.divided else None,
                virtual=cut.virtual,
                shape=cut.shape if cut.shape == V_SHAPE else None,
                **lowering,
            )
        except UsageError as error:
            rows += [Row(named.name, cut.words, why_none=_reason(error)) for named in cut.rules]
            continue
        notes |= dict.fromkeys(lowered.notes)
        made = lowered.problem if memory is None else with_memory(lowered.problem, _limit(memory))
        cuts.append((cut, made))
        rows += [_shortest(named.name, cut, made, schedule_by, named, made) for named in cut.rules]
        if cut.divided and cut.shape == ROW:
            rows.append(_shortest(GREEDY, cut, made, greedy_schedules, made, OBJECTIVE))
    for number, (cut, made) in enumerate(cuts):
        seconds = max(0.5, (ends - now()) / (len(cuts) - number))
        rows.append(_searched(cut, made, rows, replace(limits, time_limit_s=seconds)))
    answer = ScheduleComparison(tuple(rows), count, tuple(notes))
    if not cuts:
        return answer
    _, first = cuts[0]
    return replace(answer, memory_unit=first.memory_unit, time_unit=first.time_unit, limit=first.memory_bytes)


def usual_micro_batches(problem: Problem, plan: Plan) -> int:
    """The micro-batches in the batch of the problem, or `FOR_EACH_DEVICE` for each device."""
    field, lowered = kind_of(problem).batch, lower_to_schedule(problem, plan)
    if field is not None:
        return -(-int(getattr(problem, field)) // lowered.samples)
    return FOR_EACH_DEVICE * len(lowered.problem.computing)


def _limit(memory: float) -> float | None:
    return None if memory == math.inf else memory


def _reason(error: Exception) -> str:
    """The error without its remedy, which is for a command that asks for one schedule alone."""
    return str(error).partition(";")[0].rstrip(".")


def _shortest(name: str, cut: Cut, problem: ScheduleProblem, find: Callable[..., Any], *asked: Any) -> Row:
    """The shortest of the schedules that `find` makes, which may be one alone, or why there is none."""
    try:
        found = find(*asked)
        plans = list(found) if isinstance(found, Iterator) else [found]
    except UsageError as error:
        return Row(name, cut.words, why_none=_reason(error))
    nothing = Row(name, cut.words, why_none="it finds no schedule within the memory")
    return min(
        (_judged(name, cut, problem, plan) for plan in plans), key=lambda row: row.time or 0.0, default=nothing
    )


def _judged(name: str, cut: Cut, problem: ScheduleProblem, plan: AnySchedule) -> Row:
    """The row of a schedule that the referee has judged, with the limit of memory and without."""
    evaluation = evaluate_schedule(problem, plan)
    value = evaluation.objective(OBJECTIVE)
    return Row(
        name,
        cut.words,
        problem,
        plan,
        None if value is None else float(value),
        None if value is None else float(evaluation.idle_share(value)),
        _peak(problem, plan),
        fits=not verify_schedule(problem, plan),
        verified=not verify_schedule(with_memory(problem, None), plan),
    )


def _searched(cut: Cut, problem: ScheduleProblem, rows: Sequence[Row], limits: SolveOptions) -> Row:
    """The best schedule that a search finds in time; it starts from the best row of the same cut that fits."""
    same = [row for row in rows if row.cut == cut.words and row.fits and row.plan is not None]
    start = min(same, key=lambda row: row.time or 0.0, default=None)
    try:
        result = solve(
            problem,
            options={"objective": OBJECTIVE},
            limits=limits,
            warm_start="auto" if start is None or start.plan is None else start.plan,
        )
    except PipeplanError as error:
        return Row(BEST, cut.words, why_none=_reason(error))
    if result.plan is None or not result.verified:
        none_fits = result.found != Found.REJECTED and result.stop == Stop.INFEASIBLE
        return Row(BEST, cut.words, why_none="proven: none fits" if none_fits else "none found")
    row = _judged(BEST, cut, problem, result.plan)  # type: ignore[arg-type]
    gap = "" if result.gap is None else f"within {100 * result.gap:.2g} %"
    return replace(row, proof="proven" if result.found == Found.OPTIMAL else gap)
