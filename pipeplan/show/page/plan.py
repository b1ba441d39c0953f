"""What a report shows of a plan: tables, loads and memory as bars, memory over time, the graph, what runs when."""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree.ElementTree import Element

from ...instances.registry import Plan, Problem
from ..view import Curve, PlanView, Row, Table
from ..views.simulated import first_micro_batches
from ..words import MemoryUnit, plain
from .bars import Bar, bars
from .gantt import gantt
from .graph import graph
from .memory import memory_over_time
from .page import details, section, table

# The most characters for the layers of a bar.
MOST_NAMED = 30


def sections(problem: Problem, plan: Plan, view: PlanView) -> list[Element]:
    """The sections of a plan: tables, timeline, loads, memory, graph. Where the plan fixes no times, an iteration is
    simulated, if it can be run."""
    timelines, memory = (view.timelines, view.memory) if view.timelines else first_micro_batches(problem, plan)
    words = view.each or view.tables[0].what
    rows = [row for part in view.tables for row in part.rows]
    loads = [
        Bar(row.named(part.item, MOST_NAMED), list(row.parts.items())) for part in view.tables for row in part.rows
    ]
    parts = [
        *(section(f"{part.what[0].upper()}{part.what[1:]}s", plan_table(view, part)) for part in view.tables),
        *(section(line.title, gantt(line, view), name="gantt") for line in timelines[-1:] if line.bars),
        section("Loads", bars(loads, f"Load of each {words}", "load", view.unit or ""), *map(_parts, view.tables)),
        *_memory(rows, view.tables[0].what, view.memory_unit),
        *_over_time(() if timelines[-1:] and timelines[-1].over_memory else memory, view),
    ]
    drawn = None if view.graph is None else graph(view.graph)
    return parts + ([] if drawn is None else [section("Graph", drawn)])


def plan_table(view: PlanView, part: Table) -> Element:
    columns = part.columns(part.rows, view.memory_unit)
    for title in part.parts:
        columns.pop(title, None)
    for title in dict.fromkeys(title for row in part.rows for title in row.told):
        columns[title] = [row.told.get(title, "") for row in part.rows]
    head = [f"load {view.unit or ''}".rstrip() if title == "load" else title for title in columns]
    legend = "; ".join(filter(None, ["Recomputed by the referee", view.legend]))
    return table(head, list(zip(*columns.values(), strict=True)), legend)


def _parts(part: Table) -> Element | None:
    """The parts of the loads, in numbers; None where a load has one part."""
    if len(part.parts) < 2:
        return None
    rows = [
        [row.title, plain(row.load), *(plain(row.parts.get(name, 0.0), 3) for name in part.parts)]
        for row in part.rows
    ]
    return details("As a table", table([part.what, "load", *part.parts], rows))


def _memory(rows: Sequence[Row], what: str, memory: MemoryUnit) -> list[Element]:
    rows_with_memory = [row for row in rows if row.memory]
    if not rows_with_memory:
        return []
    factor, unit = memory.scale(max(max(row.memory_held or 0.0, row.limit or 0.0) for row in rows_with_memory))
    terms = [
        Bar(
            row.title,
            [(name, amount / factor) for name, amount in (row.memory or {}).items()],
            row.limit and row.limit / factor,
        )
        for row in rows_with_memory
    ]
    return [section("Memory", bars(terms, f"Memory of a device of each {what}", "memory", unit))]


def _over_time(curves: Sequence[Curve], view: PlanView) -> list[Element]:
    """The section on what a device holds while micro-batches come and go."""
    return [section("Memory over time", memory_over_time(curves, view))] if curves else []
