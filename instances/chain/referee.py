"""The referee of patterns: recomputes what a plan costs and says what is wrong with it; believes nothing stored.

`layout.py` puts the pattern on a clock of whole ticks. Here are what its GPUs hold, the rules that it may break, and
what it costs. At the end are the rules by which patterns are judged: these, and the allocation where the user has
given one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from ..base.amounts import as_written, in_digits
from ..base.errors import Violation
from ..base.fields import plain_fields
from ..base.kind import Rules
from ..base.quantities import of_limit
from .layout import Layout, common_denominator, edge_name, lay_out, shape_faults
from .plan import PatternPlan, canonical, stored_allocation
from .problem import ChainProblem, Terms, plain, task_name

# ---- memory ------------------------------------------------------------------------------------------
# What a GPU holds at every instant of a period: all batches laid out, every tensor from its birth to its death.
#
# The terms: `weights` always; `kept` activations from the start of a layer's forward task to the end of its backward
# task; what is `current` only while a task runs (its output, a gradient that it reads); `direct` tensors between two
# tasks of this GPU; `buffers` for tensors that cross the GPU's border. Births and deaths are half open.

TERMS = ("weights", "kept", "current", "direct", "buffers")


@dataclass(frozen=True, slots=True)
class Instant:
    """What a GPU holds from `time` (in the problem's unit, since the start of the period) to the next instant."""

    time: float
    bytes: float
    terms: Terms


@dataclass(frozen=True, slots=True)
class Profile:
    """Memory of one GPU over one period in steady state."""

    gpu: int
    instants: tuple[Instant, ...]
    exact_peak: Fraction

    @property
    def peak(self) -> Instant:
        """The first instant with the most bytes."""
        return max(self.instants, key=lambda instant: instant.bytes)


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor that is alive from `start` to `end` (excluded), once per period."""

    start: int
    end: int
    size: int
    term: str


def memory_profile(layout: Layout, gpu: int) -> Profile:
    """Memory of a GPU over one period: every instant at which what it holds changes."""
    sizes = _Sizes.of(layout)
    standing = dict.fromkeys(TERMS, 0)
    standing["weights"] = sum(sizes.weights[i] for i, at in enumerate(layout.allocation) if at == gpu)
    if layout.problem.memory_mode == "reserved":
        standing["buffers"] = sum(_border_sizes(layout, sizes, gpu))
    tensors = list(_tensors(layout, sizes, gpu))
    instants, peak = [], 0
    for ticks, held in _sweep(layout, tensors, standing):
        total = sum(held.values())
        peak = max(peak, total)
        terms = Terms(**{term: plain(Fraction(size, sizes.per_byte)) for term, size in held.items()})
        instants.append(Instant(layout.time(ticks), plain(Fraction(total, sizes.per_byte)), terms))
    return Profile(gpu, tuple(instants), Fraction(peak, sizes.per_byte))


@dataclass(frozen=True, slots=True)
class _Sizes:
    """All sizes in whole parts of a byte, so that sums are exact."""

    activations: tuple[int, ...]
    weights: tuple[int, ...]
    per_byte: int

    @classmethod
    def of(cls, layout: Layout) -> _Sizes:
        problem = layout.problem
        weights, activations = problem.held_weights, problem.held_activations
        per_byte = common_denominator([*weights, *activations])
        return cls(
            tuple(int(size * per_byte) for size in activations),
            tuple(int(size * per_byte) for size in weights),
            per_byte,
        )


def _border_sizes(layout: Layout, sizes: _Sizes, gpu: int) -> Iterator[int]:
    """Sizes of the slots of a GPU, one for each edge with exactly one end on it."""
    for edge in layout.cut_edges:
        if gpu in (layout.gpu(edge - 1), layout.gpu(edge)):
            yield sizes.activations[edge]


def _tensors(layout: Layout, sizes: _Sizes, gpu: int) -> Iterator[Tensor]:
    mode = layout.problem.memory_mode
    if mode == "weights":
        return
    yield from _kept(layout, sizes, gpu)
    if mode == "inputs":
        return
    yield from _current(layout, sizes, gpu)
    yield from _direct(layout, sizes, gpu)
    if mode == "strict":
        yield from _in_slots(layout, sizes, gpu)


def _kept(layout: Layout, sizes: _Sizes, gpu: int) -> Iterator[Tensor]:
    for layer, at in enumerate(layout.allocation):
        backward = len(layout.durations) - 1 - layer
        for row in layout.rows:
            if at == gpu:
                yield Tensor(layout.starts[row][layer], layout.end(row, backward), sizes.activations[layer], "kept")


def _current(layout: Layout, sizes: _Sizes, gpu: int) -> Iterator[Tensor]:
    """What a task holds only while it runs: its output and, in a backward task, the gradient that it reads."""
    for task in layout.tasks_on(gpu):
        is_backward = task >= layout.problem.layers
        size = sizes.activations[task + 1] + (sizes.activations[task] if is_backward else 0)
        for row in layout.rows:
            yield Tensor(layout.starts[row][task], layout.end(row, task), size, "current")


def _direct(layout: Layout, sizes: _Sizes, gpu: int) -> Iterator[Tensor]:
    for edge in range(1, len(layout.durations)):
        if layout.gpu(edge - 1) == gpu and not layout.is_remote(edge):
            for row in layout.rows:
                end = layout.starts[row][edge]
                yield Tensor(layout.end(row, edge - 1), end, sizes.activations[edge], "direct")


def _in_slots(layout: Layout, sizes: _Sizes, gpu: int) -> Iterator[Tensor]:
    for edge in layout.cut_edges:
        spans = layout.slot_spans(edge)
        for side, at in (("sender", layout.gpu(edge - 1)), ("receiver", layout.gpu(edge))):
            if at == gpu:
                for span in spans[side]:
                    yield Tensor(span.start, span.end, sizes.activations[edge], "buffers")


# ---- the sweep -----------------------------------------------------------------------------------------


def _sweep(
    layout: Layout, tensors: Iterable[Tensor], standing: dict[str, int]
) -> Iterator[tuple[int, dict[str, int]]]:
    """Position in the period and bytes by term, at its start and wherever they change.

    All copies that touch one window are laid out; the window lies at time 0 with copies of batches before and
    after batch 0, so it shows the pipeline after it has filled and before it drains.
    """
    changes: dict[int, dict[str, int]] = {0: dict(standing)}
    for tensor in tensors:
        for start, end in unrolled(tensor.start, tensor.end - _rounding(layout), layout.period):
            _add(changes, max(start, 0), tensor.term, tensor.size)
            if end < layout.period:
                _add(changes, end, tensor.term, -tensor.size)
    held = dict.fromkeys(TERMS, 0)
    for ticks in sorted(changes):
        for term, change in changes[ticks].items():
            held[term] += change
        yield ticks, dict(held)


def unrolled(start: int, end: int, period: int) -> Iterator[tuple[int, int]]:
    """The copies of a span, a period apart, that touch the window from 0 to `period`."""
    if end <= start:
        return
    copy = -(end // period) - 1
    while start + copy * period < period:
        if end + copy * period > 0:
            yield start + copy * period, end + copy * period
        copy += 1


def _add(changes: dict[int, dict[str, int]], ticks: int, term: str, size: int) -> None:
    at = changes.setdefault(ticks, {})
    at[term] = at.get(term, 0) + size


def _rounding(layout: Layout) -> int:
    """Ticks by which a tensor dies earlier, so that rounded times that should meet do not overlap; less than
    any task takes."""
    lengths = [length for length in (*layout.durations, *layout.edge_times) if length > 0]
    return min([layout.tolerance, *(length // 2 for length in lengths)])


def most_at_once(layout: Layout, spans: Iterable[tuple[int, int]]) -> int:
    """The largest number of spans, copies included, that are under way at one instant."""
    tensors = [Tensor(start, end, 1, "kept") for start, end in spans]
    return max(held["kept"] for _, held in _sweep(layout, tensors, {}))


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
    for *both, ticks in layout.overlaps(spans):
        first, second = (f"{span.label}{_of(layout, span.row)}" for span in both)
        yield Violation(
            rule,
            f"{where} {first} and {second}, some periods apart, overlap for {layout.time(ticks):.6g} "
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
    for overrun in overruns(layout):
        yield Violation(
            "buffer-overrun",
            f"The {overrun.side}'s slot of edge {overrun.edge} ({overrun.name}) is needed for "
            f"{overrun.excess:.6g} longer than until the next batch claims it.",
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
    found = []
    for edge in layout.cut_edges:
        name = edge_name(layout.problem, edge)
        for gpu, (side, spans) in zip((edge - 1, edge), layout.slot_spans(edge).items(), strict=True):
            excess = max((ticks for *_, ticks in layout.overlaps(spans)), default=0)
            if excess:
                found.append(Overrun(edge, name, side, layout.gpu(gpu), layout.time(excess)))
    return tuple(found)


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


@dataclass(frozen=True, slots=True)
class PatternRules:
    """Patterns are judged by their period per batch."""

    allocation: tuple[int, ...] | None = None
    """The GPU of each layer where the allocation is given; None where it is free."""

    objective = "period"
    plan_type = PatternPlan

    def violations(self, problem: ChainProblem, plan: PatternPlan) -> tuple[Violation, ...]:
        violations, given = verify_pattern(problem, plan), self.allocation
        if given is None or canonical(plan.allocation) == canonical(given):
            return violations
        fault = f"Layers share GPUs as {plan.allocation} says, not as {given}."
        return (*violations, Violation("allocation", fault))

    def value(self, problem: ChainProblem, plan: PatternPlan) -> float:
        return evaluate_pattern(problem, plan).period_per_batch

    def evaluation(self, problem: ChainProblem, plan: PatternPlan) -> PatternEvaluation:
        return evaluate_pattern(problem, plan)

    def to_options(self) -> dict[str, Any]:
        return {} if self.allocation is None else {"allocation": list(self.allocation)}


def rules_of(problem: ChainProblem, options: Mapping[str, Any]) -> Rules:
    return PatternRules(stored_allocation(options.get("allocation")))
