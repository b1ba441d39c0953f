"""What a schedule is worth: that of a plan's stages, beside the plan's own and the best of the named rules."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from ..formulations.registry import Entry
from ..instances.errors import UsageError
from ..instances.kinds import Plan, Problem
from ..instances.result import Result
from ..instances.schedule.each_device import held, with_memory
from ..instances.schedule.from_plan import LoweredSchedule
from ..instances.schedule.own_order import own_schedule
from ..instances.schedule.plan import AnySchedule, SchedulePlan
from ..instances.schedule.problem import ScheduleProblem
from ..instances.schedule.referee.evaluate import evaluate_schedule
from ..instances.schedule.rules import PERIOD
from ..instances.simulation.checks import check_tasks
from ..instances.to_schedule import lower_to_schedule
from ..planners.options import Progress, SolveOptions
from ..planners.registry import methods_of
from ..planners.run.choose import choose
from ..planners.run.solve import solve
from ..planners.run.warm_start import AskedStart

OBJECTIVES = ("makespan", "span", PERIOD)
LEAST_WARM = 16
"""Micro-batches that fill a pipeline, where there are not more devices than that."""


@dataclass(frozen=True, slots=True)
class Rival:
    """Another schedule of the same stages."""

    name: str
    value: float
    peak: float
    """Of the fullest device, in the problem's memory unit."""

    def to_json(self) -> dict[str, Any]:
        return {"name": self.name, "value": self.value, "peak": self.peak}


@dataclass(frozen=True, slots=True)
class ScheduleStudy:
    """A schedule of a plan's stages and its rivals."""

    lowered: LoweredSchedule
    result: Result
    objective: str
    peak: float | None
    """Of the fullest device; None: there is no schedule."""
    own: Rival | None
    """The order that the plan was made for, with whole backward passes, within whatever memory that takes; None where
    the plan has none, or none for so many micro-batches."""
    rule: Rival | None
    """The best of the published rules that fit the problem and its memory; None: none does."""

    @property
    def problem(self) -> ScheduleProblem:
        return self.lowered.problem

    def to_json(self) -> dict[str, Any]:
        return {
            "result": self.result.to_json(),
            "objective": self.objective,
            "peak": self.peak,
            "own": None if self.own is None else self.own.to_json(),
            "rule": None if self.rule is None else self.rule.to_json(),
            "notes": list(self.lowered.notes),
        }


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
    """Lower a plan, solve it, and compare; `memory` is of each device, infinite without a limit, None as the plan has.

    `lowering`: the other options of `lower_to_schedule`; `method`: formulation, planner and solver of `solve`.
    """
    lowered = lower_to_schedule(problem, plan, micro_batches=micro_batches, **lowering)
    objective = objective_of(objective, micro_batches)
    if memory is not None:
        limited = with_memory(lowered.problem, None if memory == math.inf else memory)
        lowered = LoweredSchedule(limited, lowered.notes, lowered.own)
    known = quick_schedules(lowered.problem, objective, limits)
    rule = best_rule(known)
    result = solve(
        lowered.problem,
        **(method or {}),
        options={"objective": objective},
        limits=limits,
        warm_start=start_among(lowered.problem, objective, method or {}, known),
        on_progress=on_progress,
    )
    return ScheduleStudy(
        lowered,
        result,
        objective,
        _peak(lowered.problem, result.plan) if result.verified else None,
        _own(problem, plan, micro_batches, objective),
        None if rule is None else rule.rival,
    )


def objective_of(asked: str | None, micro_batches: int | None) -> str:
    """The makespan where nothing is said, or the period where there is nothing else."""
    if micro_batches is None:
        if asked not in (None, PERIOD):
            raise UsageError(f"Without a number of micro-batches there is no {asked}; give --micro-batches.")
        return PERIOD
    return asked or OBJECTIVES[0]


def _peak(problem: ScheduleProblem, plan: Any) -> float:
    return float(held(problem, plan, {}))


@dataclass(frozen=True, slots=True)
class QuickSchedule:
    """What a planner finds at once that proves nothing."""

    entry: Entry
    rival: Rival
    plan: AnySchedule


def quick_schedules(problem: ScheduleProblem, objective: str, limits: SolveOptions | None) -> list[QuickSchedule]:
    """Of all planners that prove nothing, those that fit; whoever refuses the problem says so by a `UsageError`."""
    found = []
    for entry in methods_of(problem.kind):
        if entry.exact or not any(spec.name == "objective" and objective in spec.choices for spec in entry.options):
            continue
        try:
            result = solve(
                problem, planner=entry.name, options={"objective": objective}, limits=limits, warm_start="none"
            )
        except UsageError:
            continue
        if result.verified and result.objective is not None:
            plan: Any = result.plan
            found.append(QuickSchedule(entry, Rival(entry.name, result.objective, _peak(problem, plan)), plan))
    return found


def best_rule(known: list[QuickSchedule]) -> QuickSchedule | None:
    """Of those that somebody published."""
    rules = (one for one in known if one.entry.paper is not None)
    return min(rules, key=lambda one: one.rival.value, default=None)


def start_among(
    problem: ScheduleProblem,
    objective: str,
    method: Mapping[str, Any],
    known: list[QuickSchedule],
    other: Any = None,
) -> AskedStart:
    """The best of what is known, for methods that begin with a plan; `other` is a plan that fits as well."""
    options = {"objective": objective}
    chosen = choose(
        problem, method.get("formulation"), method.get("planner"), method.get("solver", "auto"), options
    )
    plans = [(one.rival.value, one.plan) for one in known]
    if other is not None:
        value = evaluate_schedule(problem, other).objective(objective)
        plans += [] if value is None else [(float(value), other)]
    best = min(plans, key=lambda one: one[0], default=None)
    return best[1] if best is not None and chosen.planner.takes_start else "auto"


# ---- the plan's own schedule ----------------------------------------------------------------------------


def _own(problem: Any, plan: Plan, micro_batches: int | None, objective: str) -> Rival | None:
    """Of whole backward passes on the stages as they were planned."""
    if objective != PERIOD and micro_batches is not None:
        made = _in_own_order(problem, plan, micro_batches)
        if made is None:
            return None
        value = evaluate_schedule(*made).objective(objective)
        return None if value is None else Rival("own", float(value), _peak(*made))
    devices = len(lower_to_schedule(problem, plan).problem.devices)
    made = _in_own_order(problem, plan, 4 * max(devices, LEAST_WARM))
    return None if made is None else Rival("own", float(_steady(made[1])), _peak(*made))


def _steady(plan: SchedulePlan) -> Fraction:
    """The time between two micro-batches halfway, when the pipeline has filled and does not drain yet: between the
    starts of the slowest block there, over a quarter of all."""
    rows = plan.starts.values()
    return max((row[3 * len(row) // 4] - row[len(row) // 2]) / (len(row) // 4) for row in rows)


def _in_own_order(problem: Any, plan: Plan, micro_batches: int) -> tuple[ScheduleProblem, SchedulePlan] | None:
    """None where the plan has no order of its own, or none that so many micro-batches pass through."""
    lowered = lower_to_schedule(problem, plan, micro_batches=micro_batches)
    if lowered.own is None:
        return None
    check_tasks([micro_batches] * len(lowered.problem.blocks))
    starts = own_schedule(lowered.problem, lowered.own(micro_batches))
    return (lowered.problem, starts) if isinstance(starts, SchedulePlan) else None
