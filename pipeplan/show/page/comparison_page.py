"""The report of a comparison: values, ratios, profile and every run."""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.etree.ElementTree import Element

from ...studies.compare.comparison import Comparison
from ...studies.compare.paired import ASSUMED
from ...studies.compare.table import absent_as_none, faults, plain_rows, profile, ratios, summary
from ..comparison import (
    LOSS,
    METHODS,
    TOLD_OTHERWISE,
    about,
    case_cells,
    method_cells,
    pair_cells,
    run_cells,
    state,
    told_otherwise,
)
from .bars import Bar, bars
from .curves import Line, line_chart
from .markup import tag
from .page import page, section, table

if TYPE_CHECKING:
    import pandas


def comparison_page(comparison: Comparison) -> str:
    """One HTML page of what has finished so far."""
    title = comparison.expanded.title
    head = tag("header", None, tag("h1", None, title), tag("p", {"class": "note"}, state(comparison)))
    frame = comparison.table()
    if frame.empty:
        return page(title, [head])
    return page(title, [head, *_claims(comparison), *_parts(frame, about(comparison))])


def _claims(comparison: Comparison) -> list[Element]:
    claims = told_otherwise(comparison)
    if not claims:
        return []
    return [
        section("Claims", tag("p", None, TOLD_OTHERWISE), tag("ul", None, *(tag("li", None, c) for c in claims)))
    ]


def _parts(frame: pandas.DataFrame, words: str) -> list[Element]:
    columns, rows = case_cells(frame)
    failed = faults(frame)
    return [
        section("Values", table(columns, rows, f"Recomputed by the referee; {LOSS}"), tag("p", None, words)),
        section("Methods", table(*method_cells(frame), METHODS)),
        *_pairs(frame),
        section("Profile", _profile(frame)),
        section("Ratios", *_ratios(frame)),
        section("Seconds", _seconds(frame)),
        *(
            [section("Failures", tag("ul", None, *(tag("li", None, ": ".join(f)) for f in failed)))]
            if failed
            else []
        ),
        section("Runs", table(*run_cells(frame), "Seconds of the whole process, and the most memory that it held")),
    ]


def _pairs(frame: pandas.DataFrame) -> list[Element]:
    head, rows = pair_cells(frame)
    return [section("Pairs of methods", table(head, rows, ASSUMED))] if rows else []


def _profile(frame: pandas.DataFrame) -> Element:
    curves_of = profile(frame)
    taus = [float(tau) for tau in curves_of["ratio"]]
    lines = [
        Line.of(str(name), zip(taus, (100 * float(share) for share in curves_of[name]), strict=True), steps=True)
        for name in curves_of.columns
        if name != "ratio"
    ]
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
        rows = [Bar(name, (("above the best", share),)) for name, share in above.items()]
        return bars(rows, f"{label}: per cent above the best", "above the best", "%")
    return tag("p", None, f"Alike: {', '.join(above)}.")


def _seconds(frame: pandas.DataFrame) -> Element:
    rows = [
        Bar(str(row["method"]), (("median seconds", float(row["median_total_s"])),))
        for row in plain_rows(summary(frame))
        if row["median_total_s"] is not None
    ]
    return bars(rows, "Median seconds of each method", "median time", "s")
