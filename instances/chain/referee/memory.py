"""What a GPU holds at every instant of a period: all batches laid out, every tensor from its birth to its death.

The terms: `weights` always; `kept` activations from the start of a layer's forward task to the end of its backward
task; what is `current` only while a task runs (its output, a gradient that it reads); `direct` tensors between two
tasks of this GPU; `buffers` for tensors that cross the GPU's border. Births and deaths are half open.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction

from ..problem import Terms, plain
from .layout import Layout, common_denominator

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
