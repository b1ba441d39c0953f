"""A second exact method, which shares no arithmetic with the first: do the two proofs agree?

A plan of either method is a fact (the referee recomputed it), a bound is a proof. They contradict each other where a
bound of one is above a plan of the other that the bound is meant for, or where one says that there is no plan.
The dynamic program plans chains of stages; its plans are plans of the problem without contiguity as well, while its
bounds hold for chains alone. Piper's program and its models answer the same question. GraphPipe's program is checked by
a model of all convex stages, for which its bounds hold as well, and the program for short iterations by a model of its
own stages; a model is checked by GraphPipe's program with stages of the decomposition alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ...formulations.contract import Plan, Problem
from ...formulations.family import Family
from ...formulations.registry import FORMULATIONS, Entry
from ...instances.base.errors import TooLargeError, UsageError
from ...instances.base.kind import Rules
from ...instances.base.quantities import with_unit
from ...instances.base.result import PROVEN_TOLERANCE, Found, Result, Stop
from ..referee import as_judged, is_above, rules_of
from ..registry import cross_check_of, questions, usual_objective
from .choose import Method, lacks, resolve_options

# Options that change the question; others are a method's own affair.
ASKED = {"objective", "semantics", "hierarchy", "micro_batch", "mixed_micro_batches", "k", "degrees"}

Solve = Callable[..., Result]


def other_method(problem: Problem, method: Method) -> Entry:
    """The method to ask, or a `UsageError` where there is none."""
    objective = rules_of(problem, method.options).objective
    entry = cross_check_of(method.entry)
    if entry is None:
        raise UsageError(f"There is no cross-check for {method.entry.name!r}; drop --cross-check.")
    limited = next((name for name in questions() if method.options.get(name) is not None), None)
    if limited is not None:
        flag = "--" + limited.replace("_", "-")
        raise UsageError(f"There is no cross-check with {flag}; drop --cross-check.")
    objectives = _objectives(entry)
    if objectives and objective not in objectives:
        others = " or ".join(map(str, objectives))
        raise UsageError(f"There is no cross-check for {objective}; drop --cross-check, or minimise {others}.")
    missing = lacks(entry, problem)
    if missing is not None:
        raise UsageError(
            f"There is no cross-check here, since {entry.name!r} cannot plan {missing}; drop --cross-check."
        )
    return entry


def _objectives(entry: Entry) -> tuple[str, ...]:
    """Objectives that it can minimise; empty where nothing of its kind lets one choose."""
    choices = [spec.choices for spec in entry.options if spec.name == "objective"]
    usual = usual_objective(entry.problem_kind)
    return choices[0] if choices else () if usual is None else (usual,)


def cross_check(
    problem: Problem, method: Method, rules: Rules, result: Result, solve: Solve
) -> tuple[dict[str, Any], Plan | None]:
    """The other method's answer with what in it contradicts `result` (None: nothing), and its plan."""
    entry = other_method(problem, method)
    names = {"formulation" if entry.name in FORMULATIONS else "planner": entry.name}
    shared = ASKED & {spec.name for spec in entry.options}
    question = {name: value for name, value in as_judged(problem, method.options).items() if name in shared}
    question |= {**entry.check_options, **method.entry.checked_with}
    solver = {"solver": entry.check_solver} if entry.name in FORMULATIONS else {}
    try:
        other = solve(problem, **names, **solver, options=question)
    except TooLargeError as error:  # it costs the check, not the plan that is there
        return {**names, "stop": str(Stop.MEMORY), "message": str(error), "contradiction": None}, None
    ours, theirs = method.family(problem), entry.family(problem, resolve_options(entry, question))
    same_plans = rules.to_options().get("contiguity", "chain") == "chain" and _is_of(theirs, result)
    against = contradiction(result, other, same_plans=same_plans, common=_is_of(ours, other))
    return {**names, **facts_of(other), "contradiction": against}, other.plan


def _is_of(family: Family | None, result: Result) -> bool:
    """Is the plan one of those of which a bound for the family speaks?"""
    if family is None or result.plan is None:
        return True
    try:
        return family.outside(result.plan) is None
    except TooLargeError:  # nobody can say
        return False


def facts_of(result: Result) -> dict[str, Any]:
    """What is told of the run of another method."""
    return {
        "stop": str(result.stop),
        "found": str(result.found),
        "objective": result.objective,
        "bound": result.bound,
        "seconds": result.seconds.get("total"),
    }


def with_check(result: Result, facts: dict[str, Any]) -> Result:
    """The result with the facts of the cross-check; where the proofs contradict each other, it proves nothing."""
    if facts["contradiction"] is None:
        return replace(result, cross_check=facts)
    message = f"the proofs contradict each other: {facts['contradiction']}"
    found = Found.FEASIBLE if result.found == Found.OPTIMAL else result.found
    messages = (*result.messages, message)
    return replace(result.unproven(), stop=Stop.ERROR, found=found, cross_check=facts, messages=messages)


def contradiction(result: Result, other: Result, same_plans: bool, common: bool = True) -> str | None:
    """How two results contradict each other, in words; None: they do not.

    `same_plans`: both methods plan under the same rules, so that the other's bound holds here too. `common`: the
    other's plan is one of those of which our bound speaks.
    """
    ours, theirs, bound, other_bound = (
        with_unit(value, result.problem.get("time_unit"))
        for value in (result.objective, other.objective, result.bound, other.bound)
    )
    if common and result.stop == Stop.INFEASIBLE and other.objective is not None:
        return f"the method says infeasible, the cross-check has a plan of value {theirs}"
    if common and _is_refuted(result.bound, other.objective):
        return f"the bound {bound} is above the cross-check's plan of value {theirs}"
    if not same_plans:
        return None
    if other.stop == Stop.INFEASIBLE and result.objective is not None:
        return f"the cross-check says infeasible, the method has a plan of value {ours}"
    if _is_refuted(other.bound, result.objective):
        return f"the cross-check's bound {other_bound} is above the plan of value {ours}"
    return None


def _is_refuted(bound: float | None, value: float | None) -> bool:
    return value is not None and is_above(bound, value, PROVEN_TOLERANCE)
