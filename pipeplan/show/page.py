"""The frame of a page, one file without any network, and the charts on it, readable on a phone and without a mouse.

Charts are SVG as wide as the page, in which places across are percentages and text keeps its size; marks have a title,
which is what a reader learns by pointing at one or moving the focus to it."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from importlib.resources import files
from itertools import islice, pairwise
from typing import Any
from xml.etree.ElementTree import Element, tostring

from .lanes import FEW, MANY, Lane, Lanes, Scale, Shape, number, round_ends, ticks
from .views import WHITE, colour, ink_on
from .words import is_visible, shortened

# ---- HTML and SVG as elements: every text and attribute is escaped when the page is written -------------------


Node = Element | str | None


def tag(name: str, attributes: dict[str, Any] | None = None, *children: Node) -> Element:
    """An element. Attributes that are None are left out, numbers are written short."""
    element = Element(name, {key: _text(value) for key, value in (attributes or {}).items() if value is not None})
    for child in children:
        append(element, child)
    return element


def append(element: Element, child: Node) -> None:
    """Text or an element at the end; None adds nothing."""
    if child is None:
        return
    if isinstance(child, Element):
        element.append(child)
    elif len(element):
        element[-1].tail = (element[-1].tail or "") + _visible(child)
    else:
        element.text = (element.text or "") + _visible(child)


def to_html(element: Element) -> str:
    return "<!doctype html>\n" + tostring(element, encoding="unicode", method="html")


def _text(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else _visible(str(value))


def _visible(text: str) -> str:
    """Control characters have no place in a page; what they were stays readable."""
    return "".join(char if is_visible(char) or char in "\n\t" else repr(char)[1:-1] for char in text)


# ---- the page -------------------------------------------------------------------------------------------------


# A cell with at most this many characters stays on one line.
SHORT = 11


def page(
    title: str, sections: Iterable[Element], *, styles: Sequence[str] = (), scripts: Sequence[str] = ()
) -> str:
    """The whole page as text, with assets of its own beside ours; nothing else may be loaded or run."""
    style = "".join(map(asset, ("report.css", *styles)))
    run = [asset(name) for name in ("report.js", *scripts)]
    digests = (base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in run)
    hashes = " ".join(f"'sha256-{digest}'" for digest in digests)
    policy = f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src {hashes}"
    head = tag(
        "head",
        None,
        tag("meta", {"charset": "utf-8"}),
        tag("meta", {"http-equiv": "Content-Security-Policy", "content": policy}),
        tag("meta", {"name": "viewport", "content": "width=device-width, initial-scale=1"}),
        tag("link", {"rel": "icon", "href": "data:,"}),
        tag("title", None, title),
        tag("style", None, style),
    )
    body = tag("body", None, tag("main", None, *sections), *(tag("script", None, script) for script in run))
    return to_html(tag("html", {"lang": "en"}, head, body))


def published() -> Element:
    """When the page was made, and by which version."""
    from .. import __version__  # here, where the package has been imported

    today = date.today()
    return tag("p", {"class": "note"}, f"Report of {today.day} {today:%B %Y} by pipeplan {__version__}")


def section(title: str, *content: Node, name: str | None = None) -> Element:
    """A part of the page under a heading."""
    return tag("section", {"data-part": name or title.lower()}, tag("h2", None, title), *content)


def facts(pairs: Iterable[tuple[str, object]]) -> Element:
    """Names and values; what is absent says so."""
    named = ((tag("dt", None, name), "none" if value is None else str(value)) for name, value in pairs)
    return tag("dl", None, *(part for name, value in named for part in (name, tag("dd", None, value))))


def table(head: Sequence[str], rows: Iterable[Sequence[Node]], caption: str | None = None) -> Element:
    """A table that scrolls by itself on a narrow screen; its headings are buttons that sort."""
    cells = [tag("th", {"scope": "col"}, tag("button", {"type": "button", "class": "sort"}, name)) for name in head]
    title = tag("caption", None, caption) if caption else None
    lines = tag("tbody", None, *(tag("tr", None, *map(_cell, head, row)) for row in rows))
    inner = tag("table", None, title, tag("thead", None, tag("tr", None, *cells)), lines)
    frame = {"class": "scroll", "tabindex": "0", "role": "region", "aria-label": caption or "table"}
    return tag("div", frame, inner)


def _cell(heading: str, cell: Node) -> Element:
    """A cell with its heading, which stands beside it on a phone; an empty cell is left out there."""
    short = isinstance(cell, str) and len(cell) <= SHORT
    return tag("td", {"data-label": heading, "class": "empty" if not cell else "short" if short else "long"}, cell)


def header(title: str, *content: Node) -> Element:
    """The top of a page: its title, and what a reader is to know first."""
    return tag("header", None, tag("h1", None, title), *content)


def paragraph(text: Node, kind: str | None = None) -> Element:
    """A paragraph of a class of the style sheet, such as `note` or `verdict no`."""
    return tag("p", None if kind is None else {"class": kind}, text)


def listed(texts: Iterable[Node]) -> Element:
    return tag("ul", None, *(tag("li", None, text) for text in texts))


def data(title: str, value: Any) -> Element:
    """What the page was made of, closed until a reader opens it."""
    return section("Data", details(title, tag("pre", None, json.dumps(value.to_json(), indent=1))))


def details(title: str, *content: Node) -> Element:
    return tag("details", None, tag("summary", None, title), *content)


def asset(name: str) -> str:
    """The text of a file that pages are made of."""
    return files(__package__).joinpath("assets", name).read_text("utf-8")


# ---- what all charts have in common ---------------------------------------------------------------------------


# The least width of a chart, in pixels: that of a phone.
NARROW = 320.0
# Width of a digit in pixels in the text of a chart, in the widest of the usual fonts.
CHARACTER = 7.7
# The most characters of a name in one line on a phone.
LONGEST = int(NARROW / 7.0)
# The width of a chart, across which places are percentages.
FULL = 100.0
# Nearer to an end of an axis than this (in per cent of its length), a value is not written in the middle of its tick.
EDGE = {"narrow": 8.0, "wide": 3.0}
# The size of a sign in a legend, in pixels.
ICON = 12


def per_cent(value: float) -> str:
    return f"{value:.5g}%"


def chart(picture: Element, label: str, *extra: Element | None, above: Element | None = None) -> Element:
    """A picture with the line that says what is under the pointer or the focus."""
    status = tag(
        "div", {"class": "said", "aria-live": "polite"}, "Point at a mark, or reach it with Tab and the arrow keys."
    )
    return tag("div", {"class": "chart", "role": "group", "aria-label": label}, above, picture, status, *extra)


def scrolled(picture: Element) -> Element:
    """The picture in a frame of its own, in which it may become wider than the page."""
    return tag("div", {"class": "scroll fluid"}, picture)


def zoom() -> Element:
    """The slider that widens a picture."""
    slider = tag("input", {"type": "range", "min": 100, "max": 800, "step": 50, "value": 100})
    return tag("label", {"class": "controls"}, "Zoom", slider)


def svg(height: float, label: str, *children: Element) -> Element:
    """A picture that is as wide as there is room."""
    return tag("svg", {"class": "picture", "height": height, "role": "group", "aria-label": label}, *children)


def mark(name: str, attributes: dict[str, object], title: str, kind: str = "") -> Element:
    """A shape that can be pointed at."""
    description = {"class": f"mark {kind}".rstrip(), "role": "img", "aria-label": title}
    return tag(name, {**description, **attributes}, tag("title", None, title))


def line(kind: str, x: Iterable[float], y: Iterable[float], **look: object) -> Element:
    """A line of a class of the style sheet: places across in per cent, places downwards in pixels."""
    return tag("line", {"class": kind, **_ends("x", map(per_cent, x)), **_ends("y", y), **look})


def _ends(name: str, places: Iterable[object]) -> dict[str, object]:
    return {f"{name}{i}": place for i, place in enumerate(places, 1)}


def axis(x: Scale, y: float, title: str) -> list[Element]:
    """Round values below a line, few on a phone and more on a wide page, and the title below them."""
    drawn = [line("axis", (0.0, FULL), (y, y))]
    for most, width in ((FEW, "narrow"), (MANY, "wide")):
        for value, text in ticks(x.low, x.high, most):
            place = x(value)
            anchor = "start" if place < EDGE[width] else "end" if place > FULL - EDGE[width] else "middle"
            at = {"class": width, "x": per_cent(place), "y": y + 17, "text-anchor": anchor}
            drawn += [line(f"axis {width}", (place, place), (y, y + 4)), tag("text", at, text)]
    drawn.append(tag("text", {"class": "title", "x": "50%", "y": y + 35, "text-anchor": "middle"}, title))
    return drawn


# The height of an axis with its values.
AXIS = 42.0


def line_swatch(kind: str) -> Element:
    """The sign of a line that goes up and down, of a class of the style sheet."""
    return icon(tag("line", {"class": kind, "x1": 6, "x2": 6, "y1": 0, "y2": ICON}))


def swatch(fill: str) -> Element:
    return icon(tag("rect", {"width": ICON, "height": ICON, "fill": fill}))


def icon(*shapes: Element, width: int = ICON) -> Element:
    return tag("svg", {"width": width, "height": ICON, "aria-hidden": "true"}, *shapes)


def legend(entries: Iterable[tuple[Element, str]]) -> Element:
    """What the signs beside the names mean."""
    return tag("ul", {"class": "legend"}, *(tag("li", None, sign, name) for sign, name in entries))


# ---- curves ---------------------------------------------------------------------------------------------------


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
class Line:
    """A curve, of which a value holds until the next one."""

    name: str
    points: tuple[tuple[float, float], ...]

    @classmethod
    def of(cls, name: str, points: Sequence[tuple[float, float]]) -> Line:
        """A line of points, of which only those are kept where the value changes, and the last one."""
        last = len(points) - 1
        return cls(name, tuple(p for i, p in enumerate(points) if i in (0, last) or p[1] != points[i - 1][1]))


def line_chart(
    lines: Sequence[Line],
    label: str,
    x_title: str,
    y_title: str,
    low: float | None = None,
    high: float | None = None,
) -> Element:
    """Curves with a legend; the first one is the most visible. `low`, `high`: where the values upwards begin and end,
    if not at round values around those of the curves."""
    xs, ys = zip(*(point for own in lines for point in own.points), strict=True)
    least, most = round_ends(min(ys) if low is None else low, max(ys) if high is None else high, FEW + 1)
    x, y = Scale(min(xs), max(xs), 0.0, FULL), Scale(least, most, TOP + HEIGHT, TOP)
    upwards = [(y(value), text) for value, text in ticks(least, most, FEW + 1)]
    drawn = [line("grid", (0.0, FULL), (place, place)) for place, _ in upwards]
    inside = {"viewBox": f"0 0 {FULL:g} {HEIGHT:g}", "preserveAspectRatio": "none", "y": TOP, "height": HEIGHT}
    curves = [(i, own, _stroke(i, len(lines))) for i, own in enumerate(lines)]
    paths = (tag("path", {"class": "curve", "d": _path(own, x, y), **stroke}) for _, own, stroke in curves)
    drawn.append(tag("svg", {"width": "100%", **inside}, *paths))
    drawn += _marks(lines, x, y)
    drawn += axis(x, TOP + HEIGHT, x_title)
    picture = svg(TOP + HEIGHT + AXIS, label, *drawn)
    # The values upwards stand to the left of the curves, so that none is written over them.
    width = 8 + CHARACTER * max(len(text) for _, text in upwards)
    texts = [tag("text", {"x": width - 8, "y": place + 4, "text-anchor": "end"}, text) for place, text in upwards]
    gutter = tag("svg", {"class": "gutter", "width": width, "height": TOP + HEIGHT + AXIS}, *texts)
    plot = tag("div", {"class": "plot"}, gutter, tag("div", {"class": "area"}, picture))
    signs = legend((_sign(i, len(lines)), own.name) for i, own in enumerate(lines))
    return chart(plot, label, signs, above=tag("div", {"class": "upwards"}, y_title))


def _path(own: Line, x: Scale, y: Scale) -> str:
    """The steps of a curve that stretches with the page; its stroke keeps its width."""
    places = [(x(along), y(value) - TOP) for along, value in own.points]
    steps = (f" L{px:.3f},{before:.1f} L{px:.3f},{py:.1f}" for (_, before), (px, py) in pairwise(places))
    return f"M{places[0][0]:.3f},{places[0][1]:.1f}" + "".join(steps)


def _stroke(i: int, count: int) -> dict[str, object]:
    """The first curve lies at the bottom, wide and whole; those above it have gaps, so that all are seen."""
    share = i / (count - 1) if count > 1 else 0.5
    width = WIDEST - (WIDEST - THINNEST) * share
    return {"stroke": colour(i), "stroke-width": width, "stroke-dasharray": DASHES[i % len(DASHES)]}


def _marks(lines: Sequence[Line], x: Scale, y: Scale) -> Iterator[Element]:
    """One marker for all curves that meet at a place; it looks like that of the first of them."""
    marks_at: dict[tuple[str, int], list[tuple[int, tuple[float, float]]]] = {}
    for i, own in enumerate(lines):
        for along, value in own.points:
            marks_at.setdefault((f"{x(along):.1f}", round(y(value))), []).append((i, (along, value)))
    for meeting in islice(marks_at.values(), MOST_MARKS):
        i, (along, value) = meeting[0]
        title = f"{number(value)} at {number(along)}: {', '.join(dict.fromkeys(lines[j].name for j, _ in meeting))}"
        element, kind, shape = _shape(i, per_cent(x(along)), y(value))
        yield mark(element, {**shape, "fill": colour(i)}, title, kind)


# The marks of curves by their element, class and size: circles, squares, diamonds, and bars that lie or stand.
SHAPES: tuple[tuple[str, str, dict[str, float]], ...] = (
    ("circle", "", {"r": 4.5}),
    ("rect", "square", {"width": 8, "height": 8}),
    ("rect", "diamond", {"width": 8, "height": 8}),
    ("rect", "lying", {"width": 12, "height": 6}),
    ("rect", "standing", {"width": 6, "height": 12}),
)


def _shape(i: int, x: object, y: object) -> tuple[str, str, dict[str, object]]:
    """The element, the class and the attributes of the mark of curve i, which has its middle at this place: the style
    sheet moves rectangles there."""
    name, kind, size = SHAPES[i % len(SHAPES)]
    return name, kind, {**size, **({"cx": x, "cy": y} if name == "circle" else {"x": x, "y": y})}


def _sign(i: int, count: int) -> Element:
    stroke = tag("line", {"x1": 0, "x2": LEGEND_LINE, "y1": 6, "y2": 6, **_stroke(i, count)})
    name, kind, shape = _shape(i, LEGEND_LINE / 2, 6)
    return icon(stroke, tag(name, {"class": kind, **shape, "fill": colour(i)}), width=LEGEND_LINE)


# ---- lanes ----------------------------------------------------------------------------------------------------


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
    has_limits = any(lane.limit is not None or lane.level is not None for lane in lanes.lanes)
    signs += [(line_swatch("limit"), "limit")] * has_limits
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
        yield from (line(_kind(rule, lanes), (x(place),) * 2, (y, y + height + 2)) for place in places)
    for shape in lane.shapes:
        yield from _rectangle(shape, x, y, height)
    if lane.limit is not None:
        yield line("limit", (x(lane.limit),) * 2, (y, y + height + 2))
    if lane.level is not None:
        yield line("limit", (0.0, FULL), (y + height * (1 - lane.level),) * 2)


def _rectangle(shape: Shape, x: Scale, top: float, height: float) -> Iterator[Element]:
    """The rectangle, with its label if it can be wide enough for that."""
    start, width = x(shape.start), x(shape.end) - x(shape.start)
    place = {"x": per_cent(start), "width": per_cent(width), "y": top + height * (1 - shape.high)}
    place["height"] = height * (shape.high - shape.low)
    if shape.colour is None:
        yield mark("rect", place, shape.title, "clear")
    elif shape.title:
        yield mark("rect", {**place, "fill": shape.colour}, shape.title)
    else:
        yield tag("rect", {"class": "layer", **place, "fill": shape.colour})
    if not shape.label or shape.colour is None:
        return
    # A label for all pages, for wide ones, or when zoomed in: `data-needs` is the width that the timeline needs.
    needed = FULL * (4 + CHARACTER * len(shape.label)) / width if width else float("inf")
    if needed <= MOST_ZOOM * max(WIDTHS.values()):
        kind = next((kind for kind, most in WIDTHS.items() if needed <= most), "inside later")
        light = " light" if ink_on(shape.colour) == WHITE else ""
        at = {"class": kind + light, "x": per_cent(start + width / 2), "y": top + 13, "text-anchor": "middle"}
        yield tag("text", at | ({} if kind == "inside" else {"data-needs": round(needed)}), shape.label)
