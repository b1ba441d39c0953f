"""A stage graph: the stages level by level with devices, micro-batches, load and memory, and the timeline."""

from __future__ import annotations

from typing import Any

from ...cli.console import can_draw, out, styled
from ...cli.progress import number
from ...instances.errors import PipeplanError
from ...instances.graph_pipeline.plan import GraphStage, StageGraphPlan
from ...instances.graph_pipeline.problem import GraphPipelineProblem, Link
from ...instances.graph_pipeline.referee.costs import GraphStageCost
from ...instances.graph_pipeline.referee.evaluate import StageGraphEvaluation, evaluate_stage_graph, stage_levels
from ...instances.graph_pipeline.series_parallel import decompose, to_text
from ...instances.kind import Rules
from ...instances.simulate import simulate
from .shapes import MAX_DEVICES_DRAWN, bar, columns, limit, names, new_table, several, size
from .timeline import draw_timeline

MAX_READERS_SHOWN = 6
MAX_LINES_SHOWN = 64


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
    latency = f"latency {number(link.latency_s)} {problem.time_unit or ''}".rstrip()
    if link.bandwidth is None:
        return latency if link.latency_s else "transfers take no time"
    return f"{size(link.bandwidth)}/{problem.time_unit or 'time unit'}, {latency}"


def decomposition(problem: GraphPipelineProblem) -> list[str]:
    """The series-parallel tree whose parts become stages: one line for each node, indented by its depth."""
    place = {operator.id: v for v, operator in enumerate(problem.operators)}
    tree = decompose(len(place), [(place[u], place[v]) for u, v in problem.edges])
    return to_text(tree, list(place)).splitlines()


def draw_decomposition(problem: GraphPipelineProblem) -> None:
    """Its first lines."""
    lines = decomposition(problem)
    console = out()
    console.print(styled("decomposition", "bold"))
    for line in lines[:MAX_LINES_SHOWN]:
        console.print(styled(f"  {line}"), soft_wrap=True)
    if len(lines) > MAX_LINES_SHOWN:
        console.print(styled(f"  ... and {several(len(lines) - MAX_LINES_SHOWN, 'more line')}; --json has all of them"))


def draw(problem: GraphPipelineProblem, plan: StageGraphPlan, rules: Rules) -> None:
    """Stages by level, the slowest marked, loads per sample; then what every stage does over one iteration."""
    evaluation = evaluate_stage_graph(problem, plan)
    levels = stage_levels(problem, plan)
    console = out()
    scale, small = _scaled(problem.time_unit, evaluation.time_per_sample)
    console.print(_table(problem, plan, evaluation, levels, scale))
    console.print(styled(f"b, held: samples; load (with moved and sync): {small} per sample"))
    if len(plan.stages) > MAX_DEVICES_DRAWN:
        console.print(styled(f"... and {len(plan.stages) - MAX_DEVICES_DRAWN} more stages"))
    if levels is not None:
        console.print(styled(_levels_in_a_line(levels)))
    unit = f" {problem.time_unit}" if problem.time_unit else ""
    console.print(styled(f"devices: {evaluation.devices} of {problem.devices}; depth: {evaluation.depth or 'none'}"))
    console.print(
        styled(f"bottleneck: stage {evaluation.bottleneck} with {number(evaluation.time_per_sample)}{unit} per sample")
    )
    for x, stage in enumerate(plan.stages[:MAX_DEVICES_DRAWN]):
        console.print(styled(f"stage {x}: {names(stage.nodes)}"))
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


def _scaled(unit: str | None, largest: float) -> tuple[float, str]:
    """What to multiply times with, and their unit then: short numbers for seconds."""
    if unit == "s" and 0 < largest < 1:
        return (1e3, "ms") if largest >= 1e-3 else (1e6, "us")
    return 1.0, unit or "time"


def _table(
    problem: GraphPipelineProblem,
    plan: StageGraphPlan,
    evaluation: StageGraphEvaluation,
    levels: tuple[int, ...] | None,
    scale: float,
) -> Any:
    table = new_table()
    columns(table, "stage,ops,d,b,k,held,share,load,moved,sync,memory,full,after,", left="share,after")
    order = range(len(plan.stages)) if levels is None else sorted(range(len(plan.stages)), key=levels.__getitem__)
    for x in order[:MAX_DEVICES_DRAWN]:
        follows = sorted(i for i, j in plan.edges if j == x)
        slowest = x == evaluation.bottleneck
        table.add_row(
            styled(str(x), "bold" if slowest else ""),
            *_row(problem, plan.stages[x], evaluation.stages[x], evaluation.time_per_sample, scale, slowest),
            styled(_shortened(follows)),
            styled("<--" if slowest else "", "bold red"),
        )
    return table


def _row(
    problem: GraphPipelineProblem, stage: GraphStage, cost: GraphStageCost, largest: float, scale: float, slowest: bool
) -> list[Any]:
    memory = problem.memory_bytes
    return [
        str(len(stage.nodes)),
        str(stage.devices),
        str(stage.micro_batch),
        str(stage.k),
        str(stage.in_flight),
        styled(bar(cost.time_per_sample, largest), "red" if slowest else "cyan"),
        f"{scale * cost.time_per_sample:.4g}",
        f"{scale * cost.transfers / stage.micro_batch:.3g}",
        f"{scale * cost.synchronisation / problem.mini_batch:.3g}",
        size(cost.memory_bytes),
        f"{100 * cost.memory_bytes / memory:.0f}%" if memory else "-",
    ]


def _shortened(stages: list[int]) -> str:
    shown = ",".join(map(str, stages[:MAX_READERS_SHOWN]))
    return f"{shown},+{len(stages) - MAX_READERS_SHOWN}" if len(stages) > MAX_READERS_SHOWN else shown
