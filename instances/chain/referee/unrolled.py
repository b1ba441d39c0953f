"""A pattern unrolled over a stretch of time: everything that GPUs and links do in it, batch by batch."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from ...base.amounts import as_written
from ..names import plain, task_name
from ..plan import PatternPlan
from ..problem import ChainProblem
from .layout import Layout, edge_name, lay_out


@dataclass(frozen=True, slots=True)
class Activity:
    """A task or a transfer of one batch; times in the problem's unit."""

    resource: str
    """The name of the GPU or link that is busy, such as gpu0 or link0-1."""
    start: float
    end: float
    batch: int
    """Number of the batch: the first is 0, and those before it have negative numbers."""
    name: str
    """F3 or B3; for a transfer, the tasks at both ends."""
    layer: int
    """Number of the layer, from 1; for a transfer, that of the task before it."""
    backward: bool
    """Is it a backward task, or a transfer of a gradient?"""


def unroll(
    problem: ChainProblem, plan: PatternPlan, begin: float, end: float, first_batch: int | None = 0
) -> list[Activity]:
    """All activities that overlap the time from `begin` to `end`, in order, but for those that take no time.

    `first_batch`: no batch before it exists, so the pipeline fills up; None: it has always been running.
    """
    layout = lay_out(problem, plan)
    ticks = layout.ticks_per_unit
    window = (math.floor(as_written(begin) * ticks), math.ceil(as_written(end) * ticks))
    activities = [*_tasks(layout, window, first_batch), *_transfers(layout, window, first_batch)]
    return sorted(activities, key=lambda activity: (activity.start, activity.resource))


def steady_from(problem: ChainProblem, plan: PatternPlan) -> float:
    """When the last task of the first batches starts: from then on everything repeats with the period."""
    layout = lay_out(problem, plan)
    return layout.time(max(max(row) for row in layout.starts))


def resources(problem: ChainProblem, plan: PatternPlan) -> tuple[str, ...]:
    """The GPUs that hold layers, then the links that are used, each by number."""
    layout = lay_out(problem, plan)
    gpus = [f"gpu{gpu}" for gpu in sorted(set(plan.allocation))]
    return (*gpus, *dict.fromkeys(_link(layout, edge) for edge in sorted(layout.cut_edges, key=layout.link)))


def _link(layout: Layout, edge: int) -> str:
    """The direction is part of the name where each has its own link."""
    first, second = layout.link(edge)
    return f"link{first}>{second}" if layout.problem.duplex == "full" else f"link{first}-{second}"


def _tasks(layout: Layout, window: tuple[int, int], first: int | None) -> Iterator[Activity]:
    problem = layout.problem
    for row in layout.rows:
        for task, start in enumerate(layout.starts[row]):
            gpu, name = f"gpu{layout.gpu(task)}", task_name(problem, task)
            for batch, at in _copies(layout, row, start, layout.durations[task], window, first):
                times = _times(layout, at, layout.durations[task])
                yield Activity(gpu, *times, batch, name, problem.layer_of[task] + 1, task >= problem.layers)


def _transfers(layout: Layout, window: tuple[int, int], first: int | None) -> Iterator[Activity]:
    problem = layout.problem
    for row in layout.rows:
        for edge in layout.cut_edges:
            length = layout.edge_times[edge - 1]
            if edge not in layout.transfers[row]:
                continue
            for batch, at in _copies(layout, row, layout.transfers[row][edge], length, window, first):
                name, layer = edge_name(problem, edge), problem.layer_of[edge - 1] + 1
                yield Activity(
                    _link(layout, edge), *_times(layout, at, length), batch, name, layer, edge > problem.layers
                )


def _times(layout: Layout, start: int, length: int) -> tuple[float, float]:
    return layout.time(start), plain(Fraction(start + length, layout.ticks_per_unit))


def _copies(
    layout: Layout, row: int, start: int, length: int, window: tuple[int, int], first: int | None
) -> Iterator[tuple[int, int]]:
    """Number and start of each batch of a row whose copy overlaps the window."""
    begin, end = window
    copy = (begin - start - length) // layout.period + 1
    while length and start + copy * layout.period < end:
        batch = row + copy * len(layout.starts)
        if first is None or batch >= first:
            yield batch, start + copy * layout.period
        copy += 1
