"""What runs when as a picture: the timelines one below the other, and the memory of each device under them."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..palette import CATEGORIES, MEMORY, ink_on
from ..view import Bar, Curve, PlanView, Timeline
from ..words import MemoryUnit, measured
from .canvas import canvas, legible, write_picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BACKWARD_SHADE = 0.62
"""Backward tasks have their batch's colour, darker."""
MOST_SHAPES = 2_000
"""More bars than that become an image inside the picture: a file of megabytes helps nobody."""
MOST_LANES = 128
MOST_PANELS = 64
MEMORY_COLUMNS = 4
LABEL_SHARE = 0.009
"""A bar that is narrower than this share of its panel, per character, has no label."""
MANY_BARS = 100
"""Of a lane: more have no room for their labels, so that windows of the timeline are drawn below it."""
WINDOW_BARS = 22
"""Short bars in the width of a window."""

MOST_NAMED = 32
WIDTH_IN = 11.0
ROW_IN = 0.26
PANEL_IN = 0.9
MEMORY_IN = 1.9
STRIP_IN = 0.42


def draw_schedule(view: PlanView, path: str | os.PathLike[str]) -> None:
    """Write the picture."""
    curves = view.memory[:MOST_PANELS]
    strips = [curves if timeline.over_memory else () for timeline in view.timelines]
    apart = [] if any(strips) else list(curves)
    windows = [windows_of(timeline) for timeline in view.timelines]
    rows = -(-len(apart) // MEMORY_COLUMNS)
    lanes_in = [ROW_IN * min(MOST_LANES, len(timeline.lanes)) for timeline in view.timelines]
    heights = []
    for lanes, below, some in zip(lanes_in, strips, windows, strict=True):
        heights += [PANEL_IN + lanes + STRIP_IN * len(below), *([PANEL_IN + lanes] if some else [])]
    heights += [MEMORY_IN * rows] if apart else []
    with canvas(WIDTH_IN, sum(heights) + 0.4) as figure:
        figure.suptitle(f"{legible(view.name)}: {view.headline}")
        parts = iter(figure.subfigures(len(heights), 1, height_ratios=heights, squeeze=False)[:, 0])
        for timeline, lanes, below, some in zip(view.timelines, lanes_in, strips, windows, strict=True):
            _draw_with_memory(next(parts), timeline, view, below, lanes)
            if some:
                _draw_windows(next(parts), some, view)
        if apart:
            _draw_memory(next(parts), apart, rows, view.memory_unit)
        write_picture(figure, path)


def draw_timeline(axes: Axes, timeline: Timeline, view: PlanView, panels: int = 1) -> None:
    """A lane below the other; a timeline without bars says why. `panels`: so many stand side by side."""
    if not timeline.bars:
        axes.set_axis_off()
        axes.text(0.0, 0.5, timeline.summary, wrap=True)
        return
    lanes = timeline.lanes[:MOST_LANES]
    row_of = {lane: row for row, lane in enumerate(lanes)}
    length = timeline.end - timeline.start
    style: dict[str, Any] = {"edgecolor": "white", "linewidth": 0.4}
    if len(timeline.bars) > MOST_SHAPES:
        style = {"rasterized": True}
    for lane, row in row_of.items():
        bars = [bar for bar in timeline.bars if bar.lane == lane]
        spans = [(bar.start, bar.end - bar.start) for bar in bars]
        # All bars of a lane at once: matplotlib looks at everything drawn so far whenever something is added.
        axes.broken_barh(spans, (row - 0.42, 0.84), facecolors=[_colour(bar, timeline) for bar in bars], **style)
        for bar, (_, span) in zip(bars, spans, strict=True):
            label = legible(bar.label)
            if label and span > LABEL_SHARE * (1 if panels == 1 else panels / 1.5) * len(label) * length:
                ink = _ink(bar, timeline)
                axes.text(
                    bar.start + span / 2, row, label, ha="center", va="center", color=ink, fontsize=7, clip_on=True
                )
    if timeline.steady is not None:
        axes.axvline(timeline.steady, color="black", linestyle="--", linewidth=1)
        axes.axvline(timeline.steady + (timeline.period or 0.0), color="black", linestyle=":", linewidth=1)
    for i in timeline.explained if panels == 1 else ():
        axes.broken_barh([], (0, 0), facecolor=(timeline.palette or CATEGORIES)[i], label=timeline.colours[i])
    if timeline.colours and panels == 1:
        axes.legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=5, frameon=False, fontsize="x-small")
    _frame(axes, timeline, lanes, view)


def _frame(axes: Axes, timeline: Timeline, lanes: Sequence[str], view: PlanView) -> None:
    left_out = len(timeline.lanes) - len(lanes)
    title = timeline.title + (
        " (dashed: from here on everything repeats; dotted: a period later)" if timeline.steady is not None else ""
    )
    axes.set_title(title + (f", {left_out} lanes left out" if left_out else ""), loc="left", fontsize="medium")
    axes.set_yticks(range(len(lanes)), [legible(view.named(lane, MOST_NAMED)) for lane in lanes])
    axes.set_ylim(len(lanes) - 0.5, -0.5)
    axes.set_xlim(timeline.start, timeline.end or 1.0)
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel(measured("time", view.time_unit) + (f": {timeline.summary}" if timeline.summary else ""))


def _colour(bar: Bar, timeline: Timeline) -> str | tuple[float, ...]:
    """Where there are backward tasks, these are darker and the others lighter; a palette has its own shades."""
    from matplotlib.colors import to_rgb

    if timeline.palette:
        return timeline.palette[bar.colour]
    red, green, blue = to_rgb(CATEGORIES[bar.colour % len(CATEGORIES)])
    if not timeline.shaded:
        return (red, green, blue)
    if bar.backward:
        return (red * BACKWARD_SHADE, green * BACKWARD_SHADE, blue * BACKWARD_SHADE)
    return (0.4 + 0.6 * red, 0.4 + 0.6 * green, 0.4 + 0.6 * blue)


def _ink(bar: Bar, timeline: Timeline) -> str:
    if timeline.palette:
        return ink_on(timeline.palette[bar.colour])
    return "white" if bar.backward else "black"


# ---- windows -------------------------------------------------------------------------------------------


def windows_of(timeline: Timeline) -> list[Timeline]:
    """Beginning, middle and end, wide enough to read the labels; none of a timeline that is short enough itself."""
    if not timeline.windows or not timeline.bars:
        return []
    if max(Counter(bar.lane for bar in timeline.bars).values()) <= MANY_BARS:
        return []
    spans = sorted(bar.end - bar.start for bar in timeline.bars)
    width = WINDOW_BARS * spans[len(spans) // 4]
    length = timeline.end - timeline.start
    if 3 * width >= length:
        return []
    begins = (timeline.start, timeline.start + (length - width) / 2, timeline.end - width)
    return [
        _window(timeline, name, begin, begin + width) for name, begin in zip(timeline.windows, begins, strict=True)
    ]


def _window(timeline: Timeline, name: str, begin: float, end: float) -> Timeline:
    """What runs between two instants, cut at both."""
    bars = tuple(
        replace(bar, start=max(begin, bar.start), end=min(end, bar.end))
        for bar in timeline.bars
        if bar.start < end and bar.end > begin
    )
    return replace(timeline, title=name, bars=bars, start=begin, end=end, steady=None, windows=(), summary="")


def _draw_windows(part: Any, windows: Sequence[Timeline], view: PlanView) -> None:
    """Side by side, with the names of the lanes at the first."""
    panels = part.subplots(1, len(windows), squeeze=False)[0]
    for i, (axes, window) in enumerate(zip(panels, windows, strict=True)):
        draw_timeline(axes, window, view, len(windows))
        if i:
            axes.set_yticklabels([])


# ---- memory --------------------------------------------------------------------------------------------


def _draw_with_memory(
    part: Any, timeline: Timeline, view: PlanView, curves: Sequence[Curve], lanes_in: float
) -> None:
    """The timeline above a strip of memory for each device, over the same time; the scales of the strips are alike."""
    heights = [PANEL_IN / 2 + lanes_in, *[STRIP_IN] * len(curves)]
    top, *strips = part.subplots(len(heights), 1, sharex=True, height_ratios=heights, squeeze=False)[:, 0]
    draw_timeline(top, timeline, view)
    if not curves:
        return
    factor, unit = view.memory_unit.scale(_most(curves))
    top.set_xlabel("")
    top.tick_params(axis="x", labelbottom=False)
    for axes, curve in zip(strips, curves, strict=True):
        _stack(axes, curve, factor)
        axes.set_ylim(0, 1.08 * (_most(curves) / factor or 1.0))
        axes.set_xlim(timeline.start, timeline.end)
        axes.set_ylabel(legible(curve.name), rotation=0, ha="right", va="center")
        axes.tick_params(axis="y", labelsize=6)
        axes.tick_params(axis="x", length=3 if curve is curves[-1] else 0)
        if timeline.steady is not None:
            axes.axvline(timeline.steady, color="black", linestyle="--", linewidth=1)
    peaks = ", ".join(f"{legible(curve.name)} {max(curve.totals) / factor:.4g}" for curve in curves)
    strips[0].set_title(
        f"memory{f' ({legible(unit)})' if unit else ''}" + (f", peaks: {peaks}" if len(curves) <= 8 else ""),
        loc="left",
        fontsize="medium",
    )
    strips[-1].set_xlabel(measured("time", view.time_unit))
    part.legend(*strips[0].get_legend_handles_labels(), loc="outside lower right", ncols=6, fontsize="x-small")


def _most(curves: Sequence[Curve]) -> float:
    return max(max(*curve.totals, curve.limit or 0.0) for curve in curves)


def _draw_memory(part: Any, curves: Sequence[Curve], rows: int, memory: MemoryUnit) -> None:
    """One panel per device, with the limit and all scales alike."""
    columns = min(len(curves), MEMORY_COLUMNS)
    panels = part.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
    factor, unit = memory.scale(_most(curves))
    flat = [axes for row in panels for axes in row]
    for axes, curve in zip(flat, curves, strict=False):
        _stack(axes, curve, factor)
        axes.set_xlim(0, curve.end)
        axes.set_title(f"{curve.name}: peak {max(curve.totals) / factor:.4g}", loc="left", fontsize=8)
    for axes in flat[len(curves) :]:
        axes.set_visible(False)
    for row in panels:
        row[0].set_ylabel(measured("memory", unit))
    part.legend(*flat[0].get_legend_handles_labels(), loc="outside lower center", ncols=6)


def _stack(axes: Axes, curve: Curve, factor: float) -> None:
    """The kinds stacked; between two instants nothing changes, so the last one is drawn to the end."""
    axes.stackplot(
        [*curve.times, curve.end],
        [[amount / factor for amount in (*amounts, amounts[-1])] for amounts in curve.terms.values()],
        labels=list(curve.terms),
        colors=[MEMORY[term] for term in curve.terms],
        step="post",
    )
    if curve.limit is not None:
        axes.axhline(curve.limit / factor, color="black", linestyle="--", linewidth=1, label="limit")
