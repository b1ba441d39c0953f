"""What a periodic pattern costs, recomputed from its decisions: periods, loads, memory, batches under way."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from ...base.amounts import as_written
from ...base.fields import plain_fields
from ..names import Terms, plain, task_name
from ..plan import PatternPlan
from ..problem import ChainProblem
from .layout import Layout, edge_name, lay_out
from .memory import Profile, memory_profile, most_at_once
from .verify import verify_pattern as verify_pattern


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
