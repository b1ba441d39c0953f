"""The least memory in words, and the best values with more of it as a table."""

from __future__ import annotations

from ...instances.least_memory import at_least, in_one_unit, option, said
from ...studies.memory import MemoryPoint, MemoryStudy, worse
from ..console import clean, columns, new_table, out
from ..front import value_of
from ..words import Times


def draw_memory_study(study: MemoryStudy) -> None:
    """Print the answer, then the table, then from which amount on more memory does not help."""
    page = out()
    page.print(clean(f"{study.problem.name}: {_least(study)}"), soft_wrap=True)
    if study.points:
        _draw_points(study)
        page.print(clean(_closing(study)), soft_wrap=True)


def _least(study: MemoryStudy) -> str:
    least = study.least
    exact = "" if least.memory_bytes is None else f"; {option(least.memory_bytes, least.counted)} asks for it"
    return f"{said(least)}{exact}"


def _draw_points(study: MemoryStudy) -> None:
    times = Times.of((point.value for point in study.points), study.problem.time_unit)
    table, first = new_table(), study.points[0].value
    columns(table, f"memory,{clean(value_of(study))}{clean(times.inside)},less time,gap")
    amounts = in_one_unit((point.limit for point in study.points), study.least.counted)
    for point in study.points:
        table.add_row(
            amounts[point.limit],
            times.text(point.value, "none"),
            _less(point, first),
            _gap(point),
        )
    page = out()
    page.print()
    page.print(table)
    page.print()


def _less(point: MemoryPoint, first: float | None) -> str:
    if not first or point.value is None or point.value == first:
        return ""
    return f"{100 * (1 - point.value / first):.1f} %"


def _gap(point: MemoryPoint) -> str:
    if point.certified:
        return "proven"
    return "unknown" if point.gap is None else f"{100 * point.gap:.2f} %"


def _closing(study: MemoryStudy) -> str:
    """A sentence that says from where on more memory does not help, and below which amount it is known to help."""
    best, counted = study.no_more_helps, study.least.counted
    amounts = in_one_unit((point.limit for point in study.points), counted)
    if best is None:
        return "what more memory is worth was not found in time" if study.points else "no value was found in time"
    slower = [
        p for p in study.points if p.bound is not None and best.value is not None and worse(p.bound, best.value)
    ]
    if not best.certified:
        return f"with more than {amounts[best.limit]} nothing better was found ({study.method}, not proven)"
    words = f"from {amounts[best.limit]} on more memory does not help (proven by {study.method})"
    return f"{words}; with {at_least(slower[-1].limit, counted)} it still does" if slower else words
