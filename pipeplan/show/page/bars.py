"""Stacked bars, one a row, below its name and its value: the same parts in the same colours everywhere."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from xml.etree.ElementTree import Element

from ..names import shortened
from ..palette import LOADS, MEMORY
from ..words import measured
from .axes import Scale, number
from .charts import (
    AXIS,
    FULL,
    LONGEST,
    axis,
    chart,
    colour,
    legend,
    limit_swatch,
    mark,
    per_cent,
    svg,
    swatch,
)
from .markup import tag

# Heights of a row, of the line above its bar, and of the bar.
ROW, LABEL, THICK = 38.0, 16.0, 16.0


@dataclass(frozen=True, slots=True)
class Bar:
    """A name, parts by name and size, and a limit where there is one."""

    name: str
    parts: Sequence[tuple[str, float]]
    limit: float | None = None

    @property
    def length(self) -> float:
        return math.fsum(size for _, size in self.parts)


def bars(rows: Sequence[Bar], label: str, what: str, unit: str) -> Element:
    """A chart with a bar for each row; `what` is measured, in `unit`."""
    inks = _inks(rows)
    longest = max((max(row.length, row.limit or 0.0) for row in rows), default=0.0)
    x = Scale(0.0, longest or 1.0, 0.0, FULL - 0.5)
    drawn = [element for i, row in enumerate(rows) for element in _bar(row, ROW * i, x, inks, unit)]
    limits = {row.limit for row in rows if row.limit}
    bottom = ROW * len(rows)
    if len(limits) == 1:
        drawn.append(_limit_text(limits.copy().pop(), x, bottom + 10, unit))
        bottom += LABEL
    drawn += axis(x, bottom, measured(what, unit))
    entries = [(swatch(ink), name) for name, ink in inks.items()] if len(inks) > 1 else []
    entries += [(limit_swatch(), "limit")] if limits else []
    return chart(svg(bottom + AXIS, label, *drawn), label, legend(entries) if entries else None)


def _inks(rows: Sequence[Bar]) -> Mapping[str, str]:
    """Colours of the parts that occur: a part with a meaning has a colour of its own, others have one by their
    place."""
    names = dict.fromkeys(name for row in rows for name, size in row.parts if size > 0)
    return {name: MEMORY.get(name) or LOADS.get(name) or colour(i) for i, name in enumerate(names)}


def _bar(row: Bar, top: float, x: Scale, inks: Mapping[str, str], unit: str) -> list[Element]:
    """The name, value, coloured parts and limit line of one bar."""
    limit = f" of {number(row.limit)}" if row.limit else ""
    value = f"{number(row.length)}{limit} {unit}".rstrip()
    room = LONGEST - len(value) - 2
    drawn = [
        tag("text", {"x": 0, "y": top + 12}, shortened(row.name, room)),
        tag("text", {"x": "100%", "y": top + 12, "text-anchor": "end"}, value),
    ]
    at = 0.0
    for name, size in row.parts:
        if size > 0:
            place = {"x": per_cent(x(at)), "width": per_cent(x(at + size) - x(at)), "y": top + LABEL}
            title = f"{row.name}: {name} {number(size)} {unit}".rstrip()
            drawn.append(mark("rect", {**place, "height": THICK, "fill": inks[name]}, title))
            at += size
    if row.limit:
        place = {
            "x1": per_cent(x(row.limit)),
            "x2": per_cent(x(row.limit)),
            "y1": top + LABEL + 1,
            "y2": top + ROW - 2,
        }
        drawn.append(tag("line", {"class": "limit", **place}))
    return drawn


def _limit_text(limit: float, x: Scale, y: float, unit: str) -> Element:
    """The label of the memory limit, set below the limit lines, where no other text stands."""
    words = f"limit {number(limit)} {unit}".rstrip()
    anchor = "end" if x(limit) > FULL / 2 else "start"
    return tag("text", {"x": per_cent(x(limit)), "y": y, "text-anchor": anchor}, words)
