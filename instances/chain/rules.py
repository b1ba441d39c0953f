"""The rules by which a pattern is judged: those of patterns, and the allocation where the user has given one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..base.errors import Violation
from ..base.kind import Rules
from .plan import PatternPlan, canonical, stored_allocation
from .problem import ChainProblem
from .referee import PatternEvaluation, evaluate_pattern, verify_pattern


@dataclass(frozen=True, slots=True)
class PatternRules:
    """Patterns are judged by their period per batch."""

    allocation: tuple[int, ...] | None = None
    """The GPU of each layer where the allocation is given; None where it is free."""

    objective = "period"
    plan_type = PatternPlan

    def violations(self, problem: ChainProblem, plan: PatternPlan) -> tuple[Violation, ...]:
        violations, given = verify_pattern(problem, plan), self.allocation
        if given is None or canonical(plan.allocation) == canonical(given):
            return violations
        fault = f"Layers share GPUs as {plan.allocation} says, not as {given}."
        return (*violations, Violation("allocation", fault))

    def value(self, problem: ChainProblem, plan: PatternPlan) -> float:
        return evaluate_pattern(problem, plan).period_per_batch

    def evaluation(self, problem: ChainProblem, plan: PatternPlan) -> PatternEvaluation:
        return evaluate_pattern(problem, plan)

    def to_options(self) -> dict[str, Any]:
        return {} if self.allocation is None else {"allocation": list(self.allocation)}


def rules_of(problem: ChainProblem, options: Mapping[str, Any]) -> Rules:
    return PatternRules(stored_allocation(options.get("allocation")))
