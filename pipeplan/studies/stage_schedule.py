"""The best schedule of the stages of a plan, beside the plan's own and the best named rule."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

from ..instances.base.amounts import as_written
from ..instances.base.errors import UsageError
from ..instances.base.fields import AS_TEXT_NEVER, plain_fields
from ..instances.base.result import Result
from ..instances.registry import Plan, Problem
from ..instances.schedule.from_plan import LoweredSchedule
from ..instances.schedule.kind_functions import held, with_memory
from ..instances.schedule.order import own_schedule
from ..instances.schedule.plan import AnySchedule, SchedulePlan
from ..instances.schedule.problem import ScheduleProblem
from ..instances.schedule.referee import PERIOD, evaluate_schedule
from ..instances.simulate import lower_to_schedule
from ..instances.timeline.model import check_tasks
from ..planners.options import Progress, SolveOptions
from ..planners.registry import methods_of
from ..planners.run.choose import AskedStart, choose
from ..planners.run.solve import solve

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
    problem: ScheduleProblem, objective: str, method: Mapping[str, Any], known: list[Rival], other: Any = None
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


def _limit(memory: float) -> float | None:
    return None if memory == math.inf else memory
