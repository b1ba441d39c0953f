"""A pattern on a clock of whole ticks: every time exact, every task, transfer and slot with its place.

Times are the decimals that they are written as, in whole numbers of ticks as short as all times of problem and plan
need. The referee judges what is laid out here, and pictures draw it. Plans in numbers of few digits are laid out
exactly, in whatever unit they are; where a time has as many digits as a floating-point number holds, it was rounded
somewhere, and times that differ by less than `TOLERANCE` of the period count as equal. That is far below what a proof
may leave open, so a plan never seems better than it is.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

from ..base.amounts import as_written
from ..base.errors import PipeplanError, show
from ..base.quantities import several
from .plan import PatternPlan
from .problem import ChainProblem, plain, task_name

# Share of the period by which rounded times may differ and still count as equal.
TOLERANCE = Fraction(1, 10**9)

# A period of more ticks shows that some time was rounded.
EXACT_TICKS = 10**12

# A plan in which one batch takes more periods is not laid out.
MAX_PERIODS = 10_000

Number = float | Fraction


class NotAPatternError(PipeplanError, ValueError):
    """The plan has not one GPU for each layer and one start for each task, so there is nothing to lay out."""


@dataclass(frozen=True, slots=True)
class Span:
    """What happens once per period: from `start` to `end` (excluded), for batch `row` of the pattern."""

    start: int
    end: int
    label: str
    row: int

    @property
    def length(self) -> int:
        return self.end - self.start


@dataclass(frozen=True)
class Layout:
    """A pattern in whole ticks. As in the problem, task t is at position t - 1, and edges have their numbers."""

    problem: ChainProblem
    allocation: tuple[int, ...]
    ticks_per_unit: int
    period: int
    durations: tuple[int, ...]
    edge_times: tuple[int, ...]
    starts: tuple[tuple[int, ...], ...]
    transfers: tuple[Mapping[int, int], ...]
    tolerance: int

    @property
    def digits(self) -> int:
        """The period in the largest unit of which all times are multiples: large where times have many digits."""
        starts = (time for row in self.starts for time in row)
        moving = (time for row in self.transfers for time in row.values())
        return self.period // math.gcd(self.period, *self.durations, *self.edge_times, *starts, *moving)

    @property
    def rows(self) -> range:
        return range(len(self.starts))

    def time(self, ticks: int) -> float:
        """A time in the problem's unit: a whole number where it is one."""
        return plain(Fraction(ticks, self.ticks_per_unit))

    # ---- places ----------------------------------------------------------------------------------------

    def gpu(self, task: int) -> int:
        return self.allocation[self.problem.layer_of[task]]

    def is_remote(self, edge: int) -> bool:
        return self.gpu(edge - 1) != self.gpu(edge)

    @cached_property
    def cut_edges(self) -> tuple[int, ...]:
        """The edges whose two tasks are on different GPUs."""
        return tuple(e for e in self.problem.remote_edges if self.is_remote(e))

    def link(self, edge: int) -> tuple[int, int]:
        """The GPUs at the ends of an edge's link, in the order of the transfer where each direction has its own."""
        ends = (self.gpu(edge - 1), self.gpu(edge))
        return ends if self.problem.duplex == "full" else (min(ends), max(ends))

    @property
    def links(self) -> list[tuple[int, int]]:
        """The links that transfers use, each by the numbers of its GPUs."""
        return sorted({self.link(edge) for edge in self.cut_edges})

    # ---- times -----------------------------------------------------------------------------------------

    def end(self, row: int, task: int) -> int:
        return self.starts[row][task] + self.durations[task]

    def arrival(self, row: int, edge: int) -> int:
        """When the transfer of a cut edge ends."""
        return self.transfers[row][edge] + self.edge_times[edge - 1]

    def tasks_on(self, gpu: int) -> list[int]:
        return [task for task in range(len(self.durations)) if self.gpu(task) == gpu]

    def gpu_spans(self, gpu: int) -> list[Span]:
        """What the GPU computes."""
        return [
            Span(self.starts[row][task], self.end(row, task), task_name(self.problem, task), row)
            for row in self.rows
            for task in self.tasks_on(gpu)
        ]

    def link_spans(self, link: tuple[int, int]) -> list[Span]:
        """What the link moves; transfers without a start are left out."""
        return [
            Span(self.transfers[row][edge], self.arrival(row, edge), edge_name(self.problem, edge), row)
            for row in self.rows
            for edge in self.cut_edges
            if self.link(edge) == link and edge in self.transfers[row]
        ]

    def slot_spans(self, edge: int) -> dict[str, list[Span]]:
        """When the slot of a cut edge is needed at either side: from its filling until nobody reads it any more."""
        name = edge_name(self.problem, edge)
        rows = [row for row in self.rows if edge in self.transfers[row]]
        return {
            "sender": [Span(self.end(row, edge - 1), self.arrival(row, edge), name, row) for row in rows],
            "receiver": [Span(self.transfers[row][edge], self.starts[row][edge], name, row) for row in rows],
        }

    def overlaps(self, spans: Iterable[Span]) -> Iterator[tuple[Span, Span, int]]:
        """Neighbours in the period that overlap, or two copies of one span, and for how many ticks; there are some
        wherever any two spans do."""
        ring = sorted((s for s in spans if s.length > 0), key=lambda s: (s.start % self.period, s.length))
        for i, span in enumerate(ring):
            following = ring[(i + 1) % len(ring)]
            gap = (following.start - span.start) % self.period
            if i + 1 == len(ring) and gap == 0:
                gap = self.period
            if span.length - gap > self.tolerance:
                yield span, following, span.length - gap


# ---- names and numbers ---------------------------------------------------------------------------------


def edge_name(problem: ChainProblem, edge: int) -> str:
    return f"{task_name(problem, edge - 1)} -> {task_name(problem, edge)}"


def common_denominator(values: Iterable[Fraction]) -> int:
    return math.lcm(1, *(value.denominator for value in values))


# ---- laying out ----------------------------------------------------------------------------------------


def lay_out(problem: ChainProblem, plan: PatternPlan) -> Layout:
    """The plan on its clock; raises `NotAPatternError` where its shape is not that of the problem."""
    fault = next(shape_faults(problem, plan), None)
    if fault is not None:
        raise NotAPatternError(fault)
    durations, edge_times = _fractions(problem.durations), _fractions(problem.edge_times)
    starts = [_fractions(row) for row in plan.starts]
    transfers = [dict(zip(row, _fractions(row.values()), strict=True)) for row in plan.transfers]
    period = as_written(plan.period)
    moving = (time for row in transfers for time in row.values())
    ticks = common_denominator([period, *durations, *edge_times, *(t for row in starts for t in row), *moving])
    layout = Layout(
        problem=problem,
        allocation=plan.allocation,
        ticks_per_unit=ticks,
        period=int(period * ticks),
        durations=_whole(durations, ticks),
        edge_times=_whole(edge_times, ticks),
        starts=tuple(_whole(row, ticks) for row in starts),
        transfers=tuple({edge: int(time * ticks) for edge, time in row.items()} for row in transfers),
        tolerance=int(period * ticks * TOLERANCE),
    )
    return replace(layout, tolerance=0) if layout.digits <= EXACT_TICKS else layout


def _fractions(values: Iterable[Number]) -> list[Fraction]:
    return [as_written(value) for value in values]


def _whole(values: Sequence[Fraction], ticks: int) -> tuple[int, ...]:
    return tuple(int(value * ticks) for value in values)


def shape_faults(problem: ChainProblem, plan: PatternPlan) -> Iterator[str]:
    """Sentences on what keeps the plan from being laid out."""
    if not _is_finite(plan.period) or plan.period <= 0:
        yield f"The period is {show(plan.period)}, not a positive number."
    if len(plan.allocation) != problem.layers:
        yield f"The allocation has {several(len(plan.allocation), 'entry')} for {several(problem.layers, 'layer')}."
    if not plan.starts:
        yield "The plan has no row of starts."
    if len(plan.transfers) != len(plan.starts):
        yield f"The plan has {several(len(plan.starts), 'row')} of starts and {len(plan.transfers)} of transfers."
    for r, row in enumerate(plan.starts):
        if len(row) != problem.tasks:
            yield f"Row {r} of the starts has {several(len(row), 'entry')} for {problem.tasks} tasks."
    times = [time for row in (*plan.starts, *(row.values() for row in plan.transfers)) for time in row]
    odd = next((time for time in times if not _is_finite(time)), None)
    if odd is not None:
        yield f"A start is {show(odd)}, not a finite number."
    elif times and _is_finite(plan.period) and plan.period > 0:
        span = as_written(max(times)) - as_written(min(times)) + as_written(max(problem.durations))
        periods = span / as_written(plan.period)
        if periods > MAX_PERIODS:
            yield f"One batch takes {float(periods):.6g} periods, more than the {MAX_PERIODS} that can be laid out."


def _is_finite(value: Number) -> bool:
    return isinstance(value, (int, float, Fraction)) and -math.inf < value < math.inf


# ---- the starts of tasks, unrolled -------------------------------------------------------------------
# A pattern unrolled over a stretch of time: everything that GPUs and links do in it, batch by batch.


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
    activities = [
        Activity(resource, layout.time(at), layout.time(at + span.length), batch, span.label, layer, backward)
        for resource, span, layer, backward in _work(layout)
        for batch, at in _copies(layout, span, window, first_batch)
    ]
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


def _work(layout: Layout) -> Iterator[tuple[str, Span, int, bool]]:
    """Each task and transfer of the pattern with its resource, the number of its layer, and if it goes backward."""
    problem = layout.problem
    for row in layout.rows:
        for task, start in enumerate(layout.starts[row]):
            span = Span(start, layout.end(row, task), task_name(problem, task), row)
            yield f"gpu{layout.gpu(task)}", span, problem.layer_of[task] + 1, task >= problem.layers
        for edge in layout.cut_edges:
            if edge in layout.transfers[row]:
                span = Span(layout.transfers[row][edge], layout.arrival(row, edge), edge_name(problem, edge), row)
                yield _link(layout, edge), span, problem.layer_of[edge - 1] + 1, edge > problem.layers


def _copies(layout: Layout, span: Span, window: tuple[int, int], first: int | None) -> Iterator[tuple[int, int]]:
    """Number and start of each batch whose copy of the span overlaps the window."""
    begin, end = window
    copy = (begin - span.end) // layout.period + 1
    while span.length and span.start + copy * layout.period < end:
        batch = span.row + copy * len(layout.starts)
        if first is None or batch >= first:
            yield batch, span.start + copy * layout.period
        copy += 1
