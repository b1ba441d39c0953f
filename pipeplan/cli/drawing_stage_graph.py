"""A stage graph: the stages level by level with devices, micro-batches, load and memory, and the timeline."""

from __future__ import annotations

from typing import Any

from ..instances.errors import PipeplanError
from ..instances.graph_pipeline import GraphPipelineProblem, Link
from ..instances.referee.stage_graph import StageGraphEvaluation, evaluate_stage_graph, stage_levels
from ..instances.referee.stage_graph_costs import GraphStageCost
from ..instances.simulation.simulate import simulate
from ..instances.stage_graph import GraphStage, StageGraphPlan
from ..planners.rules import Rules
from .console import can_draw, out, styled
from .drawing_shapes import MAX_DEVICES_DRAWN, bar, columns, limit, new_table, several, size
from .drawing_timeline import draw_timeline
from .progress import number

MAX_READERS_SHOWN = 6


def facts(problem: GraphPipelineProblem) -> dict[str, Any]:
    """What the instance is, in a few words."""
    known = {
        "graph": f"{several(len(problem.operators), 'operator')}, {several(len(problem.edges), 'edge')}",
        "batch": f"{several(problem.mini_batch, 'sample')} between two updates",
        "cluster": f"{several(problem.devices, 'device')} with memory {limit(problem.memory_bytes)}, weights x "
        f"{problem.weight_copies:g}",
        "link": _link(problem, problem.link),
    }
    if problem.node_link is not None:
        known["nodes"] = f"{several(problem.devices_per_node or 0, 'device')} each, {_link(problem, problem.node_link)}"
    return known


def _link(problem: GraphPipelineProblem, link: Link) -> str:
    if link.bandwidth is None:
        return "transfers take no time" if not link.latency_s else f"latency {number(link.latency_s)}"
    return f"{size(link.bandwidth)}/{problem.time_unit or 'time unit'}, latency {number(link.latency_s)}"


def draw(problem: GraphPipelineProblem, plan: StageGraphPlan, rules: Rules) -> None:
    """Stages by level, the slowest marked, loads per sample; then what every stage does over one iteration."""
    evaluation = evaluate_stage_graph(problem, plan)
    levels = stage_levels(problem, plan)
    console = out()
    console.print(_table(problem, plan, evaluation, levels))
    if len(plan.stages) > MAX_DEVICES_DRAWN:
        console.print(styled(f"... and {len(plan.stages) - MAX_DEVICES_DRAWN} more stages"))
    if levels is not None:
        console.print(styled(_levels_in_a_line(levels)))
    unit = f" {problem.time_unit}" if problem.time_unit else ""
    console.print(styled(f"devices: {evaluation.devices} of {problem.devices}; depth: {evaluation.depth or 'none'}"))
    console.print(
        styled(f"bottleneck: stage {evaluation.bottleneck} with {number(evaluation.time_per_sample)}{unit} per sample")
    )
    _timeline(problem, plan)


def _timeline(problem: GraphPipelineProblem, plan: StageGraphPlan) -> None:
    try:
        draw_timeline(simulate(problem, plan))
    except PipeplanError as error:
        out().print(styled(str(error)))


def _levels_in_a_line(levels: tuple[int, ...]) -> str:
    """Stages of the same level, level after level."""
    arrow = " → " if can_draw("→") else " -> "
    groups = [[str(x) for x, level in enumerate(levels) if level == wanted] for wanted in range(max(levels) + 1)]
    return "stages: " + arrow.join(",".join(group) for group in groups)


def _table(
    problem: GraphPipelineProblem,
    plan: StageGraphPlan,
    evaluation: StageGraphEvaluation,
    levels: tuple[int, ...] | None,
) -> Any:
    table = new_table()
    columns(table, "stage,ops,d,b,k,held,share,load,moved,sync,memory,full,after,", left="share,after")
    order = range(len(plan.stages)) if levels is None else sorted(range(len(plan.stages)), key=levels.__getitem__)
    for x in order[:MAX_DEVICES_DRAWN]:
        follows = sorted(i for i, j in plan.edges if j == x)
        slowest = x == evaluation.bottleneck
        table.add_row(
            styled(str(x), "bold" if slowest else ""),
            *_row(problem, plan.stages[x], evaluation.stages[x], evaluation.time_per_sample, slowest),
            styled(_shortened(follows)),
            styled("<--" if slowest else "", "bold red"),
        )
    return table


def _row(
    problem: GraphPipelineProblem, stage: GraphStage, cost: GraphStageCost, largest: float, slowest: bool
) -> list[Any]:
    memory = problem.memory_bytes
    return [
        str(len(stage.nodes)),
        str(stage.devices),
        str(stage.micro_batch),
        str(stage.k),
        str(stage.in_flight),
        styled(bar(cost.time_per_sample, largest), "red" if slowest else "cyan"),
        f"{cost.time_per_sample:.4g}",
        f"{cost.transfers / stage.micro_batch:.3g}",
        f"{cost.synchronisation / problem.mini_batch:.3g}",
        size(cost.memory_bytes),
        f"{100 * cost.memory_bytes / memory:.0f}%" if memory else "-",
    ]


def _shortened(stages: list[int]) -> str:
    shown = ",".join(map(str, stages[:MAX_READERS_SHOWN]))
    return f"{shown},+{len(stages) - MAX_READERS_SHOWN}" if len(stages) > MAX_READERS_SHOWN else shown
