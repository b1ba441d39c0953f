"""Lanes as an interactive chart: each below its name and its value, readable on a phone."""

from __future__ import annotations

from collections.abc import Iterator
from xml.etree.ElementTree import Element

from ..lanes import Lane, Lanes, Shape
from ..names import shortened
from ..palette import WHITE, ink_on
from .axes import Scale
from .charts import (
    AXIS,
    CHARACTER,
    FULL,
    LONGEST,
    NARROW,
    axis,
    chart,
    legend,
    line_swatch,
    mark,
    per_cent,
    scrolled,
    svg,
    swatch,
    zoom,
)
from .markup import tag

# The most tasks of a timeline that are drawn.
MOST_TASKS = 4000
# The widest a timeline can be drawn, in widths of the page.
MOST_ZOOM = 8
# Heights of the line above a lane, of a lane of height 1, and of the space below it.
LABEL, THICK, GAP = 16.0, 18.0, 4.0
# The fewest characters of a name, however long its value is.
LEAST_NAME = 4
# The least pixels of a timeline that shows labels of each class.
WIDTHS = {"inside": NARROW, "inside wide": 620.0, "inside widest": 1040.0}


def lanes_chart(lanes: Lanes) -> Element:
    """The chart with what its colours and lines mean, and with a slider that widens it where it is over time."""
    x = Scale(lanes.start, lanes.end, 0.0, FULL - 0.5)  # a line at the end has its whole width
    drawn: list[Element] = []
    top = 0.0
    for lane in lanes.lanes:
        drawn += _lane(lane, lanes, x, top)
        top += LABEL + THICK * lane.height + GAP
    drawn += axis(x, top, lanes.axis)
    signs = [(swatch(colour), name) for name, colour in lanes.colours.items()]
    signs += [(line_swatch(_kind(name, lanes)), name) for name in lanes.rules]
    signs += [(line_swatch("limit"), "limit")] * lanes.has_limits
    notes = [tag("div", {"class": "note"}, note) for note in lanes.notes]
    picture = scrolled(svg(top + AXIS, lanes.title, *drawn))
    above = zoom() if lanes.is_over_time else None
    return chart(picture, lanes.title, legend(signs) if signs else None, *notes, above=above)


def _kind(rule: str, lanes: Lanes) -> str:
    """The class of the lines of a rule: one by itself is thick."""
    return "steady" if len(lanes.rules[rule]) == 1 else "grid"


def _lane(lane: Lane, lanes: Lanes, x: Scale, top: float) -> Iterator[Element]:
    """The name, the value, lines behind the shapes, so that they cross no number, the shapes, and the limit."""
    y, height = top + LABEL, THICK * lane.height
    room = max(LEAST_NAME, LONGEST - len(lane.value) - 2)
    yield tag("text", {"x": 0, "y": top + 11}, shortened(lane.name, room))
    if lane.value:
        yield tag("text", {"x": "100%", "y": top + 11, "text-anchor": "end"}, lane.value)
    for rule, places in lanes.rules.items():
        for place in places:
            yield _line(_kind(rule, lanes), x(place), x(place), y, y + height + 2)
    for shape in lane.shapes:
        yield from _shape(shape, x, y, height)
    if lane.limit is not None:
        yield _line("limit", x(lane.limit), x(lane.limit), y, y + height + 2)
    if lane.level is not None:
        yield _line("limit", 0.0, FULL, y + height * (1 - lane.level), y + height * (1 - lane.level))


def _line(kind: str, x1: float, x2: float, y1: float, y2: float) -> Element:
    return tag("line", {"class": kind, "x1": per_cent(x1), "x2": per_cent(x2), "y1": y1, "y2": y2})


def _shape(shape: Shape, x: Scale, top: float, height: float) -> Iterator[Element]:
    """The rectangle, with its label if it is wide enough for that."""
    start, width = x(shape.start), x(shape.end) - x(shape.start)
    place = {"x": per_cent(start), "width": per_cent(width), "y": top + height * (1 - shape.high)}
    place["height"] = height * (shape.high - shape.low)
    if shape.colour is None:
        yield mark("rect", place, shape.title, "clear")
    elif shape.title:
        yield mark("rect", {**place, "fill": shape.colour}, shape.title)
    else:
        yield tag("rect", {"class": "layer", **place, "fill": shape.colour})
    if shape.label and shape.colour is not None:
        light = " light" if ink_on(shape.colour) == WHITE else ""
        yield from _label(shape.label, light, {"x": per_cent(start + width / 2), "y": top + 13}, width)


def _label(text: str, light: str, place: dict[str, object], width: float) -> Iterator[Element]:
    """A label for all pages, for wide ones, or when zoomed in: `data-needs` is the width that the timeline needs."""
    needed = FULL * (4 + CHARACTER * len(text)) / width if width else float("inf")
    if needed <= MOST_ZOOM * max(WIDTHS.values()):
        kind = next((kind for kind, most in WIDTHS.items() if needed <= most), "inside later")
        more = {} if kind == "inside" else {"data-needs": round(needed)}
        yield tag("text", {"class": kind + light, **place, "text-anchor": "middle", **more}, text)
