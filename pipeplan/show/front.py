"""The curves of `plan pareto` as plain data, the same for all pairs of a value and a limit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ..instances.base.kind import Rules
from ..instances.registry import Problem, kind_of
from ..planners.referee import rules_of
from ..studies.memory import MemoryStudy
from ..studies.pareto.curve import Curve, CurvePoint
from .sensitivity import devices
from .view import module_of
from .words import IN_BYTES, MemoryUnit, Times, memory_unit

BEST, FREE = "best plan", "without a limit"


@dataclass(frozen=True, slots=True)
class Series:
    """The best plans of one method, by growing limit."""

    name: str
    points: tuple[CurvePoint, ...]


@dataclass(frozen=True, slots=True)
class Front:
    """Curves over one axis of limits, and how each point is judged."""

    problem: Problem
    limited: str
    """Name of the quantity that is limited."""
    value: str
    """Name of the value that is minimised."""
    series: tuple[Series, ...]
    judged: Callable[[CurvePoint], tuple[Problem, Rules]]
    """The problem and the rules that the plan of a point keeps."""
    memory: MemoryUnit = IN_BYTES
    """Unit of the limits."""
    rivals: tuple[str, tuple[tuple[float, float], ...]] = ("", ())
    """Points of what the curves are compared with: its name, and values by limit."""
    rules: tuple[tuple[str, float], ...] = ()
    """Horizontal lines by name and value."""

    @property
    def points(self) -> Iterator[tuple[str, CurvePoint]]:
        """All points with the names of their curves."""
        return ((series.name, point) for series in self.series for point in series.points)

    @property
    def devices(self) -> str:
        """Number of the devices, with the noun that the problem has for them."""
        return devices(self.problem)

    def limits(self) -> list[float]:
        return [point.limit for _, point in self.points]

    def values(self) -> list[float]:
        """All values that are drawn upwards."""
        values = [value for _, point in self.points for value in (point.value, point.bound)]
        values += [value for _, value in (*self.rivals[1], *self.rules)]
        return [value for value in values if value is not None]

    def times(self) -> Times:
        """The unit in which values are drawn."""
        return Times.of(self.values(), self.problem.time_unit)

    def scale(self) -> tuple[float, str]:
        """The divisor of limits, and the unit of the result."""
        return self._memory().scale(max(self.limits(), default=1.0))

    def limit_text(self, limit: float) -> str:
        return self._memory().text(limit)

    def _memory(self) -> MemoryUnit:
        """The unit of the limits, in multiples like those in which they are written."""
        return self.memory.like(self.limits())

    def need(self, point: CurvePoint) -> str:
        """The amount that the point's plan takes of what is limited."""
        return "" if point.need is None else self.limit_text(point.need)


def _best(curve: Curve) -> tuple[tuple[str, float], ...]:
    """The horizontal line of the best value without a limit, where that is known."""
    if curve.ends is None:
        return ()
    return ((f"{'optimum' if curve.ends.best_proven else 'best found'} {FREE}", curve.ends.best.value),)


def of_chain(curve: Curve) -> Front:
    """Period against the memory of a GPU, a curve for each method."""
    methods = dict.fromkeys(point.method for point in curve.points)
    series = tuple(Series(method, curve.of(method)) for method in methods)
    return replace(_of_memory(curve, "period per batch"), limited="memory of a GPU", series=series)


def of_staging(curve: Curve) -> Front:
    """Time per micro-batch against the memory of a device, beside an even split."""
    return _of_memory(curve, "time per micro-batch", rival="even split")


def of_schedule(curve: Curve) -> Front:
    """The value that is minimised against the memory of a device, beside the best of the named rules."""
    unit = memory_unit(curve.problem.memory_unit)
    return _of_memory(curve, str(curve.settings.options["objective"]), unit, "best named rule")


def of_training(curve: Curve) -> Front:
    """Time of an iteration against the number of GPUs."""
    from ..instances.training.kind_functions import with_devices

    def judged(point: CurvePoint) -> tuple[Problem, Rules]:
        used = point.limit if point.need is None else point.need
        problem = with_devices(curve.problem, int(used))
        return problem, kind_of(problem).rules(problem, curve.settings.options)

    return Front(
        curve.problem,
        "number of GPUs",
        "time of an iteration",
        (Series(BEST, curve.points),),
        judged,
        memory=MemoryUnit("GPUs"),
    )


def of_memory(study: MemoryStudy) -> Front:
    """The value of a plan against the memory of a device, from the least with a plan on."""
    problem, method = study.problem, str(study.method)
    return Front(
        problem,
        "memory of a device",
        value_of(study),
        (Series(method, study.points),),
        lambda point: _within(problem, point, study.options),
        memory=memory_unit(study.least.counted),
    )


def value_of(study: MemoryStudy) -> str:
    """The name of the values of the study's plans."""
    return str(module_of(study.problem).value_name(rules_of(study.problem, study.options)))


def _of_memory(curve: Curve, value: str, memory: MemoryUnit = IN_BYTES, rival: str = "") -> Front:
    problem, options = curve.problem, curve.settings.options
    return Front(
        problem,
        "memory of a device",
        value,
        (Series(BEST, curve.points),),
        lambda point: _within(problem, point, options),
        memory=memory,
        rivals=(rival, tuple((point.limit, point.rival) for point in curve.points if point.rival is not None)),
        rules=_best(curve),
    )


def _within(problem: Problem, point: CurvePoint, options: Mapping[str, Any]) -> tuple[Problem, Rules]:
    kind = kind_of(problem)
    limited = kind.with_memory(problem, point.limit)
    return limited, kind.rules(limited, options)
