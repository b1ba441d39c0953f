"""A timeline as an interactive Gantt."""

from __future__ import annotations

from xml.etree.ElementTree import Element

from ..names import shortened
from ..view import Bar, PlanView, Timeline
from .charts import (
    CHARACTER,
    FULL,
    LABEL,
    NARROW,
    ROW,
    WIDE,
    Scale,
    chart,
    colour,
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
LONGEST_LANE = int(NARROW / CHARACTER)


def gantt(timeline: Timeline, view: PlanView) -> Element:
    """Lanes from top to bottom, each below its name and its layers; backward tasks are paler."""
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
        drawn += _task(bar, top_of[bar.lane] + LABEL, x, unit)
    drawn += instants(x, bottom + 14)
    label = f"{timeline.title}: {len(shown)} tasks on {len(lanes)} lanes"
    more = [tag("div", {"class": "axis"}, f"time {unit}".rstrip())]
    more += [legend(timeline.colours)] if timeline.colours else []
    return chart(svg(bottom + 20, label, *drawn), label, True, *more)


def _task(bar: Bar, top: float, x: Scale, unit: str) -> list[Element]:
    """With its label, if it is wide enough for that: on every page, or on wide ones."""
    start, width = x(bar.start), x(bar.end) - x(bar.start)
    shape = {"x": per_cent(start), "y": top, "width": per_cent(width), "height": ROW - LABEL - 4}
    ink = {"fill": colour(bar.colour), "fill-opacity": 0.55 if bar.backward else 1.0}
    title = f"{bar.title}, {bar.lane}: {number(bar.start)} to {number(bar.end)} {unit}".rstrip()
    drawn = [mark("rect", {**shape, **ink}, title)]
    needed = 100 * (4 + CHARACTER * len(bar.label))
    if bar.label and width * WIDE > needed:
        kind = "inside" if width * NARROW > needed else "inside wide"
        place = {"class": kind, "x": per_cent(start + width / 2), "y": top + 13, "text-anchor": "middle"}
        drawn.append(tag("text", place, bar.label))
    return drawn


def _periods(period: float, x: Scale, top: float) -> list[Element]:
    """A line wherever a new period begins."""
    first, last = -int(-x.low // period), int(x.high / period)
    if last - first > MOST_PERIODS:
        return []
    places = [per_cent(x(period * i)) for i in range(first, last + 1)]
    ends = {"class": "grid", "y1": top + LABEL - 2, "y2": top + ROW - 2}
    return [tag("line", {**ends, "x1": place, "x2": place}) for place in places]
