"""The picture of a stage graph: its stages level by level, with load and memory, above the simulated timeline."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from ...instances.errors import PipeplanError
from ...instances.graph_pipeline.plan import StageGraphPlan
from ...instances.graph_pipeline.problem import GraphPipelineProblem
from ...instances.graph_pipeline.referee.evaluate import StageGraphEvaluation, evaluate_stage_graph, stage_levels
from ...instances.kind import Rules
from ...instances.simulate import simulate
from ...instances.simulation.timeline import Simulation, StageRun, Task
from .canvas import COLOURS, canvas, write_picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PHASES = {"warm-up": 4, "forward": 0, "backward": 1, "cool-down": 5, "synchronisation": 3}
"""What a pass is drawn as, by position among the colours."""

MOST_SHAPES = 2_000
"""More passes than that become an image inside the picture: a file of megabytes helps nobody."""

BOX_HEIGHT = 0.62
GIB = 2**30


def picture(problem: GraphPipelineProblem, plan: StageGraphPlan, rules: Rules, path: str | os.PathLike[str]) -> None:
    """Write it to a file; more stages get a higher picture."""
    with canvas(9.0, min(16.0, 4.0 + 0.45 * len(plan.stages))) as figure:
        draw(problem, plan, figure)
        write_picture(figure, path)


def draw(problem: GraphPipelineProblem, plan: StageGraphPlan, figure: Figure) -> None:
    """The graph of stages on top, what they do over one iteration below; a plan without costs cannot be drawn."""
    evaluation = evaluate_stage_graph(problem, plan)
    levels = stage_levels(problem, plan) or tuple(range(len(plan.stages)))
    lanes = lanes_of(levels, plan.edges)
    top, bottom = figure.subplots(2, 1, height_ratios=(max(lanes) + 2, max(2, len(plan.stages) / 3)))
    _draw_graph(top, problem, plan, evaluation, list(zip(levels, lanes, strict=True)))
    try:
        draw_timeline(bottom, simulate(problem, plan))
    except PipeplanError as error:
        bottom.set_axis_off()
        bottom.text(0.0, 0.5, str(error), wrap=True)


def lanes_of(levels: Sequence[int], edges: Iterable[tuple[int, int]]) -> list[int]:
    """A row for each stage of a level: near those that it follows, so that few arrows cross."""
    lanes = [0] * len(levels)
    before = [[i for i, j in edges if j == x] for x in range(len(levels))]
    for level in range(max(levels) + 1):
        here = [x for x in range(len(levels)) if levels[x] == level]
        here.sort(key=lambda x: (sum(lanes[i] for i in before[x]) / len(before[x]) if before[x] else x, x))
        for lane, x in enumerate(here):
            lanes[x] = lane
    return lanes


def _draw_graph(
    axes: Axes,
    problem: GraphPipelineProblem,
    plan: StageGraphPlan,
    evaluation: StageGraphEvaluation,
    places: Sequence[tuple[int, int]],
) -> None:
    for i, j in plan.edges:
        if i < len(places) and j < len(places):
            (x0, y0), (x1, y1) = places[i], places[j]
            arrow = {"arrowstyle": "->", "color": COLOURS[6], "shrinkA": 0, "shrinkB": 0}
            axes.annotate("", xy=(x1 - 0.42, y1), xytext=(x0 + 0.42, y0), arrowprops=arrow, zorder=0)
    for number, (place, stage, cost) in enumerate(zip(places, plan.stages, evaluation.stages, strict=True)):
        slowest = number == evaluation.bottleneck
        text = f"stage {number}: {len(stage.nodes)} ops on {stage.devices}\nb {stage.micro_batch}, k {stage.k}, "
        text += f"held {stage.in_flight}\n{cost.memory_bytes / GIB:.3g} GiB"
        _box(
            axes, place, text, COLOURS[1] if slowest else COLOURS[0], cost.time_per_sample / evaluation.time_per_sample
        )
        if problem.memory_bytes:
            _bar(axes, place, -0.27, min(1.0, cost.memory_bytes / problem.memory_bytes), COLOURS[2])
    axes.set_xlim(-0.5, max(x for x, _ in places) + 0.5)
    axes.set_ylim(max(y for _, y in places) + 0.6, -0.6)
    axes.set_axis_off()
    unit = f" {problem.time_unit}" if problem.time_unit else ""
    axes.set_title(
        f"{problem.name}: {evaluation.time_per_sample:.4g}{unit} per sample, depth {evaluation.depth}\n"
        "bars: load of the slowest stage, memory of a device",
        fontsize="medium",
    )


def _box(axes: Axes, place: tuple[int, int], text: str, colour: str, load: float) -> None:
    x, y = place
    axes.bar(x, BOX_HEIGHT, 0.84, y - BOX_HEIGHT / 2, color="white", edgecolor=colour, linewidth=1.5)
    axes.text(x, y + 0.06, text, ha="center", va="center", fontsize="x-small")
    _bar(axes, place, -0.22, load, colour)


def _bar(axes: Axes, place: tuple[int, int], offset: float, share: float, colour: str) -> None:
    """A thin bar along the top of a box."""
    x, y = place
    axes.bar(x - 0.4 + 0.4 * share, 0.04, 0.8 * share, y + offset, color=colour)


def draw_timeline(axes: Axes, simulation: Simulation) -> None:
    """One row for each replica of each stage, the passes coloured by what they are."""
    rows = [(stage, replica) for stage in simulation.stages for replica in range(stage.replicas)]
    many = sum(len(stage.tasks) for stage in simulation.stages) > MOST_SHAPES
    for row, (stage, replica) in enumerate(rows):
        for phase, spans in phases(stage, replica).items():
            if spans:
                colour = COLOURS[PHASES[phase]]
                edge: dict[str, Any] = {"rasterized": True} if many else {"edgecolor": "white", "linewidth": 0.2}
                axes.broken_barh(spans, (row - 0.4, 0.8), facecolor=colour, **edge)
    for phase, position in PHASES.items():
        axes.broken_barh([], (0, 0), facecolor=COLOURS[position], label=phase)
    axes.set_yticks(range(len(rows)), [_label(*row) for row in rows])
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_xlim(0, simulation.iteration or 1)
    unit = f" [{simulation.time_unit}]" if simulation.time_unit else ""
    axes.set_xlabel(
        f"time{unit}: {simulation.iteration:.4g}, {100 * simulation.bubble:.1f} % of all devices' time idle"
    )
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, 1.12), ncols=len(PHASES), frameon=False, fontsize="x-small")


def _label(stage: StageRun, replica: int) -> str:
    return stage.name if stage.replicas == 1 else f"{stage.name}/{replica}"


def phases(stage: StageRun, replica: int) -> dict[str, list[tuple[float, float]]]:
    """Start and length of the passes of a replica: warm-up ends with the first backward pass, cool-down begins after
    the last forward pass."""
    tasks = [task for task in stage.tasks if task.replica == replica]
    kinds = [task.kind for task in tasks]
    first = kinds.index("backward") if "backward" in kinds else 0
    last = max((i for i, kind in enumerate(kinds) if kind == "forward"), default=0)
    found: dict[str, list[tuple[float, float]]] = {phase: [] for phase in PHASES}
    for i, task in enumerate(tasks):
        found[_phase(task, i < first, i > last)].append((task.start, task.end - task.start))
    return found


def _phase(task: Task, warming: bool, cooling: bool) -> str:
    if task.kind == "forward" and warming:
        return "warm-up"
    return "cool-down" if task.kind == "backward" and cooling else task.kind
