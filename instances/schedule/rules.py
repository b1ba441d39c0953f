"""By which rules a schedule is judged: its steady state, or all micro-batches from the first start to the last end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..base.errors import InputError, UsageError, Violation, refuse_broken
from ..base.kind import Rules, chosen
from ..registry import SCHEDULE
from .plan import AnySchedule, PeriodicSchedulePlan, SchedulePlan
from .problem import ScheduleProblem
from .referee import ScheduleEvaluation, evaluate_schedule, shape_faults, verify_schedule

PERIOD = "period"


@dataclass(frozen=True, slots=True)
class _ScheduleRules:
    objective: str

    def violations(self, problem: ScheduleProblem, plan: AnySchedule) -> tuple[Violation, ...]:
        return verify_schedule(problem, plan)

    def value(self, problem: ScheduleProblem, plan: AnySchedule) -> float:
        value = evaluate_schedule(problem, plan).objective(self.objective)
        if value is None:
            raise UsageError(f"A plan of the kind {plan.kind} has no {self.objective}; choose another --objective.")
        return float(value)

    def evaluation(self, problem: ScheduleProblem, plan: AnySchedule) -> ScheduleEvaluation:
        refuse_broken((Violation("shape", fault) for fault in shape_faults(problem, plan)), "evaluated")
        return evaluate_schedule(problem, plan)

    def to_options(self) -> dict[str, Any]:
        return {"objective": self.objective}


@dataclass(frozen=True, slots=True)
class FiniteRules(_ScheduleRules):
    """Makespan or span of the problem's micro-batches."""

    objective: str = "makespan"
    plan_type = SchedulePlan


@dataclass(frozen=True, slots=True)
class PeriodicRules(_ScheduleRules):
    """The period of a schedule that repeats."""

    objective: str = PERIOD
    plan_type = PeriodicSchedulePlan


def rules_of(problem: ScheduleProblem, options: Mapping[str, Any]) -> Rules:
    """The rules of the objective; a problem without a number of micro-batches is judged by its period alone."""
    if options.get("objective") == PERIOD or problem.micro_batches is None:
        if not any(problem.times):
            raise InputError(
                "blocks",
                "take no time, so that no period is the shortest",
                "give one of them a time, or micro_batches",
            )
        return PeriodicRules()
    return FiniteRules(chosen(options, "objective", SCHEDULE.choices["objective"]))
