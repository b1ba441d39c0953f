"""The frame of a page: one file without any network, readable on a phone and without a mouse."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Sequence
from datetime import date
from importlib.resources import files
from xml.etree.ElementTree import Element

from .markup import Node, tag, to_html

# A cell with at most this many characters stays on one line.
SHORT = 11


def page(
    title: str, sections: Iterable[Element], *, styles: Sequence[str] = (), scripts: Sequence[str] = ()
) -> str:
    """The whole page as text, with assets of its own beside ours; nothing else may be loaded or run."""
    style = "".join(map(_asset, ("report.css", *styles)))
    run = [_asset(name) for name in ("report.js", *scripts)]
    hashes = " ".join(f"'sha256-{_digest(script)}'" for script in run)
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
    from ... import __version__  # here, where the package has been imported

    today = date.today()
    return tag("p", {"class": "note"}, f"Report of {today.day} {today:%B %Y} by pipeplan {__version__}")


def section(title: str, *content: Node, name: str | None = None) -> Element:
    """A part of the page under a heading."""
    return tag("section", {"data-part": name or title.lower()}, tag("h2", None, title), *content)


def facts(pairs: Iterable[tuple[str, object]]) -> Element:
    """Names and values; what is absent says so."""
    rows: list[Element] = []
    for name, value in pairs:
        rows += [tag("dt", None, name), tag("dd", None, "none" if value is None else str(value))]
    return tag("dl", None, *rows)


def table(head: Sequence[str], rows: Iterable[Sequence[Node]], caption: str | None = None) -> Element:
    """A table that scrolls by itself on a narrow screen; its headings are buttons that sort."""
    cells = [tag("th", {"scope": "col"}, tag("button", {"type": "button", "class": "sort"}, name)) for name in head]
    lines = [tag("tr", None, *map(_cell, head, row)) for row in rows]
    inner = tag(
        "table",
        None,
        tag("caption", None, caption) if caption else None,
        tag("thead", None, tag("tr", None, *cells)),
        tag("tbody", None, *lines),
    )
    return tag(
        "div", {"class": "scroll", "tabindex": "0", "role": "region", "aria-label": caption or "table"}, inner
    )


def _cell(heading: str, cell: Node) -> Element:
    """A cell with its heading, which stands beside it on a phone; an empty cell is left out there."""
    short = isinstance(cell, str) and len(cell) <= SHORT
    return tag("td", {"data-label": heading, "class": "empty" if not cell else "short" if short else "long"}, cell)


def details(title: str, *content: Node) -> Element:
    return tag("details", None, tag("summary", None, title), *content)


def _asset(name: str) -> str:
    return files(__package__).joinpath("assets", name).read_text("utf-8")


def _digest(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
