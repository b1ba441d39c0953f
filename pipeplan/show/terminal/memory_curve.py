"""Time per micro-batch against memory as a table: a line per memory."""

from __future__ import annotations

from ...studies.pareto.export import verdict
from ...studies.pareto.staging_records import Ends, MemoryCurve, MemoryPoint
from ..console import clean, out
from ..words import IN_BYTES, MemoryUnit, Times, amount_or, several
from .shapes import columns, new_table


def draw_table(curve: MemoryCurve) -> None:
    """The best value in each memory, what an even split takes, and what the ends of the curve are."""
    page, problem = out(), curve.problem
    times = Times.of((time for point in curve.points for time in (point.value, point.even)), problem.time_unit)
    memory = IN_BYTES.like(point.memory_bytes for point in curve.points)
    what = f"{several(len(problem.layers), 'layer')}, {several(problem.devices, 'device')}"
    page.print(f"{clean(problem.name)}: {what}; time per micro-batch{clean(times.inside)}", soft_wrap=True)
    table = new_table()
    columns(table, "memory,value,gap,bound,needs,even split,seconds")
    for point in curve.points:
        table.add_row(*_cells(point, memory, times))
    page.print(table)
    page.print("*: proven; %: gap to the bound; -: no plan")
    if curve.ends is not None:
        for sentence in _said(curve.ends, memory, problem.time_unit):
            page.print(sentence, soft_wrap=True)


def _cells(point: MemoryPoint, memory: MemoryUnit, times: Times) -> list[str]:
    value = times.text(point.value, "-*" if point.certified else "-")
    needs = "" if point.peak_bytes is None else memory.text(point.peak_bytes)
    numbers = (times.text(point.bound, ""), needs, times.text(point.even))
    return [memory.text(point.memory_bytes), value, verdict(point), *numbers, f"{point.seconds:.1f}"]


def _said(ends: Ends, memory: MemoryUnit, unit: str | None) -> list[str]:
    least, best = ends.least.peak_bytes, ends.best
    known = "proven" if ends.least_proven else f"none exists with less than {memory.text(ends.lower_bytes)}"
    free = "proven" if ends.best_proven else f"bound {amount_or(ends.bound, unit, 'unknown')}"
    return [
        f"smallest memory with any plan: {memory.text(least)} ({known})",
        f"without a limit: {amount_or(best.value, unit)} ({free}), found with {memory.text(best.peak_bytes)}",
    ]
