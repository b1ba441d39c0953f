"""`plan show`: a plan as a drawing in the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..instances.errors import PipeplanError, UsageError
from ..show.console import out, print_json, styled
from .arguments import (
    Cluster,
    InstanceArgument,
    Json,
    check_output,
    load_instance,
    with_cluster,
)
from .exits import OK, REJECTED
from .picture_options import Picture, check_picture, draw_picture
from .referee_options import Case, Given, read_case, with_rules
from .verify import report

if TYPE_CHECKING:
    from ..instances.chain.problem import ChainProblem
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
        found = _latency(case)
        latency = {} if found is None else {"latency": found.latency}
        print_json({**report(case, violations), **latency})
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
    from ..show.terminal.drawing import draw_decomposition, draw_instance
    from ..show.views.graph_pipeline import decomposition

    needed = _smallest_memory(problem) if isinstance(problem, ChainProblem) else None
    tree = decomposition(problem) if isinstance(problem, GraphPipelineProblem) else None
    if json:
        smallest = {"smallest_memory": needed.to_json()} if needed else {}
        print_json({"problem": describe(problem), **smallest, **({"decomposition": tree} if tree else {})})
        return
    draw_instance(problem, _said(needed) if needed else {})
    draw_decomposition(tree or [])


def _smallest_memory(problem: ChainProblem) -> Any:
    from ..planners.beaumont.smallest_memory import smallest_memory
    from ..planners.options import SolveOptions

    return smallest_memory(problem, SolveOptions(time_limit_s=ENOUGH_S))


def _said(needed: Any) -> dict[str, str]:
    from ..planners.beaumont.too_little_memory import binding, said

    return {"smallest": f"{said(needed)} per GPU, one batch at a time", "binding": binding(needed)}


def _latency(case: Case) -> Any:
    """The evaluation for one sample of placements; other plans have none."""
    from ..instances.kind import Rules
    from ..instances.placement.referee.evaluate import NotAnAssignmentError
    from ..instances.placement.referee.latency import LatencyEvaluation
    from ..instances.placement.rules import LatencyRules

    if case.problem.kind != "placement":
        return None
    try:
        rules: Rules = LatencyRules()
        return rules.evaluation(case.problem, case.plan)
    except NotAnAssignmentError as error:
        return LatencyEvaluation(None, {}, (), str(error))


def _draw(case: Case, violations: list[str], unrolled: bool) -> None:
    from ..show.terminal.drawing import draw_plan, say_differences, say_verdict
    from ..show.words import amount

    problem = case.problem
    try:
        draw_plan(problem, case.plan, case.rules, unrolled)
    except PipeplanError as error:
        out().print(styled(f"the plan cannot be drawn. {error}"))
    else:
        found = _latency(case) if "contiguity" in case.rules.to_options() else None
        if found is not None:
            latency = f"none. {found.reason}" if found.latency is None else amount(found.latency, problem.time_unit)
            out().print(styled(f"latency of one sample: {latency}"))
    say_verdict(problem, case.plan, violations, case.rules)
    say_differences(case.differences())
