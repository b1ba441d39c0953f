"""Curves over common axes. A curve does not hide another one below it: each has its dashes and its markers, and a
marker that stands for several curves says so."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from xml.etree.ElementTree import Element

from .axes import FEW, Scale, number, round_ends, ticks
from .charts import AXIS, CHARACTER, FULL, axis, chart, colour, icon, legend, mark, per_cent, svg
from .markup import tag

# Height of the area in which curves are drawn, and of what is free above it.
HEIGHT, TOP = 240.0, 10.0
# The most markers of a chart.
MOST_MARKS = 400
# Dashes of the curves in their order; None: a whole line.
DASHES = (None, "9 5", "3 4", "12 4 3 4", "6 2 2 2 2 2")
# Widths of the curve at the bottom, and of the one on top of all.
WIDEST, THINNEST = 4.0, 1.5
LEGEND_LINE = 28


@dataclass(frozen=True, slots=True)
class Spot:
    """A point of a curve; an open one is not proven, and `bound` is how far down it might still move."""

    x: float
    y: float
    words: str = ""
    """More words about the point."""
    open: bool = False
    bound: float | None = None


@dataclass(frozen=True, slots=True)
class Line:
    """A curve; `steps` where a value holds until the next one."""

    name: str
    spots: tuple[Spot, ...]
    steps: bool = False
    until: float | None = None
    """How far the last value holds, where that is beyond the last point."""

    @classmethod
    def of(cls, name: str, points: Iterable[tuple[float, float]], steps: bool = False) -> Line:
        """A line of plain points; a line of steps keeps only points where the value changes, and the last one."""
        all_points = list(points)
        kept = [
            point
            for i, point in enumerate(all_points)
            if not steps or i in (0, len(all_points) - 1) or point[1] != all_points[i - 1][1]
        ]
        return cls(name, tuple(Spot(x, y) for x, y in kept), steps)


@dataclass(frozen=True, slots=True)
class Rule:
    """A horizontal line with its name."""

    name: str
    y: float


@dataclass(frozen=True, slots=True)
class Area:
    """Both axes, the values across and upwards."""

    x: Scale
    y: Scale
    upwards: list[tuple[float, str]] = field(default_factory=list)

    @classmethod
    def of(cls, lines: Sequence[Line], rules: Sequence[Rule], low: float | None, high: float | None) -> Area:
        """Values upwards begin and end at `low` and `high`, or at round values where these are None."""
        xs = [spot.x for line in lines for spot in line.spots]
        xs += [line.until for line in lines if line.until is not None]
        ys = [rule.y for rule in rules]
        ys += [y for line in lines for spot in line.spots for y in (spot.y, spot.bound) if y is not None]
        least, most = round_ends(min(ys) if low is None else low, max(ys) if high is None else high, FEW + 1)
        return cls(
            Scale(min(xs), max(xs), 0.0, FULL),
            Scale(least, most, TOP + HEIGHT, TOP),
            ticks(least, most, FEW + 1),
        )


def line_chart(
    lines: Sequence[Line],
    label: str,
    x_title: str,
    y_title: str,
    low: float | None = None,
    high: float | None = None,
    rules: Sequence[Rule] = (),
) -> Element:
    """Curves with a legend; the first one is the most visible. `low`, `high`: where the values upwards begin and end,
    if not with those of the curves."""
    area = Area.of(lines, rules, low, high)
    drawn: list[Element] = []
    for value, _ in area.upwards:
        drawn.append(
            tag("line", {"class": "grid", "x1": "0%", "x2": "100%", "y1": area.y(value), "y2": area.y(value)})
        )
    inside = {"viewBox": f"0 0 {FULL:g} {HEIGHT:g}", "preserveAspectRatio": "none", "y": TOP, "height": HEIGHT}
    paths = [_path(line, i, len(lines), area) for i, line in enumerate(lines)]
    drawn.append(tag("svg", {"width": "100%", **inside}, *paths))
    drawn += [element for i, line in enumerate(lines) for element in _whiskers(line, i, area)]
    drawn += [element for rule in rules for element in _rule(rule, area)]
    drawn += _marks(lines, area)
    drawn += axis(area.x, TOP + HEIGHT, x_title)
    picture = svg(TOP + HEIGHT + AXIS, label, *drawn)
    plot = tag("div", {"class": "plot"}, _gutter(area), tag("div", {"class": "area"}, picture))
    signs = legend((_sign(i, len(lines)), line.name) for i, line in enumerate(lines))
    return chart(plot, label, signs, above=tag("div", {"class": "upwards"}, y_title))


def _gutter(area: Area) -> Element:
    """The values upwards, to the left of the curves, so that none is written over them."""
    width = 8 + CHARACTER * max(len(text) for _, text in area.upwards)
    texts = [
        tag("text", {"x": width - 8, "y": area.y(value) + 4, "text-anchor": "end"}, text)
        for value, text in area.upwards
    ]
    return tag("svg", {"class": "gutter", "width": width, "height": TOP + HEIGHT + AXIS}, *texts)


def _path(line: Line, i: int, count: int, area: Area) -> Element:
    """A curve that stretches with the page; its stroke keeps its width."""
    places = [(area.x(spot.x), area.y(spot.y) - TOP) for spot in line.spots]
    path = f"M{places[0][0]:.3f},{places[0][1]:.1f}"
    for (_, before), (px, py) in pairwise(places):
        path += (f" L{px:.3f},{before:.1f}" if line.steps else "") + f" L{px:.3f},{py:.1f}"
    if line.until is not None:
        path += f" L{area.x(line.until):.3f},{places[-1][1]:.1f}"
    return tag("path", {"class": "curve", "d": path, **_stroke(i, count)})


def _stroke(i: int, count: int) -> dict[str, object]:
    """The first curve lies at the bottom, wide and whole; those above it have gaps, so that all are seen."""
    share = i / (count - 1) if count > 1 else 0.5
    width = WIDEST - (WIDEST - THINNEST) * share
    return {"stroke": colour(i), "stroke-width": width, "stroke-dasharray": DASHES[i % len(DASHES)]}


def _rule(rule: Rule, area: Area) -> list[Element]:
    """A dashed line with its name below it, where curves that it bounds do not come."""
    y = area.y(rule.y)
    return [
        tag("line", {"class": "limit", "x1": "0%", "x2": "100%", "y1": y, "y2": y}),
        tag("text", {"class": "value", "x": "100%", "y": y + 14, "text-anchor": "end"}, rule.name),
    ]


def _whiskers(line: Line, i: int, area: Area) -> list[Element]:
    """Lines from open points down to their bounds."""
    return [
        tag(
            "line",
            {
                "class": "whisker",
                "stroke": colour(i),
                "x1": per_cent(area.x(spot.x)),
                "x2": per_cent(area.x(spot.x)),
                "y1": area.y(spot.y),
                "y2": area.y(spot.bound),
            },
        )
        for spot in line.spots
        if spot.open and spot.bound is not None
    ]


def _marks(lines: Sequence[Line], area: Area) -> list[Element]:
    """One marker for all curves that meet at a place; it looks like that of the first of them."""
    marks_at: dict[tuple[str, int], list[tuple[int, Line, Spot]]] = {}
    for i, line in enumerate(lines):
        for spot in line.spots:
            place = (f"{area.x(spot.x):.1f}", round(area.y(spot.y)))
            marks_at.setdefault(place, []).append((i, line, spot))
    drawn = []
    for meeting in marks_at.values():
        i, _, spot = meeting[0]
        names = (line.name + (f" ({spot.words})" if spot.words else "") for _, line, spot in meeting)
        title = f"{number(spot.y)} at {number(spot.x)}: {', '.join(dict.fromkeys(names))}"
        drawn.append(_marker(i, area.x(spot.x), area.y(spot.y), title, spot.open))
    return drawn[:MOST_MARKS]


def _marker(i: int, x: float, y: float, title: str, unproven: bool) -> Element:
    name, kind, shape = _shape(i)
    ink = {"color": colour(i)} if unproven else {"fill": colour(i)}
    return mark(
        name, {**shape, **_middle(name, per_cent(x), y), **ink}, title, f"{kind} {'open' * unproven}".strip()
    )


def _shape(i: int) -> tuple[str, str, dict[str, float]]:
    """Circles, squares, diamonds, and bars that lie or stand: element, class and size."""
    shapes: tuple[tuple[str, str, dict[str, float]], ...] = (
        ("circle", "", {"r": 4.5}),
        ("rect", "square", {"width": 8, "height": 8}),
        ("rect", "diamond", {"width": 8, "height": 8}),
        ("rect", "lying", {"width": 12, "height": 6}),
        ("rect", "standing", {"width": 6, "height": 12}),
    )
    return shapes[i % len(shapes)]


def _middle(name: str, x: object, y: object) -> dict[str, object]:
    """Attributes that place a shape by its middle; the style sheet moves rectangles there."""
    return {"cx": x, "cy": y} if name == "circle" else {"x": x, "y": y}


def _sign(i: int, count: int) -> Element:
    stroke = tag("line", {"x1": 0, "x2": LEGEND_LINE, "y1": 6, "y2": 6, **_stroke(i, count)})
    name, kind, shape = _shape(i)
    place = _middle(name, LEGEND_LINE / 2, 6)
    return icon(stroke, tag(name, {"class": kind, **shape, **place, "fill": colour(i)}), width=LEGEND_LINE)
