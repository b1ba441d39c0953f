"""A timeline as an interactive Gantt."""

from __future__ import annotations

import math
from xml.etree.ElementTree import Element

from ..names import shortened
from ..palette import WHITE, ink_on
from ..view import Bar, Curve, PlanView, Timeline
from .charts import (
    CHARACTER,
    FULL,
    LABEL,
    NARROW,
    ROW,
    WIDE,
    Scale,
    chart,
    legend,
    mark,
    number,
    per_cent,
    svg,
)
from .charts import times as instants
from .markup import tag

MOST_BARS = 4000
MOST_PERIODS = 300
MOST_ZOOM = 8
"""Times as wide as the page."""
STRIP = 44.0
"""The memory of a device, with the line above it that says whose it is."""
LONGEST_LANE = int(NARROW / CHARACTER)


def gantt(timeline: Timeline, view: PlanView) -> Element:
    """Lanes from top to bottom, each below its name and its layers."""
    lanes, shown, unit = timeline.lanes, timeline.bars[:MOST_BARS], view.time_unit or ""
    top_of = {lane: ROW * i for i, lane in enumerate(lanes)}
    x = Scale(timeline.start, max(bar.end for bar in shown), 0.0, FULL)
    drawn = [
        tag("text", {"x": 0, "y": top + 12}, shortened(view.named(lane, LONGEST_LANE), LONGEST_LANE))
        for lane, top in top_of.items()
    ]
    bottom = ROW * len(lanes)
    for top in top_of.values() if timeline.period else ():
        drawn += _periods(timeline.period or 0.0, x, top)
    for bar in shown:
        drawn += _task(bar, timeline, top_of[bar.lane] + LABEL, x, unit)
    if timeline.over_memory and view.memory:
        drawn += memory_strips(view, x, bottom)
        bottom += STRIP * len(view.memory)
    if timeline.steady is not None:
        place = per_cent(x(timeline.steady))
        drawn.append(tag("line", {"class": "steady", "x1": place, "x2": place, "y1": 0, "y2": bottom}))
    drawn += instants(x, bottom + 14)
    label = f"{timeline.title}: {len(shown)} tasks on {len(lanes)} lanes"
    more = [tag("div", {"class": "axis"}, f"time {unit}".rstrip())]
    names, palette = ([of[i] for i in timeline.explained] for of in (timeline.colours, timeline.palette))
    more.append(legend(names, palette=palette))
    if timeline.steady is not None:
        more.append(tag("div", {"class": "note"}, "dashed: from here on everything repeats"))
    return chart(svg(bottom + 20, label, *drawn), label, True, *more)


def _task(bar: Bar, timeline: Timeline, top: float, x: Scale, unit: str) -> list[Element]:
    """With its label, if it is wide enough for that: on every page, on wide ones, or on those that are zoomed in."""
    start, width = x(bar.start), x(bar.end) - x(bar.start)
    shape = {"x": per_cent(start), "y": top, "width": per_cent(width), "height": ROW - LABEL - 4}
    fill = timeline.palette[bar.colour]
    title = f"{bar.title}, {bar.lane}: {number(bar.start)} to {number(bar.end)} {unit}".rstrip()
    drawn = [mark("rect", {**shape, "fill": fill}, title)]
    needed = 100 * (4 + CHARACTER * len(bar.label))
    if bar.label and width * WIDE * MOST_ZOOM > needed:
        kind = "inside" if width * NARROW > needed else "inside wide" if width * WIDE > needed else "inside later"
        if ink_on(fill) == WHITE:
            kind += " light"
        place = {"class": kind, "x": per_cent(start + width / 2), "y": top + 13, "text-anchor": "middle"}
        place |= {"data-zoom": math.ceil(100 * needed / (width * WIDE))} if "later" in kind else {}
        drawn.append(tag("text", place, bar.label))
    return drawn


def memory_strips(view: PlanView, x: Scale, top: float) -> list[Element]:
    """Memory of each device over the time above, below its name and its peak; with its limit, where it has one."""
    drawn: list[Element] = []
    factor, unit = view.memory_unit.scale(max(max(*curve.totals, curve.limit or 0.0) for curve in view.memory))
    for i, curve in enumerate(view.memory):
        y, peak = top + STRIP * i, max(curve.totals)
        high = Scale(0.0, max(peak, curve.limit or 0.0) or 1.0, STRIP - LABEL - 6, 1.0)
        of = "" if curve.limit is None else f" of {number(curve.limit / factor)}"
        words = f"{curve.name} holds up to {number(peak / factor)}{of} {unit}".rstrip()
        drawn.append(tag("text", {"x": 0, "y": y + 12}, shortened(words, LONGEST_LANE)))
        area = {"viewBox": f"0 0 {FULL:g} {STRIP - LABEL - 6:g}", "preserveAspectRatio": "none"}
        place = {"y": y + LABEL, "width": "100%", "height": STRIP - LABEL - 6}
        shape = tag("path", {"class": "held", "d": _area(curve, x, high)})
        drawn.append(tag("svg", {**area, **place}, shape))
        drawn.append(mark("rect", {**place, "x": 0, "class": "mark clear"}, words))
        if curve.limit is not None:
            line = y + LABEL + high(curve.limit)
            drawn.append(tag("line", {"class": "limit", "x1": "0%", "x2": "100%", "y1": line, "y2": line}))
    return drawn


def _area(curve: Curve, x: Scale, high: Scale) -> str:
    """What lies below the steps of a curve."""
    path = f"M{x(curve.times[0]):.3f},{high(0.0):.2f}"
    for start, end, held in zip(curve.times, (*curve.times[1:], curve.end), curve.totals, strict=True):
        path += f" L{x(start):.3f},{high(held):.2f} L{x(end):.3f},{high(held):.2f}"
    return f"{path} L{x(curve.end):.3f},{high(0.0):.2f} Z"


def _periods(period: float, x: Scale, top: float) -> list[Element]:
    """A line wherever a new period begins."""
    first, last = -int(-x.low // period), int(x.high / period)
    if last - first > MOST_PERIODS:
        return []
    places = [per_cent(x(period * i)) for i in range(first, last + 1)]
    ends = {"class": "grid", "y1": top + LABEL - 2, "y2": top + ROW - 2}
    return [tag("line", {**ends, "x1": place, "x2": place}) for place in places]
