"""Charts as SVG elements. Each mark has a title: what a reader learns by pointing at it or moving the focus to it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from xml.etree.ElementTree import Element

from ..pictures.canvas import COLOURS
from .markup import tag

WIDTH, HEIGHT = 760.0, 300.0
LEFT, RIGHT, TOP, BOTTOM = 76.0, 28.0, 10.0, 40.0
TICKS = 5
ROOM_FOR_VALUE = 84.0
READABLE = 0.6
"""A picture that is wider than the page is not shrunk below this; it scrolls."""


@dataclass(frozen=True, slots=True)
class Line:
    """A curve; `steps` where a value holds until the next one."""

    name: str
    points: tuple[tuple[float, float], ...]
    steps: bool = False


@dataclass(frozen=True, slots=True)
class Scale:
    """From values to positions on one axis."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        span = self.high - self.low
        return self.start + (self.end - self.start) * ((value - self.low) / span if span else 0.5)


def colour(i: int) -> str:
    return COLOURS[i % len(COLOURS)]


def chart(picture: Element, label: str, zoom: bool = False, *extra: Element) -> Element:
    """A picture with the line that says what is under the pointer or the focus."""
    controls = None
    if zoom:
        slider = tag("input", {"type": "range", "min": 100, "max": 800, "step": 50, "value": 100})
        controls = tag("label", {"class": "controls"}, "Zoom", slider)
    scroll = tag("div", {"class": "scroll fluid"}, picture)
    said = tag(
        "div", {"class": "said", "aria-live": "polite"}, "Point at a mark, or reach it with Tab and the arrow keys."
    )
    return tag("div", {"class": "chart", "role": "group", "aria-label": label}, controls, scroll, said, *extra)


def svg(width: float, height: float, label: str, *children: Element) -> Element:
    attributes = {"viewBox": f"0 0 {width:g} {height:g}", "role": "group", "aria-label": label}
    if width > WIDTH:
        attributes["style"] = f"min-width: {READABLE * width:.0f}px"
    return tag("svg", {**attributes, "xmlns": "http://www.w3.org/2000/svg"}, *children)


def mark(name: str, attributes: dict[str, object], title: str) -> Element:
    """A shape that can be pointed at."""
    return tag(name, {"class": "mark", "role": "img", "aria-label": title, **attributes}, tag("title", None, title))


def line_chart(lines: Sequence[Line], label: str, x_label: str, y_label: str) -> Element:
    """Curves over common axes, with a legend."""
    xs = [x for line in lines for x, _ in line.points]
    ys = [y for line in lines for _, y in line.points]
    x = Scale(min(xs), max(xs), LEFT, WIDTH - RIGHT)
    room = 0.05 * (max(ys) - min(ys)) or 0.05 * abs(max(ys)) or 1.0
    y = Scale(min(ys) - room, max(ys) + room, HEIGHT - BOTTOM, TOP)
    drawn: list[Element] = _axes(x, y, x_label, y_label)
    for i, line in enumerate(lines):
        drawn += _curve(line, colour(i), x, y)
    return chart(svg(WIDTH, HEIGHT, label, *drawn), label, False, legend([line.name for line in lines]))


def _curve(line: Line, ink: str, x: Scale, y: Scale) -> list[Element]:
    places = [(x(px), y(py)) for px, py in line.points]
    path = f"M{places[0][0]:.1f},{places[0][1]:.1f}"
    for (_, before), (px, py) in pairwise(places):
        path += (f" L{px:.1f},{before:.1f}" if line.steps else "") + f" L{px:.1f},{py:.1f}"
    curve = tag("path", {"d": path, "fill": "none", "stroke": ink, "stroke-width": "2"})
    dots = [
        mark("circle", {"cx": cx, "cy": cy, "r": 4, "fill": ink}, f"{line.name}: {number(py)} at {number(px)}")
        for (cx, cy), (px, py) in zip(places, line.points, strict=True)
    ]
    return [curve, *(dots if len(dots) <= 60 else dots[:: math.ceil(len(dots) / 60)])]


def _axes(x: Scale, y: Scale, x_label: str, y_label: str) -> list[Element]:
    drawn: list[Element] = []
    for i in range(TICKS + 1):
        value = y.low + (y.high - y.low) * i / TICKS
        place = y(value)
        drawn.append(tag("line", {"class": "grid", "x1": x.start, "x2": x.end, "y1": place, "y2": place}))
        drawn.append(tag("text", {"x": LEFT - 6, "y": place + 4, "text-anchor": "end"}, number(value)))
        value = x.low + (x.high - x.low) * i / TICKS
        drawn.append(
            tag("text", {"x": x(value), "y": HEIGHT - BOTTOM + 16, "text-anchor": "middle"}, number(value))
        )
    drawn.append(tag("text", {"x": (LEFT + WIDTH) / 2, "y": HEIGHT - 6, "text-anchor": "middle"}, x_label))
    middle = HEIGHT / 2
    drawn.append(
        tag(
            "text",
            {"x": 12, "y": middle, "text-anchor": "middle", "transform": f"rotate(-90 12 {middle:g})"},
            y_label,
        )
    )
    return drawn


def legend(names: Sequence[str]) -> Element:
    entries = []
    for i, name in enumerate(names):
        square = tag("rect", {"width": 12, "height": 12, "fill": colour(i)})
        entries.append(
            tag("li", None, tag("svg", {"width": 12, "height": 12, "aria-hidden": "true"}, square), name)
        )
    return tag("ul", {"class": "legend"}, *entries)


Bar = tuple[str, Sequence[tuple[str, float]]]
"""Its name, and its parts by name and size."""


def bars(rows: Sequence[Bar], label: str, unit: str, limit: float | None = None) -> Element:
    """One stacked bar a row: the same parts in the same colours everywhere; a limit as a line."""
    names = list(dict.fromkeys(name for _, parts in rows for name, _ in parts))
    lengths = [math.fsum(size for _, size in parts) for _, parts in rows]
    left = min(220.0, 16.0 + 7.0 * max((len(name) for name, _ in rows), default=0))
    x = Scale(0.0, max([*lengths, limit or 0.0]) or 1.0, left, WIDTH - ROOM_FOR_VALUE)
    drawn: list[Element] = []
    for i, (row, parts) in enumerate(rows):
        top, at = 4.0 + 22.0 * i, 0.0
        drawn.append(tag("text", {"x": left - 6, "y": top + 13, "text-anchor": "end"}, shortened(row, 30)))
        for name, size in parts:
            if size > 0:
                shape = {"x": x(at), "y": top, "width": x(at + size) - x(at), "height": 18}
                title = f"{row}: {name} {number(size)} {unit}".rstrip()
                drawn.append(mark("rect", {**shape, "fill": colour(names.index(name))}, title))
                at += size
        drawn.append(tag("text", {"x": x(at) + 4, "y": top + 13}, f"{number(at)} {unit}".rstrip()))
    height = 8.0 + 22.0 * len(rows)
    if limit:
        drawn.append(tag("line", {"class": "limit", "x1": x(limit), "x2": x(limit), "y1": 0, "y2": height}))
    return chart(svg(WIDTH, height, label, *drawn), label, False, legend(names))


def number(value: float) -> str:
    return f"{value:.4g}"


def shortened(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
