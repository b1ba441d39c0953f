"""A timeline as an interactive Gantt."""

from __future__ import annotations

from collections.abc import Iterable
from xml.etree.ElementTree import Element

from ..names import shortened
from ..palette import WHITE, ink_on
from ..view import Bar, PlanView, Timeline
from ..words import measured
from .axes import Scale, number
from .charts import (
    AXIS,
    CHARACTER,
    FULL,
    LONGEST,
    NARROW,
    axis,
    chart,
    legend,
    mark,
    per_cent,
    scrolled,
    svg,
    swatch,
    zoom,
)
from .markup import tag
from .memory import GAP, STRIP, memory_legend, memory_strips

# The most tasks that are drawn, and with more periods than the second number their lines are left out.
MOST_BARS, MOST_PERIODS = 4000, 300
# The widest a timeline can be drawn, in widths of the page.
MOST_ZOOM = 8
# Heights of a lane, of the line above its tasks, and of the tasks.
ROW, LABEL, THICK = 38.0, 16.0, 18.0
# The least pixels of a timeline that shows labels of each class.
WIDTHS = {"inside": NARROW, "inside wide": 620.0, "inside widest": 1040.0}


def gantt(timeline: Timeline, view: PlanView) -> Element:
    """Lanes from top to bottom, each below its name and its layers."""
    lanes, shown, unit = timeline.lanes, timeline.bars[:MOST_BARS], view.time_unit or ""
    top_of = {lane: ROW * i for i, lane in enumerate(lanes)}
    x = Scale(timeline.start, max(bar.end for bar in shown), 0.0, FULL)
    drawn = [
        tag("text", {"x": 0, "y": top + 12}, shortened(view.named(lane, LONGEST), LONGEST))
        for lane, top in top_of.items()
    ]
    bottom = ROW * len(lanes)
    for top in top_of.values() if timeline.period else ():
        drawn += _periods(timeline.period or 0.0, x, top)
    if timeline.steady is not None:
        drawn += _steady(timeline.steady, x, top_of.values())
    for bar in shown:
        drawn += _task(bar, timeline, top_of[bar.lane] + LABEL, x, unit)
    memory = view.memory if timeline.over_memory else ()
    if memory:
        bottom += GAP
        drawn += memory_strips(memory, view.memory_unit, x, bottom, unit)
        bottom += STRIP * len(memory)
    drawn += axis(x, bottom, measured("time", unit))
    label = f"{timeline.title}: {len(shown)} tasks on {len(lanes)} lanes"
    phases = legend((swatch(timeline.palette[i]), timeline.colours[i]) for i in timeline.explained)
    more = [phases, memory_legend(memory) if memory else None, *_notes(timeline)]
    return chart(scrolled(svg(bottom + AXIS, label, *drawn)), label, *more, above=zoom())


def _notes(timeline: Timeline) -> list[Element]:
    """Notes that are needed to read the timeline."""
    notes = []
    if timeline.steady is not None:
        notes.append(f"the thick line, at {number(timeline.steady)}: from there on everything repeats")
    if len(timeline.bars) > MOST_BARS:
        notes.append(f"the first {MOST_BARS} of {len(timeline.bars)} tasks are drawn")
    return [tag("div", {"class": "note"}, note) for note in notes]


def _task(bar: Bar, timeline: Timeline, top: float, x: Scale, unit: str) -> list[Element]:
    """The bar of a task, with its label if the bar is wide enough for that."""
    start, width = x(bar.start), x(bar.end) - x(bar.start)
    fill = timeline.palette[bar.colour]
    shape = {"x": per_cent(start), "y": top, "width": per_cent(width), "height": THICK, "fill": fill}
    title = f"{bar.title}, {bar.lane}: {number(bar.start)} to {number(bar.end)} {unit}".rstrip()
    drawn = [mark("rect", shape, title)]
    if bar.label:
        light = " light" if ink_on(fill) == WHITE else ""
        drawn += _label(bar.label, light, {"x": per_cent(start + width / 2), "y": top + 13}, width)
    return drawn


def _label(text: str, light: str, place: dict[str, object], width: float) -> list[Element]:
    """A label for all pages, for wide ones, or when zoomed in: `data-needs` is the width that the timeline needs."""
    needed = FULL * (4 + CHARACTER * len(text)) / width if width else float("inf")
    if needed > MOST_ZOOM * max(WIDTHS.values()):
        return []
    kind = next((kind for kind, most in WIDTHS.items() if needed <= most), "inside later")
    more = {} if kind == "inside" else {"data-needs": round(needed)}
    return [tag("text", {"class": kind + light, **place, "text-anchor": "middle", **more}, text)]


def _steady(time: float, x: Scale, tops: Iterable[float]) -> list[Element]:
    """Lines at the time from which everything repeats, behind the tasks, so that they cross no number."""
    place = per_cent(x(time))
    ends = {"class": "steady", "x1": place, "x2": place}
    return [tag("line", {**ends, "y1": top + LABEL - 3, "y2": top + ROW}) for top in tops]


def _periods(period: float, x: Scale, top: float) -> list[Element]:
    """A line wherever a new period begins."""
    first, last = -int(-x.low // period), int(x.high / period)
    if last - first > MOST_PERIODS:
        return []
    places = [per_cent(x(period * i)) for i in range(first, last + 1)]
    ends = {"class": "grid", "y1": top + LABEL - 2, "y2": top + ROW - 2}
    return [tag("line", {**ends, "x1": place, "x2": place}) for place in places]
