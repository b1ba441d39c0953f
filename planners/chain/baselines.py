"""The planners to compare with: PipeDream run eagerly, the best contiguous stages, GPipe, and synchronous 1F1B."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ...instances.base.amounts import fits
from ...instances.base.result import Stop
from ...instances.chain.plan import PatternPlan
from ...instances.chain.problem import ChainProblem
from ...instances.verdict import violations_of
from ..contract import Outcome, Request
from .contiguous import best_contiguous, pipedream_partition
from .eager import Measured, pipedream_points, scheduled
from .measure import peak_memory
from .simulation import simulate

AUTO_FLUSH = 4
"""Where no number is given, up to this many batches per GPU are tried between two flushes."""


class _Best:
    """Keeps and posts the best plan that the referee accepts."""

    def __init__(self, request: Request) -> None:
        self.request = request
        self.problem: ChainProblem = request.problem
        self.plan: PatternPlan | None = None
        self.value: float | None = None

    def offer(self, plan: PatternPlan | None) -> bool:
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
        if point.plan is not None:
            return best.offer(point.plan)
        messages.append("the best run did not become periodic: its stages were given their best pattern")
        return best.offer(scheduled(best.problem, point.borders))


class Contiguous:
    def plan(self, request: Request) -> Outcome:
        best = _Best(request)
        best.offer(best_contiguous(best.problem))
        return best.outcome()


@dataclass(frozen=True)
class Flushing:
    """Batches go in together, and the pipeline runs empty before the next ones."""

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
