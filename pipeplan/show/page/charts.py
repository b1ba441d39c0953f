"""Charts as SVG elements that are as wide as the page: places across are percentages, text keeps its size.

Each mark has a title: what a reader learns by pointing at it or moving the focus to it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from xml.etree.ElementTree import Element

from ..names import shortened
from ..palette import CATEGORIES
from .markup import tag

NARROW, WIDE = 320.0, 620.0
"""Pixels that a chart has at least: on a phone, and where labels of class `wide` are shown."""
HEIGHT = 240.0
"""Of the area in which curves are drawn."""
TOP, BOTTOM = 20.0, 22.0
TICKS = 4
CHARACTER = 7.0
"""Pixels of one in the text of a chart, on the average and a little more."""
ROW = 38.0
LABEL = 16.0
"""A row of bars, and the line above it that says what it is."""
FULL = 100.0
EDGE = 8.0
"""Nearer to the ends of an axis than this, values do not stand in the middle of their places."""


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
    return CATEGORIES[i % len(CATEGORIES)]


def per_cent(value: float) -> str:
    return f"{value:.5g}%"


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


def svg(height: float, label: str, *children: Element) -> Element:
    """As wide as there is room."""
    return tag("svg", {"class": "picture", "height": height, "role": "group", "aria-label": label}, *children)


def mark(name: str, attributes: dict[str, object], title: str) -> Element:
    """A shape that can be pointed at."""
    return tag(name, {"class": "mark", "role": "img", "aria-label": title, **attributes}, tag("title", None, title))


# ---- curves --------------------------------------------------------------------------------------------


def line_chart(lines: Sequence[Line], label: str, x_label: str, y_label: str) -> Element:
    """Curves over common axes, with a legend."""
    xs = [x for line in lines for x, _ in line.points]
    ys = [y for line in lines for _, y in line.points]
    x = Scale(min(xs), max(xs), 1.0, FULL - 1.0)
    room = 0.08 * (max(ys) - min(ys)) or 0.05 * abs(max(ys)) or 1.0
    y = Scale(min(ys) - room, max(ys) + room, TOP + HEIGHT, TOP)
    drawn, values = _axes(x, y, y_label)
    curves = [_path(line, colour(i), x, y) for i, line in enumerate(lines)]
    area = {"viewBox": f"0 0 {FULL:g} {HEIGHT:g}", "preserveAspectRatio": "none", "y": TOP, "height": HEIGHT}
    drawn.append(tag("svg", {"width": "100%", **area}, *curves))
    for i, line in enumerate(lines):
        drawn += _dots(line, colour(i), x, y)
    drawn += values
    picture = svg(TOP + HEIGHT + BOTTOM, label, *drawn)
    below = tag("div", {"class": "axis"}, x_label)
    return chart(picture, label, False, below, legend([line.name for line in lines]))


def _path(line: Line, ink: str, x: Scale, y: Scale) -> Element:
    """Stretched with the page, with a stroke that is not."""
    places = [(x(px), y(py) - TOP) for px, py in line.points]
    path = f"M{places[0][0]:.3f},{places[0][1]:.1f}"
    for (_, before), (px, py) in pairwise(places):
        path += (f" L{px:.3f},{before:.1f}" if line.steps else "") + f" L{px:.3f},{py:.1f}"
    return tag("path", {"class": "curve", "d": path, "stroke": ink})


def _dots(line: Line, ink: str, x: Scale, y: Scale) -> list[Element]:
    dots = [
        mark(
            "circle",
            {"cx": per_cent(x(px)), "cy": y(py), "r": 4, "fill": ink},
            f"{line.name}: {number(py)} at {number(px)}",
        )
        for px, py in line.points
    ]
    return dots if len(dots) <= 60 else dots[:: math.ceil(len(dots) / 60)]


def round_values(low: float, high: float) -> list[float]:
    """A few numbers between two that are short to write."""
    if high <= low:
        return [low]
    rough = (high - low) / TICKS
    power = 10.0 ** math.floor(math.log10(rough))
    step = power * next(factor for factor in (1, 2, 5, 10) if factor * power >= rough * (1 - 1e-9))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [i * step for i in range(first, last + 1)]


def _axes(x: Scale, y: Scale, y_label: str) -> tuple[list[Element], list[Element]]:
    """Lines, and the values that stand on them, so that the curves have the whole width."""
    values = round_values(y.low, y.high)
    lines = [
        tag("line", {"class": "grid", "x1": "0%", "x2": "100%", "y1": y(value), "y2": y(value)}) for value in values
    ]
    texts = [number(value) for value in values]
    texts[-1] += f" {y_label}"
    drawn = [
        tag("text", {"class": "value", "x": 2, "y": y(value) - 4}, text)
        for value, text in zip(values, texts, strict=True)
    ]
    return lines, drawn + times(x, TOP + HEIGHT + 16)


def times(x: Scale, y: float) -> list[Element]:
    """Values below an axis."""
    drawn = []
    for value in round_values(x.low, x.high):
        place = x(value)
        anchor = "start" if place < EDGE else "end" if place > FULL - EDGE else "middle"
        drawn.append(tag("text", {"x": per_cent(place), "y": y, "text-anchor": anchor}, number(value)))
    return drawn


def legend(names: Sequence[str], limit: bool = False, palette: Sequence[str] = ()) -> Element:
    """`palette`: their colours, where these are not those of all charts."""
    entries = []
    for i, name in enumerate(names):
        square = tag("rect", {"width": 12, "height": 12, "fill": palette[i] if palette else colour(i)})
        entries.append(
            tag("li", None, tag("svg", {"width": 12, "height": 12, "aria-hidden": "true"}, square), name)
        )
    if limit:
        stroke = tag("line", {"class": "limit", "x1": 6, "x2": 6, "y1": 0, "y2": 12})
        entries.append(
            tag("li", None, tag("svg", {"width": 12, "height": 12, "aria-hidden": "true"}, stroke), "limit")
        )
    return tag("ul", {"class": "legend"}, *entries)


# ---- bars ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Bar:
    """Its name, its parts by name and size, and a limit where there is one."""

    name: str
    parts: Sequence[tuple[str, float]]
    limit: float | None = None

    @property
    def length(self) -> float:
        return math.fsum(size for _, size in self.parts)


def bars(rows: Sequence[Bar], label: str, unit: str) -> Element:
    """One stacked bar a row, below its name and its value: the same parts in the same colours everywhere."""
    names = list(dict.fromkeys(name for row in rows for name, _ in row.parts))
    x = Scale(0.0, max((max(row.length, row.limit or 0.0) for row in rows), default=0.0) or 1.0, 0.0, FULL - 0.5)
    drawn = [element for i, row in enumerate(rows) for element in _bar(row, ROW * i, x, names, unit)]
    limited = any(row.limit for row in rows)
    return chart(svg(ROW * len(rows), label, *drawn), label, False, legend(names, limited))


def _bar(row: Bar, top: float, x: Scale, names: Sequence[str], unit: str) -> list[Element]:
    limit = f" of {number(row.limit)}" if row.limit else ""
    value = f"{number(row.length)}{limit} {unit}".rstrip()
    room = int(NARROW / CHARACTER) - len(value) - 2
    drawn = [
        tag("text", {"x": 0, "y": top + 12}, shortened(row.name, room)),
        tag("text", {"x": "100%", "y": top + 12, "text-anchor": "end"}, value),
    ]
    at = 0.0
    for name, size in row.parts:
        if size > 0:
            place = {"x": per_cent(x(at)), "width": per_cent(x(at + size) - x(at)), "y": top + LABEL, "height": 16}
            title = f"{row.name}: {name} {number(size)} {unit}".rstrip()
            drawn.append(mark("rect", {**place, "fill": colour(names.index(name))}, title))
            at += size
    if row.limit:
        place = {"x1": per_cent(x(row.limit)), "x2": per_cent(x(row.limit)), "y1": top + LABEL, "y2": top + ROW - 4}
        drawn.append(tag("line", {"class": "limit", **place}))
    return drawn


def number(value: float) -> str:
    return f"{value:.4g}"
