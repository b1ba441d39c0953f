"""The curves of `plan pareto` as they are shown: whatever is weighed against what, the same plain data."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from ..instances.base.kind import Rules
from ..instances.base.result import Stop
from ..instances.registry import Problem, kind_of
from ..planners.referee import rules_of
from ..studies.memory import MemoryStudy
from ..studies.pareto.curve import CurvePoint
from ..studies.pareto.records import Pareto, Point
from ..studies.pareto.schedules import ScheduleCurve
from ..studies.pareto.staging_records import MemoryCurve, MemoryPoint
from ..studies.pareto.tradeoff_records import Point as LatencyPoint
from ..studies.pareto.tradeoff_records import Tradeoff
from .sensitivity import devices
from .view import module_of
from .words import IN_BYTES, MemoryUnit, Times, amount, memory_unit, time_scale

BEST, FREE = "best plan", "without a limit"


@dataclass(frozen=True, slots=True)
class Series:
    """The best plans of one method, by growing limit."""

    name: str
    points: tuple[CurvePoint, ...]


@dataclass(frozen=True, slots=True)
class Front:
    """What is drawn, and how each point is judged."""

    problem: Problem
    limited: str
    """What the points are limited in."""
    value: str
    """What is as small as it can be."""
    series: tuple[Series, ...]
    judged: Callable[[CurvePoint], tuple[Problem, Rules]]
    """The problem and the rules that the plan of a point keeps."""
    memory: MemoryUnit | None = IN_BYTES
    """Of the limits; None: they are times."""
    rivals: tuple[str, tuple[tuple[float, float], ...]] = ("", ())
    """Whom they are compared with, by limit."""
    rules: tuple[tuple[str, float], ...] = ()
    """Values by what they are."""

    @property
    def points(self) -> Iterator[tuple[str, CurvePoint]]:
        """All of them with the names of their curves."""
        return ((series.name, point) for series in self.series for point in series.points)

    @property
    def devices(self) -> str:
        """How many there are, by what they are called."""
        return devices(self.problem)

    def limits(self) -> list[float]:
        return [point.limit for _, point in self.points]

    def values(self) -> list[float]:
        """All that is drawn upwards."""
        found = [value for _, point in self.points for value in (point.value, point.bound)]
        found += [value for _, value in (*self.rivals[1], *self.rules)]
        return [value for value in found if value is not None]

    def times(self) -> Times:
        """What values are drawn in."""
        return Times.of(self.values(), self.problem.time_unit)

    def scale(self) -> tuple[float, str]:
        """What limits are divided by, and what the result is in."""
        largest = max(self.limits(), default=1.0)
        if self.memory is None:
            factor, unit = time_scale(largest, self.problem.time_unit)
            return 1 / factor, unit or ""
        return self._memory().scale(largest)

    def limit_text(self, limit: float) -> str:
        return amount(limit, self.problem.time_unit) if self.memory is None else self._memory().text(limit)

    def _memory(self) -> MemoryUnit:
        """In multiples like those in which the limits are written."""
        return (self.memory or IN_BYTES).like(self.limits())

    def need(self, point: CurvePoint) -> str:
        """What its plan takes of what is limited."""
        taken = point.latency if isinstance(point, LatencyPoint) else getattr(point, "peak_bytes", None)
        return "" if taken is None else self.limit_text(taken)


def _best(value: float, proven: bool) -> tuple[str, float]:
    return f"{'optimum' if proven else 'best found'} {FREE}", value


def of_chain(pareto: Pareto) -> Front:
    """Period against the memory of a GPU, a curve for each method."""
    methods = dict.fromkeys(point.method for point in pareto.points)
    frame = pareto.frame
    return Front(
        pareto.problem,
        "memory of a GPU",
        "period per batch",
        tuple(Series(method, pareto.of(method)) for method in methods),
        lambda point: _within(pareto.problem.replace(memory_bytes=point.limit)),
        rules=() if frame is None else (_best(frame.unlimited_period, frame.unlimited_proven),),
    )


def of_placement(tradeoff: Tradeoff) -> Front:
    """Load against the latency of one sample."""
    ends = tradeoff.ends
    return Front(
        tradeoff.problem,
        "limit on the latency of one sample",
        "largest load",
        (Series(BEST, tradeoff.points),),
        lambda point: (tradeoff.problem, tradeoff.settings.rules(point.limit)),
        memory=None,
        rules=() if ends is None else (_best(ends.max_load, ends.max_load_proven),),
    )


def of_staging(curve: MemoryCurve) -> Front:
    """Time per micro-batch against the memory of a device, beside an even split."""
    return _of_memory(curve, "time per micro-batch", IN_BYTES, "even split")


def of_schedule(curve: ScheduleCurve) -> Front:
    """What is minimised against the memory of a device, beside the best of the named rules."""
    return _of_memory(curve, curve.objective, memory_unit(curve.problem.memory_unit), "best named rule")


def of_memory(study: MemoryStudy) -> Front:
    """The value of a plan against the memory of a device, from the least with a plan on."""
    problem, method = study.problem, str(study.method)
    points = (
        Point(
            method,
            point.memory_bytes,
            Stop.PROVEN if point.certified else Stop.COMPLETED,
            point.value,
            bound=point.bound,
        )
        for point in study.points
    )
    return Front(
        problem,
        "memory of a device",
        value_of(study),
        (Series(method, tuple(points)),),
        lambda point: _within(kind_of(problem).with_memory(problem, point.limit), study.options),
        memory=memory_unit(study.least.counted),
    )


def value_of(study: MemoryStudy) -> str:
    """What the values of its plans are called."""
    return str(module_of(study.problem).value_name(rules_of(study.problem, study.options)))


def _of_memory(curve: MemoryCurve | ScheduleCurve, value: str, memory: MemoryUnit, rival: str) -> Front:
    problem, options, ends = curve.problem, curve.settings.options, curve.ends
    return Front(
        problem,
        "memory of a device",
        value,
        (Series(BEST, tuple(curve.points)),),
        lambda point: _within(kind_of(problem).with_memory(problem, point.limit), options),
        memory=memory,
        rivals=(rival, tuple(_rivals(curve.points))),
        rules=() if ends is None else (_best(ends.best.value, ends.best_proven),),
    )


def _rivals(points: Sequence[MemoryPoint]) -> Iterator[tuple[float, float]]:
    return ((point.limit, point.even) for point in points if point.even is not None)


def _within(problem: Problem, options: Mapping[str, Any] = MappingProxyType({})) -> tuple[Problem, Rules]:
    return problem, kind_of(problem).rules(problem, options)
