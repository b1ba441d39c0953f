"""The planners to compare with: PipeDream run eagerly, the best contiguous stages, GPipe, and synchronous 1F1B."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

from ...instances.base.amounts import fits, whole_amounts
from ...instances.base.result import Stop
from ...instances.chain.names import plain
from ...instances.chain.plan import PatternPlan
from ...instances.chain.problem import ChainProblem
from ...instances.physics.tolerances import SAME
from ...instances.registry import violations_of
from ..contract import Outcome, Request
from .contiguous import Stages, best_contiguous, pipedream_partition
from .simulation import Trace, simulate

# PipeDream's way to plan: partitions for a grid of memory targets and batches in flight, run eagerly, then measured.
# The grid is ours (the paper does not print one): every number of batches in flight from 1 to two more than GPUs, and
# memory targets in equal ratios between a lower bound on the estimate and the estimate of all layers on one GPU.

# Batches of one run.
BATCHES = 500
# Memory targets for each number of batches in flight.
TARGETS = 12
# Batches in flight beyond the number of GPUs.
EXTRA_IN_FLIGHT = 2


@dataclass(frozen=True, slots=True)
class Measured:
    """One run: its memory target, batches in flight and borders, and what was measured."""

    target: float
    in_flight: int
    borders: tuple[int, ...]
    period: float
    """Time per batch in the problem's unit."""
    exact_peak: Fraction
    """Peak memory of the fullest GPU, in bytes."""
    plan: PatternPlan | None
    """The pattern that the run fell into; None where it did not within its batches."""

    @property
    def peak(self) -> float:
        return plain(self.exact_peak)

    def fits(self, memory: float | None) -> bool:
        return fits([self.exact_peak], memory)


def run_eagerly(problem: ChainProblem, borders: list[int], in_flight: int, target: float) -> Measured:
    trace = simulate(problem, borders, BATCHES, in_flight, "eager")
    return Measured(
        target, in_flight, tuple(borders), measured_period(trace), max(peak_memory(trace)), repeated(trace)
    )


def pipedream_points(problem: ChainProblem, stop: Callable[[], bool] = lambda: False) -> Iterator[Measured]:
    """One run for every pair of a partition and a number of batches in flight to which the grid leads."""
    seen: set[tuple[tuple[int, ...], int]] = set()
    for in_flight in range(1, problem.gpus + EXTRA_IN_FLIGHT + 1):
        for target in _targets(problem, in_flight):
            borders = pipedream_partition(problem, target, in_flight)
            if stop():
                return
            if borders is None or (tuple(borders), in_flight) in seen:
                continue
            seen.add((tuple(borders), in_flight))
            yield run_eagerly(problem, borders, in_flight, target)


def _targets(problem: ChainProblem, versions: int) -> list[float]:
    """Targets from a lower bound on PipeDream's estimate at this many versions to the estimate of all layers on one
    GPU."""
    stages, layers = Stages(problem), problem.layers
    estimates = [Fraction(versions * stages.estimate(i, i + 1), stages.parts) for i in range(layers)]
    most = float(sum(estimates))
    least = max(float(max(estimates)), most / problem.gpus)
    if least <= 0:
        return [most]
    return [least * (most / least) ** (step / (TARGETS - 1)) for step in range(TARGETS)]


def pareto(points: list[Measured]) -> list[Measured]:
    """The runs that no other run beats in both peak memory and period, by growing memory."""
    front: list[Measured] = []
    for point in sorted(points, key=lambda point: (point.peak, point.period)):
        if not front or point.period < front[-1].period:
            front.append(point)
    return front


def memory_levels(problem: ChainProblem) -> tuple[float, float]:
    """Peaks of the load-optimal contiguous partition, run eagerly with 1 batch in flight and with 2 more than GPUs."""
    borders = pipedream_partition(problem)
    assert borders is not None, "without a target some partition is always found"
    counts = (1, problem.gpus + EXTRA_IN_FLIGHT)
    least, most = (run_eagerly(problem, borders, in_flight, 0.0).peak for in_flight in counts)
    return least, most


# ---- What a trace shows a posteriori: the period without warm-up and drain, and the peak memory of each GPU ----
# The memory is counted as the specification of the problem says, in the problem's own mode, from the trace alone.

# The period is measured between these shares of the batches: 250 and 450 of 500.
WARM_SHARE, DRAIN_SHARE = 0.5, 0.9
# Batches per period of the longest patterns that are looked for in a trace.
LONGEST_CYCLE = 12
# Copies of a tensor that one batch counts at a time, at most: kept, read and written, and in a slot.
MOST_HELD = 4


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
    """The largest sum, at any time, of what is always there and of what lives for a while."""
    import numpy as np

    standing = _standing(trace, gpu, weights, sizes)
    lives = _intervals(trace, gpu, sizes)
    intervals = [(start, end, size) for start, end, size in lives if size and end > start]
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
    """The edges between this GPU and others."""
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
    slack = SAME * trace.starts[batch + cycle][-1]
    pairs = zip(trace.starts[batch], trace.starts[batch + cycle], strict=True)
    if any(abs(b - a - period) > slack for a, b in pairs):
        return False
    sent, later = trace.transfers[batch], trace.transfers[batch + cycle]
    return all(abs(later[edge] - time - period) <= slack for edge, time in sent.items())


# Batches per GPU between two flushes up to which all numbers are tried, where the user gives none.
AUTO_FLUSH = 4


class _Best:
    """Keeps and posts the best plan that the referee accepts."""

    def __init__(self, request: Request) -> None:
        self.request = request
        self.problem: ChainProblem = request.problem
        self.plan: PatternPlan | None = None
        self.value: float | None = None

    def offer(self, plan: PatternPlan | None) -> bool:
        """Post the plan if it is better than all before and the referee accepts it; return whether it was."""
        if plan is None:
            return False
        value = plan.period / plan.batches_per_period
        if (self.value is not None and value >= self.value) or violations_of(self.problem, plan):
            return False
        self.plan, self.value = plan, value
        self.request.board.post(plan, value)
        return True

    def outcome(self, *messages: str) -> Outcome:
        stop = Stop.TIME if self.request.out_of_time() else Stop.COMPLETED
        if self.plan is None:
            messages = (*messages, "none of the plans that were tried fits the memory")
        return Outcome(stop, self.plan, self.value, messages=messages)


class PipeDreamEager:
    def plan(self, request: Request) -> Outcome:
        """The measured run of least period that fits, as the pattern that it fell into."""
        best = _Best(request)
        points = list(pipedream_points(best.problem, request.out_of_time))
        messages: list[str] = []
        for point in sorted(points, key=lambda point: point.period):
            if point.fits(best.problem.memory_bytes) and self._take(point, best, messages):
                break
        return best.outcome(f"{len(points)} runs were measured", *messages)

    def _take(self, point: Measured, best: _Best, messages: list[str]) -> bool:
        """Offer the pattern of a run, or the best pattern of its stages where it did not become periodic;
        return whether it is the best so far."""
        if point.plan is not None:
            return best.offer(point.plan)
        messages.append("the best run did not become periodic: its stages were given their best pattern")
        return best.offer(best_contiguous(best.problem, point.borders))


class Contiguous:
    def plan(self, request: Request) -> Outcome:
        best = _Best(request)
        best.offer(best_contiguous(best.problem))
        return best.outcome()


@dataclass(frozen=True)
class Flushing:
    """GPipe or synchronous 1F1B: some batches run through the pipeline, and the next start once it is empty."""

    policy: str

    def plan(self, request: Request) -> Outcome:
        best = _Best(request)
        for plan in self._plans(best.problem, request.options.get("batches_per_flush")):
            if request.out_of_time():
                break
            best.offer(plan)
        return best.outcome()

    def _plans(self, problem: ChainProblem, batches_between: int | None) -> Iterator[PatternPlan]:
        """The load-optimal stages with as many batches between flushes as asked, or with all numbers up to some."""
        borders = pipedream_partition(problem)
        assert borders is not None
        for batches in [batches_between] if batches_between else range(1, AUTO_FLUSH * problem.gpus + 1):
            trace = simulate(problem, borders, batches, batches, self.policy)
            if not fits([max(peak_memory(trace))], problem.memory_bytes):
                continue
            yield PatternPlan(
                period=max(trace.completed),
                allocation=trace.allocation,
                starts=tuple(map(tuple, trace.starts)),
                transfers=tuple(trace.transfers),
            )


PIPEDREAM = PipeDreamEager()
CONTIGUOUS = Contiguous()
GPIPE = Flushing("gpipe")
SYNCHRONOUS = Flushing("flush")
