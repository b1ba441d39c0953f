"""`plan verify`: the referee's word on a plan, from its decisions alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from ..planners.rules import FLUSH
from .arguments import (
    Cluster,
    InstanceArgument,
    Json,
    load_instance,
    with_cluster,
)
from .console import print_json
from .exits import OK, REJECTED
from .referee_options import Case, Given, PlanArgument, read_case, with_rules

if TYPE_CHECKING:
    from ..instances.referee import Violation


@with_cluster
@with_rules
def command(
    on: Cluster,
    given: Given,
    instance: InstanceArgument,
    plan: PlanArgument,
    json: Json = False,
) -> None:
    """Recompute a plan and list every broken rule: exit code 0 where there is none, else 3."""
    problem = load_instance(instance, on)
    case = read_case(problem, plan, given)
    violations = case.violations()
    if json:
        print_json(report(case, violations))
    else:
        from .drawing import say_verdict

        say_verdict(case.problem, case.plan, [str(violation) for violation in violations], case.rules)
    raise typer.Exit(REJECTED if violations else OK)


def report(case: Case, violations: tuple[Violation, ...]) -> dict[str, Any]:
    """The same facts for machines; costs only where the plan is one."""
    facts: dict[str, Any] = {
        "verified": not violations,
        "options": _options(case),
        "objective": None,
        "violations": [{"rule": violation.rule, "message": violation.message} for violation in violations],
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
    from ..instances.placement import PlacementProblem
    from ..instances.plan import PlacementPlan
    from ..instances.referee import stage_order

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
