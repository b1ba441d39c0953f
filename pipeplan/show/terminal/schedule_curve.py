"""A schedule's value against memory as a table: a line per memory, with the bubble and the best named rule."""

from __future__ import annotations

from ...studies.pareto.export import verdict
from ...studies.pareto.schedules import ScheduleCurve, SchedulePoint
from ...studies.pareto.staging_records import Ends
from ..console import clean, out
from ..words import MemoryUnit, Times, amount_or, memory_unit, percent, several
from .shapes import columns, new_table


def draw_table(curve: ScheduleCurve) -> None:
    """The best value in each memory, how long devices idle then, and what the ends of the curve are."""
    page, problem = out(), curve.problem
    times = Times.of((time for point in curve.points for time in (point.value, point.rule)), problem.time_unit)
    count = problem.micro_batches
    what = f"{several(len(problem.devices), 'device')}, {several(len(problem.blocks), 'block')}"
    batches = "" if count is None else f", {count} micro-batches"
    page.print(f"{clean(problem.name)}: {what}{batches}; {curve.objective}{clean(times.inside)}", soft_wrap=True)
    table, memory = new_table(), memory_unit(problem.memory_unit).like(point.memory for point in curve.points)
    columns(table, "memory,value,gap,bound,idle,needs,best rule,seconds")
    for point in curve.points:
        table.add_row(*_cells(point, memory, times))
    page.print(table)
    page.print("*: proven; %: gap to the bound; -: no schedule, or no named rule made for this shape and memory")
    if curve.ends is not None:
        for sentence in _said(curve.ends, memory, problem.time_unit):
            page.print(sentence, soft_wrap=True)


def _cells(point: SchedulePoint, memory: MemoryUnit, times: Times) -> list[str]:
    value = times.text(point.value, "-*" if point.certified else "-")
    idle = "" if point.bubble is None else percent(point.bubble)
    needs = "" if point.peak is None else memory.text(point.peak)
    rule = times.text(point.rule)
    return [
        memory.text(point.memory),
        value,
        verdict(point),
        times.text(point.bound, ""),
        idle,
        needs,
        rule,
        f"{point.seconds:.1f}",
    ]


def _said(ends: Ends, memory: MemoryUnit, unit: str | None) -> list[str]:
    least, best = ends.least.peak_bytes, ends.best
    known = "proven" if ends.least_proven else f"none exists with less than {memory.text(ends.lower_bytes)}"
    free = "proven" if ends.best_proven else f"bound {amount_or(ends.bound, unit, 'unknown')}"
    return [
        f"smallest memory with any schedule: {memory.text(least)} ({known})",
        f"without a limit: {amount_or(best.value, unit)} ({free}), found with {memory.text(best.peak_bytes)}",
    ]
