"""HTML and SVG as elements: every text and attribute is escaped when the page is written."""

from __future__ import annotations

from typing import Any
from xml.etree.ElementTree import Element, tostring

from ..words import is_visible

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
