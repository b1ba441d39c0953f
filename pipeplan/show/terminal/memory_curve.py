"""Time per micro-batch against memory as a table: a line per memory."""

from __future__ import annotations

from ...studies.pareto.export import verdict
from ...studies.pareto.staging_records import Ends, MemoryCurve, MemoryPoint
from ..console import clean, number, out
from ..words import several, size
from .shapes import columns, new_table


def draw_table(curve: MemoryCurve) -> None:
    """The best value in each memory, what an even split takes, and what the ends of the curve are."""
    page, problem = out(), curve.problem
    unit = "" if problem.time_unit is None else f" in {clean(problem.time_unit)}"
    what = f"{several(len(problem.layers), 'layer')}, {several(problem.devices, 'device')}"
    page.print(f"{clean(problem.name)}: {what}; time per micro-batch{unit}", soft_wrap=True)
    table = new_table()
    columns(table, "memory,value,gap,bound,needs,even split,seconds")
    for point in curve.points:
        table.add_row(*_cells(point))
    page.print(table)
    page.print("*: proven; %: gap to the bound; -: no plan")
    if curve.ends is not None:
        for sentence in _said(curve.ends):
            page.print(sentence, soft_wrap=True)


def _cells(point: MemoryPoint) -> list[str]:
    value = number(point.value, "-*" if point.certified else "-")
    needs = "" if point.peak_bytes is None else size(point.peak_bytes)
    numbers = (number(point.bound, ""), needs, number(point.even))
    return [size(point.memory_bytes), value, verdict(point), *numbers, f"{point.seconds:.1f}"]


def _said(ends: Ends) -> list[str]:
    least, best = ends.least.peak_bytes, ends.best
    known = "proven" if ends.least_proven else f"none exists with less than {size(ends.lower_bytes)}"
    free = "proven" if ends.best_proven else f"bound {number(ends.bound, 'unknown')}"
    return [
        f"smallest memory with any plan: {size(least)} ({known})",
        f"without a limit: {number(best.value)} ({free}), found with {size(best.peak_bytes)}",
    ]
