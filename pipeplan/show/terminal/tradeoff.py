"""Load against latency as a table: a line per limit."""

from __future__ import annotations

from ...studies.pareto.export import verdict
from ...studies.pareto.tradeoff_records import Ends, Point, Tradeoff
from ..console import clean, number, out
from ..words import several
from .shapes import columns, new_table

DIGITS = 6


def draw_tradeoff(tradeoff: Tradeoff) -> None:
    """The best load within each limit, what one sample takes, and what the ends of the curve are."""
    page, problem = out(), tradeoff.problem
    unit = "" if problem.time_unit is None else f" in {clean(problem.time_unit)}"
    counts = ((len(problem.nodes), "node"), (problem.accelerators, "accelerator"), (problem.cpus, "CPU"))
    sizes = ", ".join(several(count, word) for count, word in counts)
    page.print(f"{clean(problem.name)}: {sizes}; times{unit}", soft_wrap=True)
    table = new_table()
    columns(table, "latency limit,load,gap,bound,latency,found by,seconds")
    for point in tradeoff.points:
        table.add_row(*_cells(point))
    page.print(table)
    page.print("*: proven; %: gap to the bound; -: no plan")
    if tradeoff.ends is not None:
        for sentence in _said(tradeoff.ends):
            page.print(sentence, soft_wrap=True)


def _cells(point: Point) -> list[str]:
    none = "-*" if point.certified else "-"
    load = none if point.max_load is None else _short(point.max_load)
    facts = [_short(value) for value in (point.bound, point.latency)]
    return [_short(point.latency_limit), load, verdict(point), *facts, point.source or "", f"{point.seconds:.1f}"]


def _short(value: float | None) -> str:
    return "" if value is None else f"{value:.{DIGITS}g}"


def _said(ends: Ends) -> list[str]:
    quick = "proven" if ends.latency_proven else f"bound {number(ends.latency_bound)}"
    free = "proven" if ends.max_load_proven else f"bound {number(ends.max_load_bound)}"
    return [
        f"least latency of any plan: {number(ends.latency)} ({quick})",
        f"least load without a limit: {number(ends.max_load)} ({free})",
    ]
