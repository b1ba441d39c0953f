"""What a report shows of a plan: tables, loads and memory as bars, memory over time, the graph, what runs when."""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree.ElementTree import Element

from ...instances.registry import Plan, Problem
from ..lanes import load_lanes, memory_lanes, memory_over_time, timeline_lanes
from ..view import Graph, PlanView, Table, Timeline
from ..views.simulated import first_micro_batches
from ..words import plain, several
from .charts import chart, colour, legend, mark, scrolled, swatch, zoom
from .lanes import MOST_TASKS, lanes_chart
from .markup import tag
from .page import details, section, table

# A graph with more nodes is not drawn.
MOST_NODES = 1500
# Distances between levels and between nodes, the radius of a node, and the margin.
STEP_X, STEP_Y, RADIUS, MARGIN = 26.0, 20.0, 7.0, 14.0
LEAST_WIDTH = 640.0
# The most levels side by side; the others follow below, as lines of text do.
PER_ROW = 40
# Rounds in which nodes are ordered by their neighbours within the levels.
SWEEPS = 4


def sections(problem: Problem, plan: Plan, view: PlanView) -> list[Element]:
    """The sections of a plan: tables, timeline, loads, memory, graph. Where the plan fixes no times, an iteration is
    simulated, if it can be run."""
    timelines, curves = (view.timelines, view.memory) if view.timelines else first_micro_batches(problem, plan)
    memory, drawn = memory_lanes(view), None if view.graph is None else graph(view.graph)
    over_time = () if timelines[-1:] and timelines[-1].over_memory else curves
    return [
        *(section(f"{part.what[0].upper()}{part.what[1:]}s", plan_table(view, part)) for part in view.tables),
        *(timeline_section(line, view) for line in timelines[-1:] if line.bars),
        section("Loads", lanes_chart(load_lanes(view)), *map(_parts, view.tables)),
        *([] if memory is None else [section("Memory", lanes_chart(memory))]),
        *([section("Memory over time", lanes_chart(memory_over_time(over_time, view)))] if over_time else []),
        *([] if drawn is None else [section("Graph", drawn)]),
    ]


def timeline_section(line: Timeline, view: PlanView, title: str = "", name: str = "gantt") -> Element:
    return section(title or line.title, lanes_chart(timeline_lanes(line, view, MOST_TASKS)), name=name)


def plan_table(view: PlanView, part: Table) -> Element:
    columns = part.columns(part.rows, view.memory_unit)
    for title in part.parts:
        columns.pop(title, None)
    for title in dict.fromkeys(title for row in part.rows for title in row.told):
        columns[title] = [row.told.get(title, "") for row in part.rows]
    head = [f"load {view.unit or ''}".rstrip() if title == "load" else title for title in columns]
    legend = "; ".join(filter(None, ["Recomputed by the referee", view.legend]))
    return table(head, list(zip(*columns.values(), strict=True)), legend)


def _parts(part: Table) -> Element | None:
    """The parts of the loads, in numbers; None where a load has one part."""
    if len(part.parts) < 2:
        return None
    rows = [
        [row.title, plain(row.load), *(plain(row.parts.get(name, 0.0), 3) for name in part.parts)]
        for row in part.rows
    ]
    return details("As a table", table([part.what, "load", *part.parts], rows))


# ---- the graph -------------------------------------------------------------------------------------------


def graph(picture: Graph) -> Element | None:
    """Levels from left to right, row after row; None where the graph is too large to be looked at."""
    count = len(picture.labels)
    if count > MOST_NODES:
        return None
    places = _places(count, picture.edges)
    drawn = [tag("path", {"class": "edge", "d": _curve(places[u], places[v])}) for u, v in picture.edges]
    for i, (x, y) in enumerate(places):
        title = f"{picture.labels[i]}: {picture.groups[picture.group_of[i]]}"
        shape = {"cx": x, "cy": y, "r": RADIUS, "fill": colour(picture.group_of[i])}
        drawn.append(mark("circle", shape, title))
    width = max(x for x, _ in places) + MARGIN
    height = max(y for _, y in places) + MARGIN
    size = {"class": "graph", "viewBox": f"0 0 {max(width, LEAST_WIDTH):g} {height:g}"}
    description = {"role": "group", "aria-label": picture.title}
    groups = legend((swatch(colour(i)), name) for i, name in enumerate(picture.groups))
    drawing = scrolled(tag("svg", {**size, **description}, *drawn))
    return chart(drawing, picture.title, groups, _note(picture), above=zoom())


def _note(picture: Graph) -> Element:
    """A note that nothing is missing, and on how the picture is read."""
    count, edges = several(len(picture.labels), "node"), several(len(picture.edges), "edge")
    words = f"all {count} and {edges}, from left to right, as lines of text where they do not fit into one"
    return tag("div", {"class": "note"}, f"{words}; zoomed in, the graph scrolls sideways")


def _curve(start: tuple[float, float], end: tuple[float, float]) -> str:
    (x, y), (u, v) = start, end
    bend = (u - x) / 2
    return f"M{x:.1f},{y:.1f} C{x + bend:.1f},{y:.1f} {u - bend:.1f},{v:.1f} {u:.1f},{v:.1f}"


def _places(count: int, edges: Sequence[tuple[int, int]]) -> list[tuple[float, float]]:
    """Place of each node: levels from left to right, `PER_ROW` of them in a row, each in the middle of its row."""
    before: list[list[int]] = [[] for _ in range(count)]
    after: list[list[int]] = [[] for _ in range(count)]
    for u, v in edges:
        before[v].append(u)
        after[u].append(v)
    level = _levels(before, after)
    columns: list[list[int]] = [[] for _ in range(max(level, default=0) + 1)]
    for i in range(count):
        columns[level[i]].append(i)
    rank = _ranks(columns, before, after)
    places = [(0.0, 0.0)] * count
    top = MARGIN
    for first in range(0, len(columns), PER_ROW):
        row = columns[first : first + PER_ROW]
        tallest = max(len(column) for column in row)
        for x, column in enumerate(row):
            shift = (tallest - len(column)) / 2
            for i in column:
                places[i] = (MARGIN + STEP_X * x, top + STEP_Y * (rank[i] + shift))
        top += STEP_Y * (tallest + 1)
    return places


def _levels(before: Sequence[Sequence[int]], after: Sequence[Sequence[int]]) -> list[int]:
    """Length of the longest path to each node; nodes on a cycle keep the level that they have reached."""
    waiting = [len(sources) for sources in before]
    level = [0] * len(before)
    ready = [i for i, count in enumerate(waiting) if not count]
    for i in ready:
        for j in after[i]:
            level[j] = max(level[j], level[i] + 1)
            waiting[j] -= 1
            if not waiting[j]:
                ready.append(j)
    return level


def _ranks(
    columns: list[list[int]], before: Sequence[Sequence[int]], after: Sequence[Sequence[int]]
) -> dict[int, int]:
    """The place of each node within its level, by the mean place of its neighbours, so that few edges cross."""
    rank = {i: r for column in columns for r, i in enumerate(column)}
    for sweep in range(SWEEPS):
        near = before if sweep % 2 == 0 else after
        for column in columns if sweep % 2 == 0 else reversed(columns):
            middle = {i: sum(rank[j] for j in near[i]) / len(near[i]) if near[i] else rank[i] for i in column}
            column.sort(key=lambda i: (middle[i], rank[i]))
            rank.update({i: r for r, i in enumerate(column)})
    return rank
