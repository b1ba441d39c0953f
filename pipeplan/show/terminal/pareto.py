"""The curves of a sweep as a table: a line per memory limit, a column per method."""

from __future__ import annotations

from ...studies.pareto.export import by_memory, verdict
from ...studies.pareto.records import EXACT_METHODS, Frame, Pareto, Point
from ..console import clean, out
from ..words import IN_BYTES, MemoryUnit, Times, amount_or
from .shapes import columns, new_table

DIGITS = 6
"""One fewer than elsewhere, so that the usual methods fit into 80 columns."""


def draw_curves(pareto: Pareto) -> None:
    """Periods per batch with their verdicts, and what the ends of the curves are."""
    page, problem = out(), pareto.problem
    times = Times.of((point.period for point in pareto.points), problem.time_unit)
    memory = IN_BYTES.like(point.memory_bytes for point in pareto.points)
    what = f"{problem.layers} layers, {problem.gpus} GPUs; period per batch{times.inside}"
    page.print(clean(f"{problem.name}: {what}"), soft_wrap=True)
    methods = list(dict.fromkeys(point.method for point in pareto.points))
    table = new_table()
    columns(table, ",".join(["memory", *(title for m in methods for title in _titles(m))]))
    for level, points in by_memory(pareto):
        cells = [cell for method in methods for cell in _cells(points.get(method), method, times)]
        table.add_row(memory.text(level), *cells)
    page.print(table)
    page.print("*: proven; %: gap to the bound; -: no plan; 2x: repeats itself after 2 batches")
    if pareto.frame is not None:
        for sentence in _ends(pareto.frame, memory, problem.time_unit):
            page.print(sentence, soft_wrap=True)


def _titles(method: str) -> list[str]:
    return [method, "gap"] if method in EXACT_METHODS else [method]


def _cells(point: Point | None, method: str, times: Times) -> list[str]:
    if point is None:
        text = ""
    elif point.period is None:
        text = "-*" if point.certified else "-"
    else:
        several = point.batches_per_period if (point.batches_per_period or 1) > 1 else None
        text = f"{several}x " * (several is not None) + times.text(point.period, digits=DIGITS)
    return [text, verdict(point)] if method in EXACT_METHODS else [text]


def _ends(frame: Frame, memory: MemoryUnit, unit: str | None) -> list[str]:
    proven = "proven" if frame.smallest_proven else "not proven"
    best = "proven" if frame.unlimited_proven else f"bound {amount_or(frame.unlimited_bound, unit, 'unknown')}"
    return [
        f"smallest memory with any pattern: {memory.text(frame.smallest_bytes)} ({proven})",
        f"without a limit: period {amount_or(frame.unlimited_period, unit)} ({best}), "
        f"found with {memory.text(frame.unlimited_bytes)}",
    ]
