"""What a stored result claims, against what its plan and its bound say: nothing that a file says of itself is believed.

The bound alone cannot be recomputed here; `planners/run/proof_check.py` proves it anew.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from ...formulations.contract import Problem
from ...formulations.plugins import is_address
from ...instances.base.errors import InputError, UsageError
from ...instances.base.quantities import with_unit
from ...instances.base.result import PROVEN_TOLERANCE, Found, Result, Stop, relative_gap
from ...instances.chain.plan import stored_allocation, unknown_allocation
from ...instances.physics.tolerances import SAME
from ..referee import Ruling, is_above, rule, rules_of
from ..registry import EXACT
from .choose import Method, choose, declared_options
from .judge import settle, within


@dataclass(frozen=True, slots=True)
class Recomputed:
    """A result whose figures are the referee's, and in words where the stored ones were others."""

    result: Result
    differences: tuple[str, ...]


def check_same_problem(problem: Problem, result: Result) -> None:
    """Refuse a result about another problem: it says nothing about this one."""
    stored_hash = result.problem.get("hash")
    if stored_hash != problem.hash:
        remedy = "name the instance that was solved, on the same cluster"
        raise InputError("problem.hash", f"is {stored_hash}, but the instance has {problem.hash}", remedy)


def recompute(problem: Problem, result: Result) -> Recomputed:
    """The result with value, verdict, bound and stop computed anew: without a bound that its plan refutes, and without
    a proof that does not close the gap."""
    stored_hash = result.problem.get("hash")
    if stored_hash != problem.hash:
        other = f"the result is about another problem: its hash is {stored_hash}, this one has {problem.hash}"
        nothing = replace(result.unproven(), stop=Stop.ERROR, found=Found.REJECTED, verified=False, objective=None)
        return Recomputed(nothing, (other,))
    ruling = None if result.plan is None else rule(problem, result.plan, rules_of(problem, result.options))
    if ruling is not None and result.scope is not None:
        ruling = _within_scope(problem, result, ruling)
    refuted = ruling is not None and result.stop in (Stop.INFEASIBLE, Stop.UNBOUNDED)
    claim = replace(result, stop=Stop.PROVEN) if refuted else result  # it still claims a proof: the figures decide
    true = replace(settle(claim, ruling), messages=result.messages)
    differences = tuple(_differences(problem, result, ruling))
    if result.in_scope is None:
        return Recomputed(true, differences)
    inner = recompute(problem, result.in_scope)
    told = tuple(f"in its scope {difference}" for difference in inner.differences)
    return Recomputed(replace(true, in_scope=inner.result), differences + told)


def _within_scope(problem: Problem, result: Result, ruling: Ruling) -> Ruling:
    """What is proven of a family is not believed where the plan is none of it; an unknown method says nothing."""
    if unknown_allocation(result.options.get("allocation")) is not None or is_address(_named(result)):
        return ruling
    try:
        method = stored_method(problem, result)
    except UsageError:
        return ruling  # the differences say so
    return within(method.name, method.family(problem), ruling)


def _differences(problem: Problem, result: Result, ruling: Ruling | None) -> Iterator[str]:
    claims_plan = result.verified or result.objective is not None or result.found in (Found.OPTIMAL, Found.FEASIBLE)
    if ruling is None:
        if claims_plan:
            yield f"the result says {result.found}, yet holds no plan"
    elif ruling.value is None:
        if claims_plan:
            said = f"value {with_unit(result.objective, problem.time_unit)}"
            said = str(result.found) if result.objective is None else said
            yield f"the result says {said}, the referee rejects its plan: {ruling.violations[0]}"
    else:
        yield from _value_differences(result, ruling.value, problem.time_unit)
    yield from _scope_differences(problem, result)


def _value_differences(result: Result, value: float, unit: str | None) -> Iterator[str]:
    computed = with_unit(value, unit)
    if result.objective is None or not math.isclose(result.objective, value, rel_tol=SAME):
        yield f"the result says value {with_unit(result.objective, unit)}, the referee computes {computed}"
    if not result.verified:
        yield f"the result says that nothing was verified, the referee accepts its plan at {computed}"
    if result.stop in (Stop.INFEASIBLE, Stop.UNBOUNDED):
        yield f"the result says {result.stop}, the referee accepts its plan at {computed}"
    if is_above(result.bound, value):
        yield f"the result says bound {with_unit(result.bound, unit)}, above its plan's value {computed}"
        return
    gap = relative_gap(value, result.bound)
    if result.stop == Stop.PROVEN or result.found == Found.OPTIMAL or result.proof is not None:
        if gap is None:
            yield f"the result says {Stop.PROVEN}, yet there is no bound to its value {computed}"
        elif gap > PROVEN_TOLERANCE:
            apart = f"value {computed} and bound {with_unit(result.bound, unit)} are {100 * gap:.3g} % apart"
            yield f"the result says {Stop.PROVEN}, yet {apart}"
    elif result.stop == Stop.GAP and gap is None:
        yield f"the result says that a gap was reached, yet there is no bound to its value {computed}"


def _scope_differences(problem: Problem, result: Result) -> Iterator[str]:
    """Results of earlier versions name no plans of which their bounds speak, or a file for their allocation."""
    if unknown_allocation(result.options.get("allocation")) is not None or is_address(_named(result)):
        return
    scopes = dict.fromkeys(filter(None, (result.scope, None if result.proof is None else result.proof.scope)))
    if not scopes:
        return
    try:
        family = stored_method(problem, result).family(problem)
    except UsageError as error:
        yield f"the result says that its bound holds for {', '.join(scopes)}; its method says nothing: {error}"
        return
    for scope in scopes:
        if family is None or scope != family.scope:
            proves = "nothing" if family is None else f"for {family.scope}"
            yield f"the result says that its bound holds for {scope}; its method proves {proves}"


def _named(result: Result) -> str:
    """The name of the method that made it, as it says."""
    return result.formulation or result.planner or ""


def stored_method(problem: Problem, result: Result) -> Method:
    """The method that a result names, with the options that it names; what no longer exists is refused in words."""
    name = _named(result)
    if is_address(name):
        raise UsageError(
            f"The result was made by {name!r}, which is imported for no file's sake; install it as a plug-in, "
            "and plan again by its name."
        )
    planner = None if result.formulation is not None and result.planner == EXACT else result.planner
    declared = declared_options(name)
    options: dict[str, Any] = {name: result.options[name] for name in declared if name in result.options}
    if "allocation" in options:  # older results have the name of a file there, which says nothing any more
        options["allocation"] = stored_allocation(options["allocation"])
    return choose(problem, result.formulation, planner, "auto", options)
