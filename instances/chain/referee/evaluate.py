"""What is wrong with a periodic pattern, and what it costs: periods, loads, memory, batches under way, all recomputed
from its decisions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from ...base.amounts import as_written, in_digits
from ...base.errors import Violation
from ...base.fields import plain_fields
from ...base.quantities import of_limit
from ..plan import PatternPlan
from ..problem import ChainProblem, Terms, plain, task_name
from .layout import Layout, edge_name, lay_out, shape_faults
from .memory import Profile, memory_profile, most_at_once

# ---- rules -------------------------------------------------------------------------------------------
# What is wrong with a periodic pattern, rule by rule, one sentence each.


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


# ---- costs -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class GpuUse:
    """One GPU over one period; times in the problem's unit, `busy` and `idle` per period."""

    gpu: int
    layers: tuple[int, ...]
    """Numbers of the layers on the GPU; the first layer is 1."""
    busy: float
    idle: float
    in_flight: int
    """The most batches that are at once between their first and their last task on this GPU."""
    peak_bytes: float
    peak_time: float
    """Position in the period of the first instant with that many bytes."""
    peak_task: str | None
    """The task that runs then, as F3 or B3; None between tasks."""
    terms: Terms
    """The parts of the peak."""


@dataclass(frozen=True, slots=True)
class LinkUse:
    """One link over one period; `gpus` stand in the order of its transfers where each direction has its own link."""

    gpus: tuple[int, int]
    edges: tuple[int, ...]
    busy: float
    idle: float


@dataclass(frozen=True, slots=True)
class Overrun:
    """The next batch claims the one slot of an edge `excess` time units before it is free."""

    edge: int
    name: str
    side: str
    """The end of the edge at which the slot is still needed: `sender` or `receiver`."""
    gpu: int
    excess: float


@dataclass(frozen=True, slots=True)
class PatternEvaluation:
    """All that follows from a pattern. Times are in the problem's unit."""

    period: float
    batches_per_period: int
    period_per_batch: float
    throughput: float
    """Batches per time unit."""
    makespan: float
    """Longest time, over the batches of the pattern, from a batch's first start to its last end."""
    in_flight: int
    """The most batches that are at once under way."""
    bottleneck: str
    """The GPU or link that is busy for the largest part of the period."""
    devices: tuple[GpuUse, ...]
    """The GPUs that hold layers, by number."""
    links: tuple[LinkUse, ...]
    """The links that are used."""
    overruns: tuple[Overrun, ...]

    @property
    def objective(self) -> float:
        return self.period_per_batch

    @property
    def peak_bytes(self) -> float:
        """Peak of the GPU that needs the most memory."""
        return max(device.peak_bytes for device in self.devices)

    def to_json(self) -> dict[str, Any]:
        return {**plain_fields(self), "peak_bytes": self.peak_bytes}


def evaluate_pattern(problem: ChainProblem, plan: PatternPlan) -> PatternEvaluation:
    """Everything about a pattern, valid or not; raises `NotAPatternError` where it cannot be laid out."""
    layout = lay_out(problem, plan)
    devices = tuple(_gpu_use(layout, gpu) for gpu in sorted(set(plan.allocation)))
    links = tuple(_link_use(layout, link) for link in layout.links)
    period, batches = Fraction(layout.period, layout.ticks_per_unit), len(plan.starts)
    spans = _batch_spans(layout, range(problem.tasks))
    busiest = max(
        [(use.busy, f"gpu{use.gpu}") for use in devices]
        + [(use.busy, f"link{use.gpus[0]}-{use.gpus[1]}") for use in links]
    )
    return PatternEvaluation(
        period=plain(period),
        batches_per_period=batches,
        period_per_batch=plain(period / batches),
        throughput=plain(batches / period),
        makespan=layout.time(max(end - start for start, end in spans)),
        in_flight=most_at_once(layout, spans),
        bottleneck=busiest[1],
        devices=devices,
        links=links,
        overruns=overruns(layout),
    )


def memory_profiles(problem: ChainProblem, plan: PatternPlan) -> tuple[Profile, ...]:
    """For each GPU that holds layers, its memory over one period, by kind."""
    layout = lay_out(problem, plan)
    return tuple(memory_profile(layout, gpu) for gpu in sorted(set(plan.allocation)))


def overruns(layout: Layout) -> tuple[Overrun, ...]:
    """The slots that are claimed while they are still needed."""
    return tuple(
        Overrun(
            edge,
            edge_name(layout.problem, edge),
            side,
            layout.gpu(edge - 1 if side == "sender" else edge),
            layout.time(excess),
        )
        for edge, side, excess in layout.overruns()
    )


def _gpu_use(layout: Layout, gpu: int) -> GpuUse:
    tasks = layout.tasks_on(gpu)
    busy = len(layout.rows) * sum(layout.durations[task] for task in tasks)
    peak = memory_profile(layout, gpu).peak
    return GpuUse(
        gpu=gpu,
        layers=tuple(i + 1 for i, at in enumerate(layout.allocation) if at == gpu),
        busy=layout.time(busy),
        idle=layout.time(layout.period - busy),
        in_flight=most_at_once(layout, _batch_spans(layout, tasks)),
        peak_bytes=peak.bytes,
        peak_time=peak.time,
        peak_task=_running(layout, gpu, peak.time),
        terms=peak.terms,
    )


def _running(layout: Layout, gpu: int, time: float) -> str | None:
    """The task that runs at a position in the period."""
    ticks = round(as_written(time) * layout.ticks_per_unit)
    for task in layout.tasks_on(gpu):
        for row in layout.rows:
            if (ticks - layout.starts[row][task]) % layout.period < layout.durations[task]:
                return task_name(layout.problem, task)
    return None


def _link_use(layout: Layout, link: tuple[int, int]) -> LinkUse:
    edges = tuple(edge for edge in layout.cut_edges if layout.link(edge) == link)
    busy = len(layout.rows) * sum(layout.edge_times[edge - 1] for edge in edges)
    return LinkUse(link, edges, layout.time(busy), layout.time(layout.period - busy))


def _batch_spans(layout: Layout, tasks: range | list[int]) -> list[tuple[int, int]]:
    """For each batch of the pattern, from the first start to the last end of these tasks."""
    return [
        (min(layout.starts[row][task] for task in tasks), max(layout.end(row, task) for task in tasks))
        for row in layout.rows
    ]
