"""Load against latency as a table: a line per limit."""

from __future__ import annotations

from ...studies.pareto.export import verdict
from ...studies.pareto.tradeoff_records import Ends, Point, Tradeoff
from ..console import clean, out
from ..words import Times, amount_or, several
from .shapes import columns, new_table

DIGITS = 6


def draw_tradeoff(tradeoff: Tradeoff) -> None:
    """The best load within each limit, what one sample takes, and what the ends of the curve are."""
    page, problem = out(), tradeoff.problem
    values = (time for point in tradeoff.points for time in (point.latency_limit, point.max_load))
    times = Times.of(values, problem.time_unit)
    counts = ((len(problem.nodes), "node"), (problem.accelerators, "accelerator"), (problem.cpus, "CPU"))
    sizes = ", ".join(several(count, word) for count, word in counts)
    page.print(f"{clean(problem.name)}: {sizes}; times{clean(times.inside)}", soft_wrap=True)
    table = new_table()
    columns(table, "latency limit,load,gap,bound,latency,found by,seconds")
    for point in tradeoff.points:
        table.add_row(*_cells(point, times))
    page.print(table)
    page.print("*: proven; %: gap to the bound; -: no plan")
    if tradeoff.ends is not None:
        for sentence in _said(tradeoff.ends, problem.time_unit):
            page.print(sentence, soft_wrap=True)


def _cells(point: Point, times: Times) -> list[str]:
    none = "-*" if point.certified else "-"
    load = times.text(point.max_load, none, DIGITS)
    limit, *facts = (times.text(time, "", DIGITS) for time in (point.latency_limit, point.bound, point.latency))
    return [limit, load, verdict(point), *facts, point.source or "", f"{point.seconds:.1f}"]


def _said(ends: Ends, unit: str | None) -> list[str]:
    quick = "proven" if ends.latency_proven else f"bound {amount_or(ends.latency_bound, unit)}"
    free = "proven" if ends.max_load_proven else f"bound {amount_or(ends.max_load_bound, unit)}"
    return [
        f"least latency of any plan: {amount_or(ends.latency, unit)} ({quick})",
        f"least load without a limit: {amount_or(ends.max_load, unit)} ({free})",
    ]
