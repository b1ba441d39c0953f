"""The referee's word for whoever plans: asked of the problem's kind, so that no method imports what judges it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .registry import kind_of

if TYPE_CHECKING:
    from .base.errors import Violation
    from .registry import Plan, Problem


def violations_of(problem: Problem, plan: Plan, **options: Any) -> tuple[Violation, ...]:
    """Every rule that the plan breaks; the options are those of the kind's rules."""
    return kind_of(problem).rules(problem, options).violations(problem, plan)


def evaluation_of(problem: Problem, plan: Plan, **options: Any) -> Any:
    """Everything that follows from the plan, whether it obeys the rules or not."""
    return kind_of(problem).rules(problem, options).evaluation(problem, plan)


def stage_order_of(problem: Problem, plan: Plan) -> tuple[str, ...] | None:
    """The names of what holds the plan's stages, in their order; None where they have none."""
    order = kind_of(problem).stage_order
    return None if order is None else order(problem, plan)
