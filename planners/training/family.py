"""For which configurations the bounds of exact methods hold."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...formulations.family import Family, Outside
from ...instances.registry import evaluation_of
from ...instances.training.frameworks import even_layout
from ...instances.training.plan import Configuration
from ...instances.training.problem import TrainingProblem
from ...instances.training.scope import Scope, scope_of


def family(problem: TrainingProblem, options: Mapping[str, Any]) -> Family:
    """All configurations in the scope that fit for sure."""
    scope = scope_of(options)
    share = float(options.get("memory_error") or 0.0)

    def outside(plan: Configuration) -> Outside | None:
        return _outside(problem, scope, share, plan)

    words = ["all configurations"]
    if scope.layouts == "even":
        words.append("with even layouts")
    if scope.fix or scope.forbid:
        words.append("in the scope")
    if share:
        words.append(f"that fit with {100 * share:g} % to spare")
    wider = "--memory-error 0" if share else None
    return Family(" ".join(words), wider, outside)


def _outside(problem: TrainingProblem, scope: Scope, share: float, plan: Configuration) -> Outside | None:
    if len(set(plan.recompute)) > 1:
        return Outside("chunks that compute different things again")
    if scope.layouts == "even" and plan.layout != even_layout(problem, plan.degrees.chunks):
        return Outside("a layout that is not even", "--layouts any")
    if not (scope.takes_degrees(plan.degrees) and _takes_rest(scope, plan)):
        return Outside("values that are not in the scope")
    if share and problem.memory_bytes is not None:
        held = evaluation_of(problem, plan).fullest.bytes
        if held * (1 + share) > problem.memory_bytes:
            return Outside(f"memory that does not fit with {100 * share:g} % to spare", "--memory-error 0")
    return None


def _takes_rest(scope: Scope, plan: Configuration) -> bool:
    values = {"micro-batch": plan.micro_batch, "zero": plan.zero, "schedule": plan.schedule}
    return all(scope.takes(key, value) for key, value in values.items()) and scope.takes_word(plan.recompute[0])
