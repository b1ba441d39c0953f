"""Timelines as a picture, one below the other, and the memory of each device under them."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..page.axes import number
from ..palette import MEMORY, ink_on
from ..view import Bar, Curve, PlanView, Timeline
from ..words import measured, plain
from .canvas import (
    CHARACTER,
    GROUND,
    INK,
    ROUND,
    SMALL_PT,
    canvas,
    explain,
    legible,
    with_titles,
    wrapped,
    write_picture,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# With more bars than this, bars become an image inside the picture: a file of megabytes helps nobody.
MOST_SHAPES = 2_000
# The most lanes of a timeline, and the most devices whose memory is drawn.
MOST_LANES, MOST_PANELS = 128, 64
# Panels of memory side by side, and the numbers on the axis of each.
MEMORY_COLUMNS, COLUMN_TICKS = 4, 4
# Points between a label and both ends of its bar.
MARGIN_PT = 1.0
# With more bars in a lane than this, labels do not fit and windows of the timeline are drawn below.
MANY_BARS = 100
# Short bars in the width of a window.
WINDOW_BARS = 22
# The most characters for a lane and its layers.
MOST_NAMED = 32
# Sizes in inches: the width of the picture, and heights of its parts.
WIDTH_IN = 11.0
ROW_IN = 0.26
PANEL_IN = 0.9
MEMORY_IN = 1.9
STRIP_IN = 0.5
LEGEND_IN = 0.5
# The most characters for the peaks of all devices in one line.
MOST_PEAKS = 100
# Memory is drawn up to this multiple of its most; the second one leaves room for the limit's name above the limit.
ROOM, HIGH_ROOM = 1.08, 1.3
# The name of the limit stands above or beside its line, where no curve comes that keeps the limit.
ABOVE = {"xytext": (-3, 1), "ha": "right", "va": "bottom"}
BESIDE = {"xytext": (3, 0), "ha": "left", "va": "center"}

Panel = tuple["Axes", Timeline]


def draw_schedule(view: PlanView, path: str | os.PathLike[str]) -> None:
    """Write the picture of a plan's timelines and memory to the file."""
    curves = view.memory[:MOST_PANELS]
    strips = [curves if timeline.over_memory else () for timeline in view.timelines]
    apart = [] if any(strips) else list(curves)
    windows = [windows_of(timeline) for timeline in view.timelines]
    rows = -(-len(apart) // MEMORY_COLUMNS)
    lanes_in = [ROW_IN * min(MOST_LANES, len(timeline.lanes)) for timeline in view.timelines]
    heights = []
    for lanes, below, cut in zip(lanes_in, strips, windows, strict=True):
        heights += [PANEL_IN + lanes + STRIP_IN * len(below), *([PANEL_IN + lanes] if cut else [])]
    heights += [*([MEMORY_IN * rows] if apart else []), LEGEND_IN]
    panels: list[Panel] = []
    with canvas(WIDTH_IN, sum(heights) + 0.4) as figure:
        if view.name:
            figure.suptitle(wrapped(f"{legible(view.name)}: {view.headline}", WIDTH_IN))
        parts = iter(figure.subfigures(len(heights), 1, height_ratios=heights, squeeze=False)[:, 0])
        for timeline, lanes, below, cut in zip(view.timelines, lanes_in, strips, windows, strict=True):
            panels.append(_draw_with_memory(next(parts), timeline, view, below, lanes))
            panels += _draw_windows(next(parts), cut, view) if cut else []
        if apart:
            _draw_memory(next(parts), apart, rows, view)
        explain(next(parts), figure.axes, "center")
        label_bars(figure, panels)
        write_picture(figure, path)


def draw_timeline(axes: Axes, timeline: Timeline, view: PlanView) -> None:
    """Draw one lane below the other, without labels, which `label_bars` adds; a timeline without bars says why."""
    if not timeline.bars:
        axes.set_axis_off()
        axes.text(0.0, 0.5, wrapped(timeline.summary, WIDTH_IN))
        return
    lanes = timeline.lanes[:MOST_LANES]
    style: dict[str, Any] = {"edgecolor": GROUND, "linewidth": 0.4}
    if len(timeline.bars) > MOST_SHAPES:
        style = {"rasterized": True}
    for row, lane in enumerate(lanes):
        bars = [bar for bar in timeline.bars if bar.lane == lane]
        spans = [(bar.start, bar.end - bar.start) for bar in bars]
        # All bars of a lane at once: matplotlib looks at everything drawn so far whenever something is added.
        colours = [timeline.palette[bar.colour] for bar in bars]
        drawn = axes.broken_barh(spans, (row - 0.42, 0.84), facecolors=colours, **style)
        with_titles(drawn, [f"{bar.title}, {plain(bar.start)} to {plain(bar.end)}" for bar in bars])
    # These lines lie behind the bars, where they cross no label.
    if timeline.steady is not None:
        behind: dict[str, Any] = {"color": INK, "linewidth": 1, "zorder": 0}
        axes.axvline(timeline.steady, linestyle="--", label="from here on everything repeats", **behind)
        later = timeline.steady + (timeline.period or 0.0)
        axes.axvline(later, linestyle=":", label="a period later", **behind)
    for i in timeline.explained:
        axes.broken_barh([], (0, 0), facecolor=timeline.palette[i], label=timeline.colours[i])
    _frame(axes, timeline, lanes, view)


def _frame(axes: Axes, timeline: Timeline, lanes: Sequence[str], view: PlanView) -> None:
    left_out = len(timeline.lanes) - len(lanes)
    axes.set_title(timeline.title + (f", {left_out} lanes left out" if left_out else ""), loc="left")
    axes.set_yticks(range(len(lanes)), [legible(view.named(lane, MOST_NAMED)) for lane in lanes])
    axes.set_ylim(len(lanes) - 0.5, -0.5)
    axes.set_xlim(timeline.start, timeline.end or 1.0)
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel(measured("time", view.time_unit) + (f": {timeline.summary}" if timeline.summary else ""))


def label_bars(figure: Figure, panels: Iterable[Panel]) -> None:
    """Give each bar as much of its label as it has room for. Call it last, when the widths of the panels are known."""
    figure.draw_without_rendering()
    for axes, timeline in panels:
        row_of = {lane: row for row, lane in enumerate(timeline.lanes[:MOST_LANES])}
        points = axes.get_window_extent().width / figure.dpi * 72 / ((timeline.end - timeline.start) or 1.0)
        for bar in timeline.bars:
            label = fitting(bar, points * (bar.end - bar.start))
            if label and bar.lane in row_of:
                place = ((bar.start + bar.end) / 2, row_of[bar.lane])
                ink = ink_on(timeline.palette[bar.colour])
                axes.text(*place, label, ha="center", va="center", color=ink, fontsize=SMALL_PT, in_layout=False)


def fitting(bar: Bar, room_pt: float) -> str:
    """The longest label of the bar that fits: its label, the short one, or none."""
    room = (room_pt - MARGIN_PT) / (CHARACTER * SMALL_PT)
    return next((text for text in (legible(bar.label), bar.short) if len(text) <= room), "")


# ---- windows -------------------------------------------------------------------------------------------


def windows_of(timeline: Timeline) -> list[Timeline]:
    """Windows at the beginning, middle and end in which labels can be read; none where the timeline is short enough."""
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
    """The timeline between two instants, with its bars cut at both."""
    bars = tuple(
        replace(bar, start=max(begin, bar.start), end=min(end, bar.end))
        for bar in timeline.bars
        if bar.start < end and bar.end > begin
    )
    return replace(timeline, title=name, bars=bars, start=begin, end=end, steady=None, windows=(), summary="")


def _draw_windows(part: Any, windows: Sequence[Timeline], view: PlanView) -> list[Panel]:
    """Draw windows side by side, with the names of the lanes at the first."""
    panels = part.subplots(1, len(windows), squeeze=False)[0]
    for i, (axes, window) in enumerate(zip(panels, windows, strict=True)):
        draw_timeline(axes, window, view)
        if i:
            axes.set_yticklabels([])
    return list(zip(panels, windows, strict=True))


# ---- memory --------------------------------------------------------------------------------------------


def _draw_with_memory(
    part: Any, timeline: Timeline, view: PlanView, curves: Sequence[Curve], lanes_in: float
) -> Panel:
    """The timeline above a strip of memory for each device, over the same time; the scales of the strips are alike."""
    from matplotlib.ticker import MaxNLocator

    heights = [PANEL_IN / 2 + lanes_in, *[STRIP_IN] * len(curves)]
    top, *strips = part.subplots(len(heights), 1, sharex=True, height_ratios=heights, squeeze=False)[:, 0]
    draw_timeline(top, timeline, view)
    if not curves:
        return top, timeline
    factor, unit = view.memory_unit.scale(_most(curves))
    top.set_xlabel("")
    top.tick_params(axis="x", labelbottom=False)
    for axes, curve in zip(strips, curves, strict=True):
        _stack(axes, curve, factor, BESIDE)
        axes.set_ylim(0, ROOM * (_most(curves) / factor or 1.0))
        axes.yaxis.set_major_locator(MaxNLocator(2, steps=ROUND))
        axes.set_xlim(timeline.start, timeline.end)
        axes.set_ylabel(legible(curve.name), rotation=0, ha="right", va="center")
        axes.tick_params(axis="x", length=3 if curve is curves[-1] else 0)
        if timeline.steady is not None:
            axes.axvline(timeline.steady, color=INK, linestyle="--", linewidth=1)
    peaks = ", ".join(f"{legible(curve.name)} {number(max(curve.totals) / factor)}" for curve in curves)
    told = f", peaks: {peaks}" if len(peaks) <= MOST_PEAKS else ""
    strips[0].set_title(f"memory{f' ({legible(unit)})' if unit else ''}{told}", loc="left")
    strips[-1].set_xlabel(measured("time", view.time_unit))
    return top, timeline


def _most(curves: Sequence[Curve]) -> float:
    return max(max(*curve.totals, curve.limit or 0.0) for curve in curves)


def _draw_memory(part: Any, curves: Sequence[Curve], rows: int, view: PlanView) -> None:
    """One panel per device, with the limit and all scales alike."""
    from matplotlib.ticker import MaxNLocator

    columns = min(len(curves), MEMORY_COLUMNS)
    panels = part.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
    factor, unit = view.memory_unit.scale(_most(curves))
    flat = [axes for row in panels for axes in row]
    for axes, curve in zip(flat, curves, strict=False):
        _stack(axes, curve, factor, ABOVE)
        axes.set_xlim(0, curve.end)
        axes.set_ylim(0, (ROOM if curve.limit is None else HIGH_ROOM) * (_most(curves) / factor or 1.0))
        axes.xaxis.set_major_locator(MaxNLocator(COLUMN_TICKS, steps=ROUND))
        axes.set_title(f"{curve.name}: peak {number(max(curve.totals) / factor)}", loc="left")
    for axes in flat[len(curves) :]:
        axes.set_visible(False)
    for row in panels:
        row[0].set_ylabel(measured("memory", unit))
    for axes in panels[-1]:
        axes.set_xlabel(measured("time", view.time_unit))


def _stack(axes: Axes, curve: Curve, factor: float, where: Mapping[str, Any]) -> None:
    """Draw the uses of memory that occur, and the limit with its name. Nothing changes between two instants, so the
    last amounts are drawn to the end."""
    terms = {term: amounts for term, amounts in curve.terms.items() if any(amounts)}
    if terms:
        axes.stackplot(
            [*curve.times, curve.end],
            [[amount / factor for amount in (*amounts, amounts[-1])] for amounts in terms.values()],
            labels=list(terms),
            colors=[MEMORY[term] for term in terms],
            step="post",
        )
    if curve.limit is not None:
        limit = curve.limit / factor
        axes.axhline(limit, color=INK, linestyle="--", linewidth=1)
        place: dict[str, Any] = {"xycoords": axes.get_yaxis_transform(), "textcoords": "offset points", **where}
        axes.annotate(f"limit {number(limit)}", (1.0, limit), fontsize=SMALL_PT, **place)
