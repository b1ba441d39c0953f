"""The points of any curve as CSV, those of chains as rows by memory limit, and what a table says of a point."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Mapping

from ...instances.base.json_file import csv_cell, write_text_atomically
from .curve import Curve, CurvePoint

# A smaller gap is shown as smaller, never as nothing.
LEAST_GAP = 0.001


def write_csv(curve: Curve, path: str | os.PathLike[str]) -> None:
    """Write one line for each point, with everything except the plan; absent values are empty."""
    text = io.StringIO()
    writer = csv.DictWriter(text, tuple(curve.axes.columns), lineterminator="\n")
    writer.writeheader()
    for point in curve.points:
        facts = {**point.facts(curve.axes.columns), "certified": "yes" if point.certified else "no"}
        writer.writerow({name: csv_cell(value) for name, value in facts.items()})
    write_text_atomically(path, text.getvalue())


def by_memory(curve: Curve) -> list[tuple[float, Mapping[str, CurvePoint]]]:
    """The points of each memory limit by method."""
    levels = sorted({point.limit for point in curve.points})
    return [(level, {p.method: p for p in curve.points if p.limit == level}) for level in levels]


def verdict(point: CurvePoint | None) -> str:
    """What follows a value in a table: `*` if proven, else the gap, or nothing where there is no bound."""
    if point is None or point.plan is None:
        return ""
    if point.certified:
        return "*"
    if point.gap is None:
        return ""
    return f"{100 * point.gap:.1f}%" if point.gap >= LEAST_GAP else f"<{100 * LEAST_GAP:g}%"
