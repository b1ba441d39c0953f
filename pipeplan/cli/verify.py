"""`plan verify`: the referee's word on a plan, from its decisions alone."""

from __future__ import annotations

from typing import Any

import typer

from ..instances.referee import Violation, evaluate, stage_order, verify
from .arguments import (
    Bandwidth,
    Cpus,
    CpuSlowdown,
    Devices,
    Inference,
    InstanceArgument,
    Json,
    Memory,
    cluster,
    load_instance,
)
from .console import print_json
from .exits import OK, REJECTED
from .referee_options import Case, Contiguity, Objective, PlanArgument, read_case


def command(
    instance: InstanceArgument,
    plan: PlanArgument,
    contiguity: Contiguity = None,
    objective: Objective = None,
    devices: Devices = None,
    cpus: Cpus = None,
    memory: Memory = None,
    bandwidth: Bandwidth = None,
    cpu_slowdown: CpuSlowdown = None,
    inference: Inference = False,
    json: Json = False,
) -> None:
    """Recompute a plan and list every broken rule: exit code 0 where there is none, else 3."""
    problem = load_instance(instance, cluster(devices, cpus, memory, bandwidth, cpu_slowdown, inference))
    case = read_case(problem, plan, contiguity, objective)
    violations = verify(problem, case.plan, contiguity=case.contiguity)
    if json:
        print_json(report(case, violations))
    else:
        from .drawing import say_verdict

        say_verdict(problem, case.plan, [str(violation) for violation in violations], case.objective)
    raise typer.Exit(REJECTED if violations else OK)


def report(case: Case, violations: tuple[Violation, ...]) -> dict[str, Any]:
    """The same facts for machines; costs only where the plan is one."""
    facts: dict[str, Any] = {
        "verified": not violations,
        "options": {"contiguity": case.contiguity, "objective": case.objective},
        "objective": None,
        "violations": [{"rule": violation.rule, "message": violation.message} for violation in violations],
        "problem": {"kind": case.problem.kind, "name": case.problem.name, "hash": case.problem.hash},
    }
    if not violations:
        evaluation = evaluate(case.problem, case.plan)
        order = stage_order(case.problem, case.plan)
        facts["objective"] = evaluation.objective(case.objective)
        facts["evaluation"] = evaluation.to_json()
        facts["stage_order"] = None if order is None else list(order)
    return facts
