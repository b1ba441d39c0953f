"""Plans as pictures: the contents of a view decide what is drawn, one panel below the other."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from itertools import accumulate, chain
from typing import TYPE_CHECKING, Any

from ...instances.base.kind import Rules
from ...instances.registry import Plan, Problem
from ...planners.referee import rules_of
from ..lanes import Lane, Lanes, Shape, load_lanes, memory_lanes, memory_over_time, timeline_lanes
from ..palette import COMPUTATION, MEMORY, OTHER, ink_on
from ..view import Flow, PlanView, Row, view_of
from ..words import several
from .canvas import (
    CHARACTER,
    GROUND,
    INK,
    SMALL_PT,
    canvas,
    explain,
    format_of,
    legible,
    with_titles,
    wrapped,
    write_picture,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


# ---- flow ------------------------------------------------------------------------------------------------
# The stages of a stage graph level by level, with load and memory.

# The most characters for the operators of a stage.
MOST_NAMED = 24
# Height of a box, relative to the distance of rows, and widths of the frames of slowest and other stages.
BOX_HEIGHT = 0.62
SLOWEST_PT, USUAL_PT = 2.5, 0.8


def draw_flow(axes: Axes, view: PlanView, flow: Flow) -> None:
    """Draw a box for each stage, and an arrow for each edge."""
    places = list(zip(flow.levels, lanes_of(flow.levels, flow.edges), strict=True))
    for i, j in flow.edges:
        (x0, y0), (x1, y1) = places[i], places[j]
        arrow = {"arrowstyle": "->", "color": OTHER, "shrinkA": 0, "shrinkB": 0}
        axes.annotate("", xy=(x1 - 0.42, y1), xytext=(x0 + 0.42, y0), arrowprops=arrow, zorder=0)
    for place, row in zip(places, view.tables[0].rows, strict=True):
        _box(axes, place, row, row.load / view.full_load, view.memory_unit.text(row.memory_held or 0.0))
    axes.set_xlim(-0.5, max(x for x, _ in places) + 0.5)
    axes.set_ylim(max(y for _, y in places) + 0.6, -0.6)
    axes.set_axis_off()
    axes.bar([0], [0], color=COMPUTATION, label="load, of the largest one (thick frame)")
    axes.bar([0], [0], color=MEMORY["held"], label="memory, of the limit")


def _box(axes: Axes, place: tuple[int, int], row: Row, load: float, memory: str) -> None:
    x, y = place
    held, cells = row.memory_held or 0.0, row.cells
    count, names = (0, "") if row.held is None else (row.held.count, legible(row.held.text(MOST_NAMED)))
    settings = ", ".join(f"{name} {cells[name]}" for name in ("d", "b", "k", "held"))
    text = f"{row.title}: {several(count, 'operator')}\n{names}\n{settings}"
    # Ground and ink are of one element each: in the file a shape has one colour of the page.
    frame: dict[str, Any] = {
        "facecolor": "none",
        "edgecolor": INK,
        "linewidth": SLOWEST_PT if row.slowest else USUAL_PT,
    }
    axes.bar(x, BOX_HEIGHT, 0.84, y - BOX_HEIGHT / 2, color=GROUND)
    axes.bar(x, BOX_HEIGHT, 0.84, y - BOX_HEIGHT / 2, **frame)
    axes.text(x, y + 0.06, f"{text}\n{memory}", ha="center", va="center", fontsize=SMALL_PT)
    _bar(axes, place, -0.22, load, COMPUTATION)
    if row.limit:
        _bar(axes, place, -0.27, min(1.0, held / row.limit), MEMORY["held"])


def _bar(axes: Axes, place: tuple[int, int], offset: float, share: float, colour: str) -> None:
    """A thin bar along the top of a box."""
    x, y = place
    axes.bar(x - 0.4 + 0.4 * share, 0.04, 0.8 * share, y + offset, color=colour)


def lanes_of(levels: Sequence[int], edges: Iterable[tuple[int, int]]) -> list[int]:
    """The row of each stage within its level: near the stages that it follows, so that few arrows cross."""
    lanes = [0] * len(levels)
    before = [[i for i, j in edges if j == x] for x in range(len(levels))]
    for level in range(max(levels) + 1):
        here = [x for x in range(len(levels)) if levels[x] == level]
        here.sort(key=lambda x: (sum(lanes[i] for i in before[x]) / len(before[x]) if before[x] else x, x))
        for lane, x in enumerate(here):
            lanes[x] = lane
    return lanes


# ---- plans ------------------------------------------------------------

# With more shapes than this, they become an image inside the picture: a file of megabytes helps nobody.
MOST_SHAPES = 2_000
# The most lanes of a panel.
MOST_LANES = 128
# Points between a label and both ends of its shape.
MARGIN_PT = 1.0
# With more shapes in a lane than this, labels do not fit and windows of the timeline are drawn below.
MANY_SHAPES = 100
# Short shapes in the width of a window.
WINDOW_SHAPES = 22
# Sizes in inches: the width of the picture and of a level of stages, and the heights of a row of stages, of a lane,
# of what a panel has besides, and of the legend.
WIDTH_IN, LEVEL_IN = 11.0, 2.1
STAGE_IN, LANE_IN, PANEL_IN, LEGEND_IN = 0.9, 0.26, 0.9, 0.5
# Amounts are drawn up to so many times the largest, so that a limit there is seen beside the frame.
ROOM = 1.02
# The part of its height that a lane leaves free at either side.
SPACE = 0.08

Panel = tuple["Axes", Lanes]


def draw_plan(problem: Problem, plan: Plan, path: str | os.PathLike[str], rules: Rules | None = None) -> None:
    """Write the picture of a plan: SVG, PNG or PDF by the file's ending."""
    format_of(path)  # refuses what cannot be drawn before any work is done
    draw_view(view_of(problem, plan, rules or rules_of(problem, {})), path)


def draw_view(view: PlanView, path: str | os.PathLike[str]) -> None:
    """Write the picture of a plan's view: SVG, PNG or PDF by the file's ending."""
    rows, flow = _rows(view), view.flow
    heights = [PANEL_IN + LANE_IN * sum(lane.height for lane in row[0].lanes[:MOST_LANES]) for row in rows]
    if flow is not None:
        heights.insert(0, PANEL_IN + STAGE_IN * (max(lanes_of(flow.levels, flow.edges)) + 1))
    width = WIDTH_IN if flow is None else max(WIDTH_IN, LEVEL_IN * (max(flow.levels) + 1))
    panels: list[Panel] = []
    with canvas(width, sum(heights) + LEGEND_IN) as figure:
        if view.name:
            figure.suptitle(wrapped(f"{legible(view.name)}: {view.headline}", WIDTH_IN))
        heights.append(LEGEND_IN)
        parts = iter(figure.subfigures(len(heights), 1, height_ratios=heights, squeeze=False)[:, 0])
        if flow is not None:
            draw_flow(next(parts).subplots(), view, flow)
        for row in rows:
            axes_of_row = next(parts).subplots(1, len(row), squeeze=False)[0]
            for i, (axes, lanes) in enumerate(zip(axes_of_row, row, strict=True)):
                _draw_lanes(axes, lanes, is_first=not i)
                panels.append((axes, lanes))
        explain(next(parts), figure.axes, "center")
        _label_shapes(figure, panels)
        write_picture(figure, path)


def _rows(view: PlanView) -> list[list[Lanes]]:
    """What is drawn below each other: timelines and memory over time, or loads and memory where the view has no
    timelines, or where these would not say what memory is for. Windows of a long timeline stand side by side."""
    memory = memory_lanes(view)
    tells_uses = not view.memory and any(len(row.memory or ()) > 2 for row in view.tables[0].rows)
    if view.flow is None and (tells_uses or not view.timelines):
        return [[load_lanes(view)], *([] if memory is None else [[memory]])]
    rows: list[list[Lanes]] = []
    for timeline in view.timelines:
        lanes = timeline_lanes(timeline, view)
        rows += [row for row in ([lanes], windows_of(lanes)) if row]
    if view.memory and not any(timeline.over_memory for timeline in view.timelines):
        rows.append([memory_over_time(view.memory, view)])
    return rows


def windows_of(lanes: Lanes) -> list[Lanes]:
    """Windows at the beginning, middle and end in which labels can be read; none where the timeline is short enough."""
    lengths = [[shape.end - shape.start for shape in lane.shapes if shape.label] for lane in lanes.lanes]
    if not lanes.windows or max(map(len, lengths), default=0) <= MANY_SHAPES:
        return []
    spans = sorted(chain.from_iterable(lengths))
    width, length = WINDOW_SHAPES * spans[len(spans) // 4], lanes.end - lanes.start
    begins = (lanes.start, lanes.start + (length - width) / 2, lanes.end - width)
    if 3 * width >= length:
        return []
    return [lanes.between(name, begin, begin + width) for name, begin in zip(lanes.windows, begins, strict=True)]


def _draw_lanes(axes: Axes, lanes: Lanes, is_first: bool) -> None:
    """Draw one lane below the other, without labels, which `_label_shapes` adds; lanes without shapes say why."""
    if not any(lane.shapes for lane in lanes.lanes):
        axes.set_axis_off()
        axes.text(0.0, 0.5, wrapped("; ".join(lanes.notes), WIDTH_IN))
        return
    is_long = sum(len(lane.shapes) for lane in lanes.lanes) > MOST_SHAPES
    shown, tops = lanes.lanes[:MOST_LANES], _tops(lanes)
    for lane, top in zip(shown, tops, strict=False):
        _draw_lane(axes, lane, lanes, top, is_long)
    for i, (name, places) in enumerate(lanes.rules.items()):
        style = "--" if len(places) == 1 else ":"
        for place in places:  # behind the shapes, where they cross no label
            axes.axvline(place, color=INK, linewidth=1 - 0.4 * i, linestyle=style, zorder=0, label=name)
    for name, colour in lanes.colours.items():
        axes.broken_barh([], (0, 0), facecolor=colour, label=name)
    left_out = len(lanes.lanes) - len(shown)
    axes.set_title(lanes.title + (f", {left_out} lanes left out" if left_out else ""), loc="left")
    names = [legible(", ".join(filter(None, [lane.name, lane.value]))) if is_first else "" for lane in shown]
    axes.set_yticks([top + lane.height / 2 for lane, top in zip(shown, tops, strict=False)], names)
    for lane, text in zip(shown, axes.get_yticklabels(), strict=True):
        text.set_fontweight("bold" if lane.is_slowest else "normal")
    axes.set_ylim(tops[len(shown)], 0)
    axes.set_xlim(lanes.start, lanes.end * (1 if lanes.is_over_time else ROOM))
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel(": ".join([lanes.axis, *lanes.notes]))


def _tops(lanes: Lanes) -> list[float]:
    """Where each lane begins, from the top, and where the last one ends."""
    return list(accumulate((lane.height for lane in lanes.lanes), initial=0.0))


def _draw_lane(axes: Axes, lane: Lane, lanes: Lanes, top: float, is_long: bool) -> None:
    """All shapes of a lane at once, for matplotlib looks at everything drawn so far whenever something is added."""
    from matplotlib.collections import PolyCollection

    seen = [shape for shape in lane.shapes if shape.colour is not None]
    style: dict[str, Any] = {"edgecolor": GROUND, "linewidth": 0.4 if lane.height == 1 else 0}
    if is_long:
        style = {"rasterized": True}
    drawn = PolyCollection(
        [_corners(shape, lane, top) for shape in seen], facecolors=[shape.colour for shape in seen], **style
    )
    with_titles(drawn, [shape.title for shape in seen])
    axes.add_collection(drawn, autolim=False)
    limit: dict[str, Any] = {"color": INK, "linestyle": "--", "linewidth": 1, "label": "limit"}
    if lane.limit is not None:
        axes.plot([lane.limit] * 2, [top + SPACE / 2, top + lane.height - SPACE / 2], **limit)
    if lane.level is not None:
        axes.plot([lanes.start, lanes.end], [_place(lane.level, lane, top)] * 2, **limit)


def _place(share: float, lane: Lane, top: float) -> float:
    """The place of a share of the lane's height."""
    return top + SPACE + (1 - share) * (lane.height - 2 * SPACE)


def _corners(shape: Shape, lane: Lane, top: float) -> list[tuple[float, float]]:
    low, high = _place(shape.low, lane, top), _place(shape.high, lane, top)
    return [(shape.start, low), (shape.start, high), (shape.end, high), (shape.end, low)]


def _label_shapes(figure: Figure, panels: Iterable[Panel]) -> None:
    """Give each shape as much of its label as it has room for, once the widths of the panels are known."""
    figure.draw_without_rendering()
    for axes, lanes in panels:
        points = axes.get_window_extent().width / figure.dpi * 72 / ((lanes.end - lanes.start) or 1.0)
        for lane, top in zip(lanes.lanes[:MOST_LANES], _tops(lanes), strict=False):
            for shape in lane.shapes:
                label = fitting(shape, points * (shape.end - shape.start))
                if label and shape.colour is not None:
                    look: dict[str, Any] = {"color": ink_on(shape.colour), "fontsize": SMALL_PT, "in_layout": False}
                    place = ((shape.start + shape.end) / 2, top + lane.height / 2)
                    axes.text(*place, label, ha="center", va="center", **look)


def fitting(shape: Shape, room_pt: float) -> str:
    """The longest label of the shape that fits: its label, the short one, or none."""
    room = (room_pt - MARGIN_PT) / (CHARACTER * SMALL_PT)
    return next((text for text in (legible(shape.label), shape.short) if len(text) <= room), "")
