"""`plan show`: a plan as a drawing in the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..instances.errors import PipeplanError, UsageError
from .arguments import (
    Cluster,
    InstanceArgument,
    Json,
    check_output,
    load_instance,
    with_cluster,
)
from .console import out, print_json, styled
from .exits import OK, REJECTED
from .picture_options import Picture, check_picture, draw_picture
from .progress import number
from .referee_options import Case, Given, read_case, with_rules
from .verify import report

if TYPE_CHECKING:
    from ..instances.chain.problem import ChainProblem
    from ..instances.graph_pipeline.problem import GraphPipelineProblem
    from ..instances.kinds import Problem

ENOUGH_S = 20.0
"""For the smallest memory of a chain."""

_Plan = Annotated[
    str | None,
    typer.Argument(
        metavar="PLAN",
        help="A plan, a result of `plan solve`, or an expert split; without it the instance alone is shown.",
        show_default=False,
    ),
]
_Unrolled = Annotated[
    bool, typer.Option("--unrolled", help="Patterns: the pipeline from the first batch on, by batch number.")
]


@with_cluster
@with_rules
def command(
    on: Cluster,
    given: Given,
    instance: InstanceArgument,
    plan: _Plan = None,
    unrolled: _Unrolled = False,
    picture: Picture = None,
    json: Json = False,
) -> None:
    """Draw a plan: load, work, transfers and memory of each device or stage, the slowest marked; what runs when.

    Without a plan: what the instance is; of a chain also the smallest memory for which there is any plan, of a graph
    pipeline its series-parallel decomposition.
    """
    check_output("--picture", picture)
    problem = load_instance(instance, on)
    check_picture(problem, picture)
    if unrolled and problem.kind != "chain":
        raise UsageError(f"--unrolled is for patterns of chains; {instance} is a {problem.kind} problem.")
    if plan is None:
        if picture is not None or unrolled:
            raise UsageError(f"There is no plan to draw; name its file after {instance}.")
        _show_instance(problem, json)
        raise typer.Exit(OK)
    case = read_case(problem, plan, given)
    violations = case.violations()
    if json:
        print_json({**report(case, violations), **_latency(case)})
    else:
        _draw(case, [str(violation) for violation in violations], unrolled)
    if picture is not None:
        draw_picture(problem, case.plan, case.rules, picture)
    raise typer.Exit(REJECTED if violations else OK)


def _show_instance(problem: Problem, json: bool) -> None:
    """Of a chain, what it needs at least; of a graph pipeline, its decomposition; others have their facts alone."""
    from ..instances.chain.problem import ChainProblem
    from ..instances.graph_pipeline.problem import GraphPipelineProblem
    from ..planners.run.solve import describe
    from ..show.terminal.drawing import draw_instance

    if isinstance(problem, GraphPipelineProblem):
        _show_graph_pipeline(problem, json)
        return
    needed = _smallest_memory(problem) if isinstance(problem, ChainProblem) else None
    if json:
        print_json({"problem": describe(problem), **({"smallest_memory": needed.to_json()} if needed else {})})
        return
    draw_instance(problem, _said(needed) if needed else {})


def _show_graph_pipeline(problem: GraphPipelineProblem, json: bool) -> None:
    from ..planners.run.solve import describe
    from ..show.terminal.drawing import draw_instance
    from ..show.terminal.stage_graph import decomposition, draw_decomposition

    if json:
        print_json({"problem": describe(problem), "decomposition": decomposition(problem)})
        return
    draw_instance(problem, {})
    draw_decomposition(problem)


def _smallest_memory(problem: ChainProblem) -> Any:
    from ..planners.beaumont.smallest_memory import smallest_memory
    from ..planners.options import SolveOptions

    return smallest_memory(problem, SolveOptions(time_limit_s=ENOUGH_S))


def _said(needed: Any) -> dict[str, str]:
    from ..planners.beaumont.too_little_memory import binding, said

    return {"smallest": f"{said(needed)} per GPU, one batch at a time", "binding": binding(needed)}


def _latency(case: Case) -> dict[str, float | None]:
    """Of placements; other plans have none."""
    from ..instances.placement.plan import PlacementPlan
    from ..instances.placement.problem import PlacementProblem
    from ..instances.placement.referee.evaluate import NotAnAssignmentError
    from ..instances.placement.referee.latency import evaluate_latency

    if not isinstance(case.problem, PlacementProblem) or not isinstance(case.plan, PlacementPlan):
        return {}
    try:
        return {"latency": evaluate_latency(case.problem, case.plan).latency}
    except NotAnAssignmentError:
        return {"latency": None}


def _draw(case: Case, violations: list[str], unrolled: bool) -> None:
    from ..instances.chain.plan import PatternPlan
    from ..instances.chain.problem import ChainProblem
    from ..instances.placement.plan import PlacementPlan
    from ..instances.placement.problem import PlacementProblem
    from ..instances.placement.referee.latency import evaluate_latency
    from ..show.terminal.drawing import draw_plan, say_differences, say_verdict

    problem, plan = case.problem, case.plan
    try:
        draw_plan(problem, plan, case.rules)
        if unrolled and isinstance(problem, ChainProblem) and isinstance(plan, PatternPlan):
            from ..show.terminal.unrolled import draw_unrolled

            draw_unrolled(problem, plan)
    except PipeplanError as error:
        out().print(styled(f"the plan cannot be drawn. {error}"))
    else:
        if (
            isinstance(problem, PlacementProblem)
            and isinstance(plan, PlacementPlan)
            and "contiguity" in case.rules.to_options()
        ):
            unit = f" {problem.time_unit}" if problem.time_unit else ""
            found = evaluate_latency(problem, plan)
            latency = f"none. {found.reason}" if found.latency is None else f"{number(found.latency)}{unit}"
            out().print(styled(f"latency of one sample: {latency}"))
    say_verdict(problem, plan, violations, case.rules)
    say_differences(case.differences())
