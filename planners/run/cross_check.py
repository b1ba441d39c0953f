"""A second exact method, which shares no code with the first: do the two proofs agree?

A plan of either method is a fact (the referee recomputed it), a bound is a proof. They contradict each other where a
bound of one is above a plan of the other that the bound is meant for, or where one says that there is no plan.
The dynamic program plans chains of stages; its plans are plans of the problem without contiguity as well, while its
bounds hold for chains alone. Piper's program and its models answer the same question.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ...formulations.contract import Problem
from ...formulations.registry import BEST_FOR_KIND, FORMULATIONS
from ...instances.errors import UsageError
from ...instances.kind import Rules
from ...instances.placement.rules import LATENCY
from ...instances.result import PROVEN_TOLERANCE, Result, Stop
from ...instances.staging.rules import FLUSH
from ..registry import PLANNERS
from .choose import Method, lacks

CROSS_PLANNERS: Mapping[str, str] = {"placement": "dp", "staging": "dp-piper"}
"""By kind of problem, the program that is checked by the best formulation, and checks all other methods."""

Solve = Callable[..., Result]


def other_method(problem: Problem, method: Method) -> dict[str, Any]:
    """By which names the other method is asked for."""
    program = CROSS_PLANNERS.get(problem.kind)
    if program is None:
        raise UsageError(f"There is no cross-check for problems of kind {problem.kind!r}; drop --cross-check.")
    if method.options.get("objective") in (LATENCY, FLUSH):
        raise UsageError(f"There is no cross-check for {method.options['objective']}; drop --cross-check.")
    if method.planner.name == program:
        names, entry = {"formulation": BEST_FOR_KIND[problem.kind]}, FORMULATIONS[BEST_FOR_KIND[problem.kind]]
    else:
        names, entry = {"planner": program}, PLANNERS[program]
    missing = lacks(entry, problem)
    if missing is not None:
        raise UsageError(
            f"There is no cross-check here, since {entry.name!r} cannot plan {missing}; drop --cross-check."
        )
    return names


def cross_check(problem: Problem, method: Method, rules: Rules, result: Result, solve: Solve) -> dict[str, Any]:
    """The other method's answer, and what in it contradicts `result` (None: nothing)."""
    names = other_method(problem, method)
    same_plans = rules.to_options().get("contiguity", "chain") == "chain"
    question = {name: value for name, value in rules.to_options().items() if name != "contiguity"}
    other = solve(problem, **names, options=question)
    return {
        **names,
        "stop": str(other.stop),
        "found": str(other.found),
        "objective": other.objective,
        "bound": other.bound,
        "seconds": other.seconds.get("total"),
        "contradiction": contradiction(result, other, same_plans=same_plans),
    }


def contradiction(result: Result, other: Result, same_plans: bool) -> str | None:
    """In words; `same_plans`: both methods plan under the same rules, so that the other's bound holds here too."""
    if result.stop == Stop.INFEASIBLE and other.objective is not None:
        return f"the method says infeasible, the cross-check has a plan of value {other.objective!r}"
    if _above(result.bound, other.objective):
        return f"the bound {result.bound!r} is above the cross-check's plan of value {other.objective!r}"
    if not same_plans:
        return None
    if other.stop == Stop.INFEASIBLE and result.objective is not None:
        return f"the cross-check says infeasible, the method has a plan of value {result.objective!r}"
    if _above(other.bound, result.objective):
        return f"the cross-check's bound {other.bound!r} is above the plan of value {result.objective!r}"
    return None


def _above(bound: float | None, value: float | None) -> bool:
    return bound is not None and value is not None and bound > value + PROVEN_TOLERANCE * abs(value)
