"""`plan verify`: the referee's verdict on a plan, from its decisions alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..instances.base.errors import UsageError
from ..instances.registry import kind_of
from ..show.console import out, print_json, styled
from .arguments import Cluster, InstanceArgument, Json, load_for, with_cluster
from .exits import NO_PLAN, OK, REJECTED
from .interrupt import graceful
from .limits import limits_for, with_limits
from .referee_options import Case, PlanArgument, read_case, with_rules

if TYPE_CHECKING:
    from ..instances.base.errors import Violation
    from ..instances.registry import Problem

_Proof = Annotated[
    bool,
    typer.Option(
        "--proof", help="Also prove the bound of a result again, by another exact method if there is one."
    ),
]


@with_cluster()
@with_rules()
@with_limits("time_limit_s")
def command(
    *,
    instance: InstanceArgument,
    plan: PlanArgument,
    proof: _Proof = False,
    limits: dict[str, Any],
    json: Json = False,
    given: dict[str, Any],
    on: Cluster,
) -> None:
    """Recompute a plan and list every broken rule: exit code 0 if there is none, else 3.

    A claim of the result that the referee does not confirm counts as a broken rule. With --proof the bound is proven
    again: exit code 0 if it is confirmed, 1 if not, 3 if it is contradicted.
    """
    problem = load_for(plan, instance, on)
    if proof:
        raise typer.Exit(_check_proof(problem, plan, given, limits, json))
    if limits:
        raise UsageError("--time-limit is for the search of a proof; give --proof as well, or drop it.")
    case = read_case(problem, plan, given)
    violations, differences = case.violations(), case.differences()
    if json:
        print_json(report(case, violations))
    else:
        from ..show.terminal import say_differences, say_verdict

        say_verdict(case.problem, case.plan, [str(violation) for violation in violations], case.rules)
        say_differences(differences)
        if case.unchecked() is not None and not violations and not differences:
            out().print(styled(f"not checked: {case.unchecked()}."), soft_wrap=True)
    raise typer.Exit(REJECTED if violations or differences else OK)


def _check_proof(problem: Problem, path: str, given: dict[str, Any], limits: dict[str, Any], json: bool) -> int:
    """Prove a result's bound again, by the rules that it was made for; a search that Ctrl-C ends confirms nothing."""
    if given:
        raise UsageError("--proof goes by the rules that the result was made for; drop options of other rules.")
    from ..instances.stored_results import load_result
    from ..planners.run.proof_check import verify_proof

    result = load_result(path)
    with graceful():
        check = verify_proof(problem, result, limits=limits_for(problem, limits))
    if json:
        print_json(check.to_json())
    else:
        from ..show.terminal import say_proof_check

        say_proof_check(check)
    return {"confirmed": OK, "not confirmed": NO_PLAN, "contradicted": REJECTED}[check.answer]


def report(case: Case, violations: tuple[Violation, ...]) -> dict[str, Any]:
    """The facts of the verdict as JSON; costs are there only where the plan is complete."""
    facts: dict[str, Any] = {
        "verified": not violations,
        "options": case.rules.to_options(),
        "objective": None,
        "violations": [{"rule": violation.rule, "message": violation.message} for violation in violations],
        "differences": list(case.differences()),
        "unchecked": case.unchecked(),
        "problem": {"kind": case.problem.kind, "name": case.problem.name, "hash": case.problem.hash},
    }
    if not violations:
        facts["objective"] = case.value()
        facts["evaluation"] = case.evaluation().to_json()
        facts |= _stage_order(case)
    return facts


def _stage_order(case: Case) -> dict[str, Any]:
    """The order of the stages, for plans that have rules of contiguity."""
    order_of = kind_of(case.problem).stage_order
    if order_of is None or "contiguity" not in case.rules.to_options():
        return {}
    order = order_of(case.problem, case.plan)
    return {"stage_order": None if order is None else list(order)}
