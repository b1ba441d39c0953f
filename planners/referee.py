"""The referee's word on one plan, for all who plan: violations, or a value."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
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


def own_objective(method: Any) -> str:
    """The name of the objective that a method declares as its own; empty: it has the usual one."""
    function = getattr(method, "objective", None)
    return "" if function is None else f"{function.__module__}.{function.__qualname__}"


@dataclass(frozen=True)
class OwnObjective:
    """Rules by which plans break the same rules as ever, and are worth what somebody else's method says."""

    usual: Any
    """The rules without that objective."""
    objective: str
    function: Callable[[Any, Any], float]
    """From a problem and a plan to a value, which is minimised."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self.usual, name)

    def value(self, problem: Any, plan: Any) -> float:
        value = float(self.function(problem, plan))
        if not math.isfinite(value):
            raise ValueError(f"{self.objective} is {value}")
        return value

    def to_options(self) -> dict[str, Any]:
        return {**self.usual.to_options(), OWN_OBJECTIVE: self.objective}


# The option of a result whose value is that of an objective of somebody else, by the objective's name.
OWN_OBJECTIVE = "own_objective"


def rules_of(problem: Problem, options: Mapping[str, Any], method: Any = None) -> Rules:
    """The rules by which a method's plans are judged: a formulation says which contiguity its plans obey, and a method
    of somebody else may have an objective of its own, a function of problem and plan."""
    if hasattr(method, "contiguity"):
        options = {**options, "contiguity": method.contiguity(options)}
    rules: Any = kind_of(problem).rules(problem, options)
    own = own_objective(method)
    return OwnObjective(rules, own, method.objective) if own else rules


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
