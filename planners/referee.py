"""The referee's word on one plan, for all who plan: violations, or a value."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..formulations.contract import Plan, Problem
from ..instances.base.kind import Rules
from ..instances.base.result import PROVEN_TOLERANCE
from ..instances.registry import kind_of

# A bound above the objective by more than this relative difference is a contradiction, below it is rounding.
BOUND_SLACK = 1e-9


def is_above(bound: float | None, value: float, slack: float = BOUND_SLACK) -> bool:
    """Does a plan of this value refute the bound?"""
    return bound is not None and bound > value + slack * abs(value)


def contradiction(claimed: float | None, value: float | None) -> str | None:
    """How a claim contradicts the referee, in words; None: not at all. It may be higher than the plan's value, since a
    model's load variable need not be tight, but not lower."""
    if value is None or claimed is None or value <= claimed:
        return None
    if math.isclose(value, claimed, rel_tol=PROVEN_TOLERANCE, abs_tol=1e-12):
        return None
    return f"the method claimed {claimed!r}, the referee computes {value!r}"


@dataclass(frozen=True, slots=True)
class Ruling:
    """What the referee says of a plan: a value where it breaks no rule."""

    plan: Plan
    value: float | None
    violations: tuple[str, ...]


def rules_of(problem: Problem, options: Mapping[str, Any], formulation: Any = None) -> Rules:
    """The rules by which a method's plans are judged: a formulation says which contiguity its plans obey."""
    if formulation is not None:
        options = {**options, "contiguity": formulation.contiguity(options)}
    return kind_of(problem).rules(problem, options)


def as_judged(problem: Problem, options: Mapping[str, Any]) -> dict[str, Any]:
    """The options with the objective by which plans are judged: without a mini-batch it is a period, whatever was
    asked for."""
    judged = {"objective": rules_of(problem, options).objective} if "objective" in options else {}
    return {**options, **judged}


def rule(problem: Problem, plan: Plan, rules: Rules) -> Ruling:
    """Verify, then evaluate; what cannot even be read as a plan has that as its violation."""
    if not isinstance(plan, rules.plan_type):
        return Ruling(plan, None, (f"a {type(plan).__name__} is no plan for a problem of kind {problem.kind!r}",))
    try:
        violations = tuple(str(violation) for violation in rules.violations(problem, plan))
        value = None if violations else rules.value(problem, plan)
    except (TypeError, ValueError, AttributeError, LookupError) as error:
        return Ruling(plan, None, (f"the plan cannot be read: {type(error).__name__}: {error}",))
    return Ruling(plan, value, violations)
