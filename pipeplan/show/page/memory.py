"""Memory over time: a strip for each device, with a layer for each use of the memory and a line for the limit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from xml.etree.ElementTree import Element

from ..names import shortened
from ..palette import MEMORY
from ..view import Curve, PlanView
from ..words import MemoryUnit, measured
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
    scrolled,
    svg,
    swatch,
    zoom,
)
from .markup import tag

# Heights of a device's memory, of the line above it, and of the space below it.
STRIP, LABEL, GAP = 62.0, 16.0, 6.0
HIGH = STRIP - LABEL - GAP
# The most spans of one device that can be pointed at one by one; with more of them only the whole strip can.
MOST_SPANS = 60
LIMIT = "limit"
# The fewest characters of a name, however long its memory is in words.
LEAST_NAME = 4


def memory_over_time(curves: Sequence[Curve], view: PlanView) -> Element:
    """A chart of its own, where no timeline stands above it."""
    x = Scale(min(curve.times[0] for curve in curves), max(curve.end for curve in curves), 0.0, FULL)
    drawn = memory_strips(curves, view.memory_unit, x, 0.0, view.time_unit or "")
    height = STRIP * len(curves)
    drawn += axis(x, height, measured("time", view.time_unit))
    label = "Memory of each device over time"
    return chart(scrolled(svg(height + AXIS, label, *drawn)), label, memory_legend(curves), above=zoom())


def memory_legend(curves: Sequence[Curve]) -> Element:
    """A legend of the layers, and of the limit where there is one."""
    entries = [(swatch(ink), term) for term, ink in _inks(curves).items()]
    entries += [(limit_swatch(), LIMIT)] if any(curve.limit is not None for curve in curves) else []
    return legend(entries)


def memory_strips(curves: Sequence[Curve], memory: MemoryUnit, x: Scale, top: float, time: str) -> list[Element]:
    """Strips below their names and peaks. A strip is as high as its limit, or else as the highest amount of all."""
    drawn: list[Element] = []
    most = max(max(*curve.totals, curve.limit or 0.0) for curve in curves)
    factor, unit = memory.scale(most)
    inks = _inks(curves)
    for i, curve in enumerate(curves):
        y, peak = top + STRIP * i, max(curve.totals)
        high = Scale(0.0, (most if curve.limit is None else max(peak, curve.limit)) or 1.0, HIGH, 0.0)
        of = "" if curve.limit is None else f" of {number(curve.limit / factor)}"
        words = f": up to {number(peak / factor)}{of} {unit}".rstrip()
        name = shortened(curve.name, max(LEAST_NAME, LONGEST - len(words) - len(LIMIT) - 2))
        drawn.append(tag("text", {"x": 0, "y": y + 12}, name + words))
        drawn.append(_layers(curve, inks, x, high, y + LABEL))
        drawn += _spans(curve, curve.name + words, x, y + LABEL, (factor, unit, time))
        if curve.limit is not None:
            drawn += _limit(y + LABEL + high(curve.limit))
    return drawn


def _inks(curves: Sequence[Curve]) -> dict[str, str]:
    """Colours of the terms that occur."""
    terms = dict.fromkeys(term for curve in curves for term, amounts in curve.terms.items() if any(amounts))
    return {term: MEMORY.get(term) or colour(i) for i, term in enumerate(terms)}


def _limit(y: float) -> list[Element]:
    return [
        tag("line", {"class": "limit", "x1": "0%", "x2": "100%", "y1": y, "y2": y}),
        tag("text", {"class": "value", "x": "100%", "y": y - 4, "text-anchor": "end"}, LIMIT),
    ]


def _layers(curve: Curve, inks: dict[str, str], x: Scale, high: Scale, top: float) -> Element:
    """The uses of the memory, one upon the other; they stretch with the page."""
    place = {"y": top, "width": "100%", "height": HIGH}
    area = {"viewBox": f"0 0 {FULL:g} {HIGH:g}", "preserveAspectRatio": "none"}
    below, shapes = [0.0] * len(curve.times), []
    for term, amounts in curve.terms.items():
        above = [low + amount for low, amount in zip(below, amounts, strict=True)]
        if term in inks:
            shapes.append(tag("path", {"fill": inks[term], "d": _layer(curve, below, above, x, high)}))
        below = above
    return tag("svg", {**area, **place}, *shapes)


def _layer(curve: Curve, below: Sequence[float], above: Sequence[float], x: Scale, high: Scale) -> str:
    """Steps forward along its upper side, and back along its lower one."""
    ends = (*curve.times[1:], curve.end)
    spans = list(zip(curve.times, ends, strict=True))
    there = [f"{x(time):.3f},{high(total):.2f}" for span, total in zip(spans, above, strict=True) for time in span]
    back = [f"{x(time):.3f},{high(total):.2f}" for span, total in zip(spans, below, strict=True) for time in span]
    return f"M{' L'.join([*there, *reversed(back)])} Z"


def _spans(curve: Curve, words: str, x: Scale, top: float, units: tuple[float, str, str]) -> Iterator[Element]:
    """Marks to point at: one for every span of time in which nothing changes, or one for the whole strip."""
    place = {"y": top, "height": HIGH}
    if len(curve.times) > MOST_SPANS:
        yield mark("rect", {**place, "x": 0, "width": "100%"}, words, "clear")
        return
    factor, unit, time = units
    for i, (start, end) in enumerate(zip(curve.times, (*curve.times[1:], curve.end), strict=True)):
        if end <= start:
            continue
        terms = ", ".join(
            f"{term} {number(amounts[i] / factor)}" for term, amounts in curve.terms.items() if amounts[i]
        )
        amount = f"{number(curve.totals[i] / factor)} {unit}".rstrip()
        title = f"{curve.name}: {amount} from {number(start)} to {number(end)} {time}".rstrip()
        span = {"x": per_cent(x(start)), "width": per_cent(x(end) - x(start))}
        yield mark("rect", {**place, **span}, f"{title} ({terms})" if terms else title, "clear")
