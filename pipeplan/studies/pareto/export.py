"""The points of a sweep as CSV, and as rows by memory limit."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterable, Mapping, Sequence

from ...instances.json_file import write_text_atomically
from . import tradeoff_records
from .records import COLUMNS, Pareto, Point
from .tradeoff_records import Tradeoff


def write_csv(pareto: Pareto, path: str | os.PathLike[str]) -> None:
    """One line per point, everything except the plans; absent values are empty."""
    _write(COLUMNS, pareto.points, path)


def write_tradeoff(tradeoff: Tradeoff, path: str | os.PathLike[str]) -> None:
    """The same of a curve of load against latency."""
    _write(tradeoff_records.COLUMNS, tradeoff.points, path)


def _write(
    columns: Sequence[str], points: Iterable[Point | tradeoff_records.Point], path: str | os.PathLike[str]
) -> None:
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    for point in points:
        writer.writerow({**point.facts(), "certified": "yes" if point.certified else "no"})
    write_text_atomically(path, text.getvalue())


def by_memory(pareto: Pareto) -> list[tuple[float, Mapping[str, Point]]]:
    """For each memory limit its points by method."""
    levels = sorted({point.memory_bytes for point in pareto.points})
    return [(level, {p.method: p for p in pareto.points if p.memory_bytes == level}) for level in levels]


def verdict(point: Point | tradeoff_records.Point | None) -> str:
    """What follows a value in a table: `*` proven, the gap of an open point, nothing where there is no bound."""
    if point is None or point.plan is None:
        return ""
    if point.certified:
        return "*"
    return "" if point.gap is None else f"{100 * point.gap:.1f}%"
