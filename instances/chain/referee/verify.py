"""What is wrong with a periodic pattern, rule by rule, one sentence each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...base.amounts import as_written, in_digits
from ...base.errors import Violation
from ...base.quantities import of_limit
from ..names import task_name
from ..plan import PatternPlan
from ..problem import ChainProblem
from .layout import Layout, edge_name, lay_out, shape_faults
from .memory import memory_profile


def verify_pattern(problem: ChainProblem, plan: PatternPlan) -> tuple[Violation, ...]:
    """Every broken rule; an empty tuple is a valid plan.

    Rules: shape, gpus, precedence, transfer, exclusive-gpu, exclusive-link, order, memory and buffer-overrun.

    A plan that cannot be laid out breaks `shape` and is judged no further. Where cut edges have no transfer,
    what concerns transfers is judged for the others.
    """
    faults = tuple(Violation("shape", fault) for fault in shape_faults(problem, plan))
    if faults:
        return faults
    layout = lay_out(problem, plan)
    violations = [*_gpus(problem, plan), *_transfers_named(layout), *_sequence(layout), *_exclusive(layout)]
    violations += [*_order(layout), *_memory(layout)]
    if problem.exclusive_buffers:
        violations += _slots(layout)
    return tuple(violations)


def _gpus(problem: ChainProblem, plan: PatternPlan) -> Iterator[Violation]:
    for i, gpu in enumerate(plan.allocation):
        if not 0 <= gpu < problem.gpus:
            yield Violation(
                "gpus", f"Layer {i + 1} is on GPU {gpu}; the problem has the GPUs 0 to {problem.gpus - 1}."
            )


def _transfers_named(layout: Layout) -> Iterator[Violation]:
    """The transfer of every edge between GPUs has a start, and no other edge has one."""
    for row, starts in enumerate(layout.transfers):
        for edge in layout.cut_edges:
            if edge not in starts:
                name = edge_name(layout.problem, edge)
                yield Violation("transfer", f"The transfer of edge {edge} ({name}){_of(layout, row)} has no start.")
        for edge in starts:
            if edge not in layout.cut_edges:
                yield Violation(
                    "transfer", f"Edge {edge}{_of(layout, row)} has a transfer but does not lead from GPU to GPU."
                )


def _sequence(layout: Layout) -> Iterator[Violation]:
    """Each task starts after the task before it has ended and its output has arrived."""
    problem = layout.problem
    for row in layout.rows:
        for edge in range(1, problem.tasks):
            before, after = (task_name(problem, task) for task in (edge - 1, edge))
            ended, start = layout.end(row, edge - 1), layout.starts[row][edge]
            if not layout.is_remote(edge):
                if ended - start > layout.tolerance:
                    yield _early(layout, "precedence", after, row, start, f"{before} ends", ended)
                continue
            if edge not in layout.transfers[row]:
                continue
            moved, arrived = layout.transfers[row][edge], layout.arrival(row, edge)
            if ended - moved > layout.tolerance:
                what = f"The transfer of edge {edge}"
                yield _early(layout, "transfer", what, row, moved, f"{before} ends", ended)
            if arrived - start > layout.tolerance:
                yield _early(layout, "transfer", after, row, start, f"the transfer of edge {edge} ends", arrived)


def _early(layout: Layout, rule: str, what: str, row: int, start: int, other: str, end: int) -> Violation:
    return Violation(
        rule,
        f"{what}{_of(layout, row)} starts at {layout.time(start):.12g}, {layout.time(end - start):.6g} before {other} "
        f"at {layout.time(end):.12g}.",
    )


def _exclusive(layout: Layout) -> Iterator[Violation]:
    for gpu in sorted(set(layout.allocation)):
        yield from _overlaps(layout, "exclusive-gpu", f"On GPU {gpu}", layout.gpu_spans(gpu))
    for link in layout.links:
        arrow = "->" if layout.problem.duplex == "full" else "and"
        where = f"On the link of GPUs {link[0]} {arrow} {link[1]}"
        yield from _overlaps(layout, "exclusive-link", where, layout.link_spans(link))


def _overlaps(layout: Layout, rule: str, where: str, spans: list[Any]) -> Iterator[Violation]:
    for overlap in layout.overlaps(spans):
        first, second = (f"{span.label}{_of(layout, span.row)}" for span in (overlap.first, overlap.second))
        yield Violation(
            rule,
            f"{where} {first} and {second}, some periods apart, overlap for {layout.time(overlap.ticks):.6g} "
            f"in every period of {layout.time(layout.period):.12g}.",
        )


def _order(layout: Layout) -> Iterator[Violation]:
    """Batch r + 1 of the pattern follows batch r in every task, and batch 0 of the next period the last one."""
    last = len(layout.starts) - 1
    for task in range(layout.problem.tasks if last else 0):
        for row in layout.rows:
            following = layout.starts[row + 1][task] if row < last else layout.starts[0][task] + layout.period
            if layout.starts[row][task] - following > layout.tolerance:
                other = f"batch {row + 1}" if row < last else "batch 0 of the next period"
                yield Violation(
                    "order", f"{task_name(layout.problem, task)} handles {other} before batch {row} of the pattern."
                )


def _memory(layout: Layout) -> Iterator[Violation]:
    """A violation for each GPU that at some instant holds more than its memory, with what it then holds."""
    problem = layout.problem
    if problem.memory_bytes is None:
        return
    limit = as_written(problem.memory_bytes)
    time_unit = "" if problem.time_unit is None else f" {problem.time_unit}"
    for gpu in sorted(set(layout.allocation)):
        profile = memory_profile(layout, gpu)
        if profile.exact_peak > limit:
            peak = profile.peak
            over = in_digits(profile.exact_peak - limit)
            made_of = ", ".join(f"{name} {size:.12g}" for name, size in peak.terms.to_json().items() if size)
            yield Violation(
                "memory",
                f"GPU {gpu} holds {in_digits(profile.exact_peak)} bytes at {peak.time:.12g}{time_unit} of the period "
                f"({made_of}), {over} more than its memory of {in_digits(limit)} bytes"
                f"{of_limit(float(profile.exact_peak), float(limit))}.",
            )


def _slots(layout: Layout) -> Iterator[Violation]:
    for edge, side, excess in layout.overruns():
        yield Violation(
            "buffer-overrun",
            f"The {side}'s slot of edge {edge} ({edge_name(layout.problem, edge)}) is needed for "
            f"{layout.time(excess):.6g} longer than until the next batch claims it.",
        )


def _of(layout: Layout, row: int) -> str:
    """Says which batch is meant; empty where the pattern has only one."""
    return f" of batch {row}" if len(layout.starts) > 1 else ""
