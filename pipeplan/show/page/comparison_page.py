"""The report of a comparison: values, ratios, profile and every run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING
from xml.etree.ElementTree import Element

from ...studies.compare.comparison import Comparison
from ...studies.compare.table import absent_as_none, plain_rows, profile, ratios, summary
from ..comparison import Part, parts_of, state
from ..lanes import Amount, amount_lanes
from ..pictures.curves import profile_points
from .curves import Line, line_chart
from .lanes import lanes_chart
from .markup import tag
from .page import page, section, table

if TYPE_CHECKING:
    import pandas


def comparison_page(comparison: Comparison) -> str:
    """One HTML page of what has finished so far."""
    title, parts = comparison.expanded.title, parts_of(comparison)
    head = tag("header", None, tag("h1", None, title), tag("p", {"class": "note"}, state(comparison)))
    if not parts:
        return page(title, [head])
    frame = comparison.table()
    charts = [section("Profile", _profile(frame)), section("Seconds", _seconds(frame))]
    sections = [
        _section(part, _ratios(frame) if part.title.startswith("Ratios") else ()) for part in parts.values()
    ]
    return page(title, [head, *sections, *charts])


def _section(part: Part, more: Sequence[Element]) -> Element:
    """A part of the comparison, its list or its table, and charts of the same below it."""
    if part.entries:
        note = tag("p", None, part.note) if part.note else None
        return section(part.title, note, tag("ul", None, *(tag("li", None, e) for e in part.entries)))
    remark = tag("p", None, part.remark) if part.remark else None
    return section(part.title, table(part.head, part.rows, part.note.rstrip(".")), remark, *more)


def _profile(frame: pandas.DataFrame) -> Element:
    points = profile_points(profile(frame))
    lines = [Line.of(name, curve, steps=True) for name, curve in points.items()]
    label = "Share of cases within a ratio of the best"
    return line_chart(lines, label, "ratio to the best value", "cases (%)", low=0.0, high=100.0)


def _ratios(frame: pandas.DataFrame) -> list[Element]:
    """For each case how far each method lies above the best, in per cent; a sentence where none does."""
    over_best = ratios(frame)
    parts = []
    for case, row in zip(over_best.index, over_best.itertuples(index=False, name=None), strict=True):
        cells = zip(over_best.columns, row, strict=True)
        above = {str(name): 100 * (float(ratio) - 1) for name, ratio in cells if absent_as_none(ratio) is not None}
        if not above:
            continue
        label = ", ".join(filter(None, map(str, case)))
        parts += [tag("h3", None, label), _above_the_best(above, label)]
    return parts


def _above_the_best(above: dict[str, float], label: str) -> Element:
    if any(share > 0 for share in above.values()):
        rows = [Amount(name, {"above the best": share}) for name, share in above.items()]
        return lanes_chart(amount_lanes(rows, f"{label}: per cent above the best", "above the best", "%"))
    return tag("p", None, f"Alike: {', '.join(above)}.")


def _seconds(frame: pandas.DataFrame) -> Element:
    rows = [
        Amount(str(row["method"]), {"median seconds": float(row["median_total_s"])})
        for row in plain_rows(summary(frame))
        if row["median_total_s"] is not None
    ]
    return lanes_chart(amount_lanes(rows, "Median seconds of each method", "median time", "s"))
