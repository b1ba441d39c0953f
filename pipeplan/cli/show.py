"""`plan show`: the split as a drawing in the terminal."""

from __future__ import annotations

import typer

from ..instances.referee import NotAnAssignmentError, evaluate_latency, verify
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
from .console import out, print_json, styled
from .exits import OK, REJECTED
from .progress import number
from .referee_options import Case, Contiguity, Objective, PlanArgument, read_case
from .verify import report


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
    """Draw a split: load, work, transfers and memory of each device, the slowest marked, stages, latency."""
    problem = load_instance(instance, cluster(devices, cpus, memory, bandwidth, cpu_slowdown, inference))
    case = read_case(problem, plan, contiguity, objective)
    violations = verify(problem, case.plan, contiguity=case.contiguity)
    if json:
        print_json({**report(case, violations), **_latency(case)})
    else:
        _draw(case, [str(violation) for violation in violations])
    raise typer.Exit(REJECTED if violations else OK)


def _latency(case: Case) -> dict[str, float | None]:
    try:
        return {"latency": evaluate_latency(case.problem, case.plan).latency}
    except NotAnAssignmentError:
        return {"latency": None}


def _draw(case: Case, violations: list[str]) -> None:
    from .drawing import draw_split, say_verdict

    try:
        draw_split(case.problem, case.plan)
    except NotAnAssignmentError as error:
        out().print(styled(f"the split cannot be drawn. {error}"))
    else:
        unit = f" {case.problem.time_unit}" if case.problem.time_unit else ""
        found = evaluate_latency(case.problem, case.plan)
        latency = f"none. {found.reason}" if found.latency is None else f"{number(found.latency)}{unit}"
        out().print(styled(f"latency of one sample: {latency}"))
    say_verdict(case.problem, case.plan, violations, case.objective)
