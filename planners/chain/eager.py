"""PipeDream's way to plan: partitions for a grid of memory targets and batches in flight, run eagerly, measured after.

The grid is ours (the paper does not print one): every number of batches in flight from 1 to two more than GPUs, and
memory targets in equal ratios between the least estimate that any partition meets and the one that all meet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction

from ...instances.base.amounts import fits
from ...instances.chain.names import plain
from ...instances.chain.plan import PatternPlan
from ...instances.chain.problem import ChainProblem
from .contiguous import Stages, best_contiguous, pipedream_partition
from .measure import measured_period, peak_memory, repeated
from .simulation import simulate

BATCHES = 500
TARGETS = 12
EXTRA_IN_FLIGHT = 2


@dataclass(frozen=True, slots=True)
class Measured:
    """One run: what was asked for, and what was measured."""

    target: float
    in_flight: int
    borders: tuple[int, ...]
    period: float
    """Per batch."""
    exact_peak: Fraction
    """Of the fullest GPU, in bytes."""
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
    """One run for every partition and number of batches in flight that the grid comes to."""
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
    """From the least that PipeDream's estimate can be at this many versions to that of all layers on one GPU."""
    stages, layers = Stages(problem), problem.layers
    estimates = [Fraction(versions * stages.estimate(i, i + 1), stages.parts) for i in range(layers)]
    most = float(sum(estimates))
    least = max(float(max(estimates)), most / problem.gpus)
    if least <= 0:
        return [most]
    return [least * (most / least) ** (step / (TARGETS - 1)) for step in range(TARGETS)]


def pareto(points: list[Measured]) -> list[Measured]:
    """Those that no other run beats in peak memory and period, by growing memory."""
    front: list[Measured] = []
    for point in sorted(points, key=lambda point: (point.peak, point.period)):
        if not front or point.period < front[-1].period:
            front.append(point)
    return front


def memory_levels(problem: ChainProblem) -> tuple[float, float]:
    """Peaks of the load-optimal contiguous partition, run eagerly with 1 and with two more batches than GPUs."""
    borders = pipedream_partition(problem)
    assert borders is not None, "without a target some partition is always found"
    counts = (1, problem.gpus + EXTRA_IN_FLIGHT)
    least, most = (run_eagerly(problem, borders, in_flight, 0.0).peak for in_flight in counts)
    return least, most


def scheduled(problem: ChainProblem, borders: tuple[int, ...]) -> PatternPlan | None:
    """The best pattern of these stages within the memory, for runs that have none of their own."""
    return best_contiguous(problem, borders)
