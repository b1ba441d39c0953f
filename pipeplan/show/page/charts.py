"""What all charts have in common: SVG as wide as the page, in which places across are percentages and text keeps its
size; marks with a title, which is what a reader learns by pointing at one or moving the focus to it; axes and legends.
"""

from __future__ import annotations

from collections.abc import Iterable
from xml.etree.ElementTree import Element

from ..palette import colour as colour
from .axes import FEW, MANY, Scale, ticks
from .markup import tag

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


def axis(x: Scale, y: float, title: str) -> list[Element]:
    """Round values below a line, few on a phone and more on a wide page, and the title below them."""
    drawn = [tag("line", {"class": "axis", "x1": "0%", "x2": "100%", "y1": y, "y2": y})]
    for most, width in ((FEW, "narrow"), (MANY, "wide")):
        for value, text in ticks(x.low, x.high, most):
            place = x(value)
            anchor = "start" if place < EDGE[width] else "end" if place > FULL - EDGE[width] else "middle"
            at = {"x1": per_cent(place), "x2": per_cent(place), "y1": y, "y2": y + 4}
            drawn.append(tag("line", {"class": f"axis {width}", **at}))
            drawn.append(
                tag("text", {"class": width, "x": per_cent(place), "y": y + 17, "text-anchor": anchor}, text)
            )
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
