"""What a trace shows a posteriori: the period without warm-up and drain, and the peak memory of each GPU.

The memory is counted as the specification of the problem says, in the problem's own mode, from the trace alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction

from ...instances.base.amounts import whole_amounts
from ...instances.chain.plan import PatternPlan
from .simulation import Trace

WARM_SHARE, DRAIN_SHARE = 0.5, 0.9
"""The period is measured between these shares of the batches: 250 and 450 of 500."""
LONGEST_CYCLE = 12
"""Batches per period of the patterns that are looked for in a trace."""
MOST_HELD = 4
"""Copies of a tensor that one batch counts at a time, at most: kept, read and written, and in a slot."""
EQUAL = 1e-9
"""Relative difference of times that count as the same."""


def measured_period(trace: Trace) -> float:
    """Time per batch between two completions, far from warm-up and drain."""
    completed = trace.completed
    first, last = int(WARM_SHARE * len(completed)), int(DRAIN_SHARE * len(completed))
    if last <= first:
        first, last = 0, len(completed) - 1
    return (completed[last] - completed[first]) / (last - first)


def peak_memory(trace: Trace) -> list[Fraction]:
    """The largest memory that each GPU holds at any time of the trace, in bytes.

    Sizes are counted in whole units, so that their sums are exact; where they have too many digits for that, units
    are so small that hardly anything is lost.
    """
    problem = trace.problem
    sizes = (*problem.held_weights, *problem.held_activations)
    whole = whole_amounts(sizes, (), copies=MOST_HELD * len(trace.starts))
    unit = next((size / number for size, number in zip(sizes, whole.amounts, strict=True) if number), Fraction(0))
    weights, activations = whole.amounts[: problem.layers], whole.amounts[problem.layers :]
    gpus = range(max(trace.allocation) + 1)
    return [unit * int(_peak(trace, gpu, weights, activations)) for gpu in gpus]


def _peak(trace: Trace, gpu: int, weights: Sequence[int], sizes: Sequence[int]) -> float:
    import numpy as np

    standing = _standing(trace, gpu, weights, sizes)
    found = _intervals(trace, gpu, sizes)
    intervals = [(start, end, size) for start, end, size in found if size and end > start]
    if not intervals:
        return standing
    table = np.array(intervals)
    times = np.concatenate([table[:, 1], table[:, 0]])
    changes = np.concatenate([-table[:, 2], table[:, 2]])
    order = np.argsort(times, kind="stable")  # what ends leaves before what begins at the same time
    return standing + max(0.0, float(np.cumsum(changes[order]).max()))


def _standing(trace: Trace, gpu: int, weights: Sequence[int], sizes: Sequence[int]) -> int:
    """Weights, and the reserved slots of what crosses the GPU's border."""
    total = sum(w for w, g in zip(weights, trace.allocation, strict=True) if g == gpu)
    if trace.problem.memory_mode == "reserved":
        total += sum(sizes[edge] for edge in _crossing(trace, gpu))
    return total


def _crossing(trace: Trace, gpu: int) -> list[int]:
    problem, on = trace.problem, trace.allocation
    ends = {e: (on[problem.layer_of[e - 1]], on[problem.layer_of[e]]) for e in problem.remote_edges}
    return [e for e, (a, b) in ends.items() if a != b and gpu in (a, b)]


def _intervals(trace: Trace, gpu: int, sizes: Sequence[int]) -> Iterator[tuple[float, float, float]]:
    """(start, end, size) of everything that lives on the GPU for a while."""
    problem = trace.problem
    if problem.memory_mode == "weights":
        return
    layers = [layer for layer, g in enumerate(trace.allocation) if g == gpu]
    durations, last = problem.durations, problem.tasks
    for row in trace.starts:
        for layer in layers:
            back = last - 1 - layer
            yield row[layer], row[back] + durations[back], sizes[layer]
    if problem.memory_mode == "inputs":
        return
    for row, sent in zip(trace.starts, trace.transfers, strict=True):
        for layer in layers:
            back = last - 1 - layer
            yield row[layer], row[layer] + durations[layer], sizes[layer + 1]
            yield row[back], row[back] + durations[back], sizes[back] + sizes[back + 1]
        yield from _in_between(trace, gpu, row, sent, sizes)


def _in_between(
    trace: Trace, gpu: int, row: list[float], sent: dict[int, float], sizes: Sequence[int]
) -> Iterator[tuple[float, float, float]]:
    """Tensors between two tasks of the GPU; and those that cross its border, where slots are not reserved."""
    problem, on = trace.problem, trace.allocation
    for edge in range(1, problem.tasks):
        here = on[problem.layer_of[edge - 1]] == gpu, on[problem.layer_of[edge]] == gpu
        size, ended = sizes[edge], row[edge - 1] + problem.durations[edge - 1]
        if all(here):
            yield ended, row[edge], size
        elif problem.memory_mode == "strict" and here[0]:
            yield ended, sent[edge] + problem.edge_times[edge - 1], size
        elif problem.memory_mode == "strict" and here[1]:
            yield sent[edge], row[edge], size


def repeated(trace: Trace) -> PatternPlan | None:
    """The pattern that the trace falls into: k batches after which everything comes again, k as small as possible."""
    first, last = int(WARM_SHARE * len(trace.starts)), int(DRAIN_SHARE * len(trace.starts))
    for cycle in range(1, min(LONGEST_CYCLE, (last - first) // 2) + 1):
        period = trace.starts[first + cycle][0] - trace.starts[first][0]
        if all(_same(trace, batch, cycle, period) for batch in range(first, last - cycle)):
            rows = range(first, first + cycle)
            origin = trace.starts[first][0]
            return PatternPlan(
                period=period,
                allocation=trace.allocation,
                starts=tuple(tuple(time - origin for time in trace.starts[b]) for b in rows),
                transfers=tuple({e: t - origin for e, t in sorted(trace.transfers[b].items())} for b in rows),
            )
    return None


def _same(trace: Trace, batch: int, cycle: int, period: float) -> bool:
    slack = EQUAL * trace.starts[batch + cycle][-1]
    pairs = zip(trace.starts[batch], trace.starts[batch + cycle], strict=True)
    if any(abs(b - a - period) > slack for a, b in pairs):
        return False
    sent, later = trace.transfers[batch], trace.transfers[batch + cycle]
    return all(abs(later[edge] - time - period) <= slack for edge, time in sent.items())
