"""`plan show`: a plan as a drawing in the terminal."""

from __future__ import annotations

import typer

from ..instances.errors import PipeplanError
from ..instances.placement import PlacementProblem
from ..instances.plan import PlacementPlan
from ..instances.referee import NotAnAssignmentError, evaluate_latency
from .arguments import (
    Bandwidth,
    Batch,
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
from .referee_options import Case, Contiguity, Objective, PlanArgument, Semantics, SubgraphsPerDevice, read_case
from .verify import report


def command(
    instance: InstanceArgument,
    plan: PlanArgument,
    contiguity: Contiguity = None,
    objective: Objective = None,
    semantics: Semantics = None,
    subgraphs_per_device: SubgraphsPerDevice = None,
    devices: Devices = None,
    cpus: Cpus = None,
    memory: Memory = None,
    bandwidth: Bandwidth = None,
    cpu_slowdown: CpuSlowdown = None,
    inference: Inference = False,
    batch: Batch = None,
    json: Json = False,
) -> None:
    """Draw a plan: load, work, transfers and memory of each device or stage, the slowest marked; a pattern's Gantt."""
    problem = load_instance(instance, cluster(devices, cpus, memory, bandwidth, cpu_slowdown, inference, batch))
    case = read_case(problem, plan, contiguity, objective, semantics, subgraphs_per_device)
    violations = case.violations()
    if json:
        print_json({**report(case, violations), **_latency(case)})
    else:
        _draw(case, [str(violation) for violation in violations])
    raise typer.Exit(REJECTED if violations else OK)


def _latency(case: Case) -> dict[str, float | None]:
    """Of placements; other plans have none."""
    if not isinstance(case.problem, PlacementProblem) or not isinstance(case.plan, PlacementPlan):
        return {}
    try:
        return {"latency": evaluate_latency(case.problem, case.plan).latency}
    except NotAnAssignmentError:
        return {"latency": None}


def _draw(case: Case, violations: list[str]) -> None:
    from .drawing import draw_plan, say_verdict

    problem, plan = case.problem, case.plan
    try:
        draw_plan(problem, plan, case.rules)
    except PipeplanError as error:
        out().print(styled(f"the plan cannot be drawn. {error}"))
    else:
        if isinstance(problem, PlacementProblem) and isinstance(plan, PlacementPlan) and not case.rules.latency:
            unit = f" {problem.time_unit}" if problem.time_unit else ""
            found = evaluate_latency(problem, plan)
            latency = f"none. {found.reason}" if found.latency is None else f"{number(found.latency)}{unit}"
            out().print(styled(f"latency of one sample: {latency}"))
    say_verdict(problem, plan, violations, case.rules)
