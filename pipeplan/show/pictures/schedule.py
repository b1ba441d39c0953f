"""What runs when as a picture: the timelines one below the other, and the memory of each device under them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..view import Bar, Curve, PlanView, Timeline
from ..words import byte_scale, measured
from .canvas import COLOURS, canvas, legible, write_picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BACKWARD_SHADE = 0.62
"""Backward tasks have their batch's colour, darker."""
MOST_SHAPES = 2_000
"""More bars than that become an image inside the picture: a file of megabytes helps nobody."""
MOST_LANES = 128
MOST_PANELS = 64
MEMORY_COLUMNS = 4
LABEL_SHARE = 0.012
"""A bar that is narrower than this share of its panel, per character, has no label."""

MOST_NAMED = 32
WIDTH_IN = 11.0
ROW_IN = 0.26
PANEL_IN = 0.9
MEMORY_IN = 1.9


def draw_schedule(view: PlanView, path: str | os.PathLike[str]) -> None:
    """Write the picture."""
    curves = view.memory[:MOST_PANELS]
    rows = -(-len(curves) // MEMORY_COLUMNS)
    heights = [PANEL_IN + ROW_IN * min(MOST_LANES, len(timeline.lanes)) for timeline in view.timelines]
    heights += [MEMORY_IN * rows] if curves else []
    with canvas(WIDTH_IN, sum(heights) + 0.4) as figure:
        figure.suptitle(f"{legible(view.name)}: {view.headline}")
        parts: Any = figure.subfigures(len(heights), 1, height_ratios=heights, squeeze=False)
        for (part,), timeline in zip(parts, view.timelines, strict=False):
            draw_timeline(part.subplots(), timeline, view)
        if curves:
            _draw_memory(parts[-1][0], curves, rows)
        write_picture(figure, path)


def draw_timeline(axes: Axes, timeline: Timeline, view: PlanView) -> None:
    """A lane below the other; a timeline without bars says why."""
    if not timeline.bars:
        axes.set_axis_off()
        axes.text(0.0, 0.5, timeline.summary, wrap=True)
        return
    lanes = timeline.lanes[:MOST_LANES]
    row_of = {lane: row for row, lane in enumerate(lanes)}
    length = timeline.end - timeline.start
    shaded = any(bar.backward for bar in timeline.bars)
    style: dict[str, Any] = {"edgecolor": "white", "linewidth": 0.4}
    if len(timeline.bars) > MOST_SHAPES:
        style = {"rasterized": True}
    for lane, row in row_of.items():
        bars = [bar for bar in timeline.bars if bar.lane == lane]
        spans = [(bar.start, bar.end - bar.start) for bar in bars]
        # All bars of a lane at once: matplotlib looks at everything drawn so far whenever something is added.
        axes.broken_barh(spans, (row - 0.42, 0.84), facecolors=[_colour(bar, shaded) for bar in bars], **style)
        for bar, (_, span) in zip(bars, spans, strict=True):
            label = legible(bar.label)
            if label and span > LABEL_SHARE * len(label) * length:
                ink = "white" if bar.backward else "black"
                axes.text(
                    bar.start + span / 2, row, label, ha="center", va="center", color=ink, fontsize=7, clip_on=True
                )
    if timeline.steady is not None:
        axes.axvline(timeline.steady, color="black", linestyle="--", linewidth=1)
    for i, name in enumerate(timeline.colours):
        axes.broken_barh([], (0, 0), facecolor=COLOURS[i], label=name)
    if timeline.colours:
        axes.legend(loc="upper right", bbox_to_anchor=(1.0, 1.16), ncols=5, frameon=False, fontsize="x-small")
    _frame(axes, timeline, lanes, view)


def _frame(axes: Axes, timeline: Timeline, lanes: Sequence[str], view: PlanView) -> None:
    left_out = len(timeline.lanes) - len(lanes)
    title = timeline.title + (" (dashed: from here on everything repeats)" if timeline.steady is not None else "")
    axes.set_title(title + (f", {left_out} lanes left out" if left_out else ""), loc="left", fontsize="medium")
    axes.set_yticks(range(len(lanes)), [legible(view.named(lane, MOST_NAMED)) for lane in lanes])
    axes.set_ylim(len(lanes) - 0.5, -0.5)
    axes.set_xlim(timeline.start, timeline.end or 1.0)
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel(measured("time", view.time_unit) + (f": {timeline.summary}" if timeline.summary else ""))


def _colour(bar: Bar, shaded: bool) -> tuple[float, ...]:
    """Where there are backward tasks, these are darker and the others lighter."""
    from matplotlib.colors import to_rgb

    red, green, blue = to_rgb(COLOURS[bar.colour % len(COLOURS)])
    if not shaded:
        return (red, green, blue)
    if bar.backward:
        return (red * BACKWARD_SHADE, green * BACKWARD_SHADE, blue * BACKWARD_SHADE)
    return (0.4 + 0.6 * red, 0.4 + 0.6 * green, 0.4 + 0.6 * blue)


# ---- memory --------------------------------------------------------------------------------------------


def _draw_memory(part: Any, curves: Sequence[Curve], rows: int) -> None:
    """One panel per device, with the limit and all scales alike."""
    columns = min(len(curves), MEMORY_COLUMNS)
    panels = part.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
    factor, unit = byte_scale(max(max(*curve.totals, curve.limit or 0.0) for curve in curves))
    flat = [axes for row in panels for axes in row]
    for axes, curve in zip(flat, curves, strict=False):
        _memory_panel(axes, curve, factor)
    for axes in flat[len(curves) :]:
        axes.set_visible(False)
    for row in panels:
        row[0].set_ylabel(f"memory ({unit})")
    part.legend(*flat[0].get_legend_handles_labels(), loc="outside lower center", ncols=6)


def _memory_panel(axes: Axes, curve: Curve, factor: float) -> None:
    """The kinds stacked; between two instants nothing changes, so the last one is drawn to the end."""
    axes.stackplot(
        [*curve.times, curve.end],
        [[amount / factor for amount in (*amounts, amounts[-1])] for amounts in curve.terms.values()],
        labels=list(curve.terms),
        colors=[COLOURS[(i - 1) % 7] for i in range(len(curve.terms))],
        step="post",
    )
    if curve.limit is not None:
        axes.axhline(curve.limit / factor, color="black", linestyle="--", linewidth=1, label="limit")
    axes.set_xlim(0, curve.end)
    axes.set_title(f"{curve.name}: peak {max(curve.totals) / factor:.4g}", loc="left", fontsize=8)
