"""`plan verify`: the referee's word on a plan, from its decisions alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..instances.errors import UsageError
from ..planners.run.rules import FLUSH
from .arguments import (
    Cluster,
    InstanceArgument,
    Json,
    load_instance,
    with_cluster,
)
from .console import print_json
from .exits import NO_PLAN, OK, REJECTED
from .interrupt import graceful
from .limits import TimeLimit
from .referee_options import Case, Given, PlanArgument, read_case, with_rules

if TYPE_CHECKING:
    from ..instances.kinds import Problem
    from ..instances.placement.referee.verify import Violation

_Proof = Annotated[
    bool,
    typer.Option("--proof", help="Of a result: prove its bound anew, by a second exact method where there is one."),
]


@with_cluster
@with_rules
def command(
    on: Cluster,
    given: Given,
    instance: InstanceArgument,
    plan: PlanArgument,
    proof: _Proof = False,
    time_limit: TimeLimit = None,
    json: Json = False,
) -> None:
    """Recompute a plan and list every broken rule: exit code 0 where there is none, else 3.

    What a result claims and the referee does not find counts as broken, too. With --proof also the bound is proven
    anew: exit code 0 where that is confirmed, 1 where it is not, 3 where it is contradicted.
    """
    problem = load_instance(instance, on)
    if proof:
        raise typer.Exit(_check_proof(problem, plan, given, time_limit, json))
    if time_limit is not None:
        raise UsageError("--time-limit is for the search of a proof; give --proof as well, or drop it.")
    case = read_case(problem, plan, given)
    violations, differences = case.violations(), case.differences()
    if json:
        print_json(report(case, violations))
    else:
        from ..show.terminal.drawing import say_differences, say_verdict

        say_verdict(case.problem, case.plan, [str(violation) for violation in violations], case.rules)
        say_differences(differences)
    raise typer.Exit(REJECTED if violations or differences else OK)


def _check_proof(problem: Problem, path: str, given: Given, time_limit: float | None, json: bool) -> int:
    """By the rules that the result was made for; what was found before Ctrl-C is not enough to say anything."""
    if given != Given():
        raise UsageError("--proof goes by the rules that the result was made for; drop the options of other rules.")
    from ..instances.results import load_result
    from ..planners.options import SolveOptions
    from ..planners.run.proof_check import verify_proof

    result = load_result(path)
    with graceful():
        check = verify_proof(problem, result, limits=SolveOptions(time_limit_s=time_limit))
    if json:
        print_json(check.to_json())
    else:
        from ..show.terminal.drawing import say_proof_check

        say_proof_check(check)
    return {"confirmed": OK, "not confirmed": NO_PLAN, "contradicted": REJECTED}[check.answer]


def report(case: Case, violations: tuple[Violation, ...]) -> dict[str, Any]:
    """The same facts for machines; costs only where the plan is one."""
    facts: dict[str, Any] = {
        "verified": not violations,
        "options": _options(case),
        "objective": None,
        "violations": [{"rule": violation.rule, "message": violation.message} for violation in violations],
        "differences": list(case.differences()),
        "problem": {"kind": case.problem.kind, "name": case.problem.name, "hash": case.problem.hash},
    }
    if not violations:
        facts["objective"] = case.value()
        facts["evaluation"] = case.evaluation().to_json()
        if not case.rules.latency:
            facts |= _stage_order(case)
    return facts


def _stage_order(case: Case) -> dict[str, Any]:
    """Of placements; other plans have none."""
    from ..instances.placement.plan import PlacementPlan
    from ..instances.placement.problem import PlacementProblem
    from ..instances.placement.referee.stages import stage_order

    if not isinstance(case.problem, PlacementProblem) or not isinstance(case.plan, PlacementPlan):
        return {}
    order = stage_order(case.problem, case.plan)
    return {"stage_order": None if order is None else list(order)}


def _options(case: Case) -> dict[str, Any]:
    """The rules that mean something for this kind of problem."""
    if case.problem.kind == "placement" and case.rules.latency:
        return {"objective": case.rules.objective, "subgraphs_per_device": case.rules.subgraphs_per_device}
    if case.problem.kind == "placement":
        return {"contiguity": case.rules.contiguity, "objective": case.rules.objective}
    if case.problem.kind == "graph-pipeline":
        return {"objective": "iteration" if case.rules.objective == "iteration" else "time-per-sample"}
    if case.problem.kind == "chain":
        return {} if case.rules.allocation is None else {"allocation": list(case.rules.allocation)}
    if case.problem.kind != "staging":
        return {}
    if getattr(case.problem, "levels", ()):
        return {"hierarchy": case.rules.hierarchy}
    objective = {"objective": FLUSH} if case.rules.objective == FLUSH else {}
    return {"semantics": case.rules.semantics, **objective}
