"""Curves along one axis as plain data, which tables, pictures and pages draw."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ..instances.base.amounts import Amount
from ..instances.base.kind import Rules
from ..instances.least_memory import at_least, in_one_unit, option, said
from ..instances.registry import Problem, kind_of
from ..planners.referee import rules_of
from ..studies.memory import MemoryStudy, worse
from ..studies.sweep import Curve, CurvePoint
from .sensitivity import devices
from .view import module_of
from .words import IN_BYTES, MemoryUnit, Times, amount_or, memory_unit, percent, several

BEST, FREE = "best plan", "without a limit"
LEGEND = "*: proven; %: gap to the bound; -: no plan"
# A smaller gap is shown as smaller, never as nothing.
LEAST_GAP = 0.001
# The heading of a column, and what it says of a point.
Column = tuple[str, Callable[[CurvePoint, Times], str]]


@dataclass(frozen=True, slots=True)
class Series:
    """The best plans of one method, by growing limit."""

    name: str
    points: tuple[CurvePoint, ...]
    heading: str = "value"
    """What a table calls the values."""
    exact: bool = True
    """Does the method prove bounds?"""


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
    """Unit of the limits, in multiples like those in which they are written."""
    rivals: tuple[str, tuple[tuple[float, float], ...]] = ("", ())
    """Points of what the curves are compared with: its name, and values by limit."""
    rules: tuple[tuple[str, float], ...] = ()
    """Horizontal lines by name and value."""
    what: str = ""
    """What the table shows."""
    axis: str = "memory"
    """What the table calls the limits."""
    columns: tuple[Column, ...] = ()
    """Further columns of the table, about points of a single series."""
    legend: str = LEGEND
    sentences: tuple[str, ...] = ()
    """What there is to say below the table."""
    texts: Mapping[Amount, str] | None = None
    """Limits in words, where their digits matter."""

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
        return self.memory.scale(max(self.limits(), default=1.0))

    def limit_text(self, limit: float) -> str:
        return self.memory.text(limit) if self.texts is None else self.texts[limit]

    def need(self, point: CurvePoint) -> str:
        """The amount that the point's plan takes of what is limited."""
        return "" if point.need is None else self.memory.text(point.need)

    def by_limit(self) -> list[tuple[float, Mapping[str, CurvePoint]]]:
        """The points of each limit by the names of their curves."""
        return [
            (limit, {name: point for name, point in self.points if point.limit == limit})
            for limit in sorted(set(self.limits()))
        ]


def verdict(point: CurvePoint | None) -> str:
    """What follows a value in a table: `*` if proven, else the gap, or nothing where there is no bound."""
    if point is None or point.plan is None:
        return ""
    if point.certified:
        return "*"
    if point.gap is None:
        return ""
    return f"{100 * point.gap:.1f}%" if point.gap >= LEAST_GAP else f"<{100 * LEAST_GAP:g}%"


# ---- columns -----------------------------------------------------------------------------------------------


def _bound(point: CurvePoint, times: Times) -> str:
    return times.text(point.bound, "")


def _rival(point: CurvePoint, times: Times) -> str:
    return times.text(point.rival)


def _idle(point: CurvePoint, times: Times) -> str:
    return "" if point.bubble is None else percent(point.bubble)


def _seconds(point: CurvePoint, times: Times) -> str:
    return f"{point.seconds:.1f}"


# ---- `plan pareto` -----------------------------------------------------------------------------------------


def of_chain(curve: Curve) -> Front:
    """Period against the memory of a GPU, a curve for each method."""
    from ..studies.chain_memory import EXACT_METHODS

    methods, problem = dict.fromkeys(point.method for point in curve.points), curve.problem
    series = (Series(method, curve.of(method), method, method in EXACT_METHODS) for method in methods)
    sizes = f"{several(problem.layers, 'layer')}, {several(problem.gpus, 'GPU')}"
    front = _of_memory(curve, "period per batch", sizes, plan="pattern", word="period ")
    legend = f"{LEGEND}; 2x: repeats itself after 2 batches"
    return replace(front, limited="memory of a GPU", series=tuple(series), columns=(), legend=legend)


def of_staging(curve: Curve) -> Front:
    """Time per micro-batch against the memory of a device, beside an even split."""
    problem = curve.problem
    sizes = f"{several(len(problem.layers), 'layer')}, {several(problem.devices, 'device')}"
    return _of_memory(curve, "time per micro-batch", sizes, rival="even split")


def of_schedule(curve: Curve) -> Front:
    """The value that is minimised against the memory of a device, beside the best of the named rules."""
    problem, count = curve.problem, curve.problem.micro_batches
    sizes = f"{several(len(problem.devices), 'device')}, {several(len(problem.blocks), 'block')}"
    sizes += "" if count is None else f", {several(count, 'micro-batch')}"
    front = _of_memory(
        curve,
        str(curve.settings.options["objective"]),
        sizes,
        memory_unit(problem.memory_unit),
        rival="best named rule",
        plan="schedule",
    )
    bound, *others = front.columns
    legend = "*: proven; %: gap to the bound; -: no schedule, or no named rule made for this shape and memory"
    return replace(front, columns=(bound, ("idle", _idle), *others), legend=legend)


def of_training(curve: Curve) -> Front:
    """Time of an iteration against the number of GPUs, and how much more GPU time it takes than on the fewest."""
    from ..instances.training.kind_functions import with_devices

    def judged(point: CurvePoint) -> tuple[Problem, Rules]:
        used = point.limit if point.need is None else point.need
        problem = with_devices(curve.problem, int(used))
        return problem, kind_of(problem).rules(problem, curve.settings.options)

    costs = [cost for cost in map(_gpu_time, curve.points) if cost]
    model, value = curve.problem.model, "time of an iteration"
    columns: tuple[Column, ...] = (
        ("bound", _bound),
        ("used", lambda point, times: "" if point.need is None else f"{point.need:g}"),
        ("GPU time", lambda point, times: "" if point.value is None else percent(_gpu_time(point) / costs[0] - 1)),
        ("seconds", _seconds),
    )
    front = Front(
        curve.problem,
        "number of GPUs",
        value,
        (Series(BEST, curve.points),),
        judged,
        memory=MemoryUnit("GPUs"),
        axis="GPUs",
        columns=columns,
        legend=f"{LEGEND}; GPU time: more than with the fewest GPUs",
    )
    return _headed(front, f"{model.name}, {several(len(model.units), 'unit')}; {value}")


def _gpu_time(point: CurvePoint) -> float:
    return (point.value or 0.0) * (point.need or 0.0)


def _of_memory(
    curve: Curve,
    value: str,
    sizes: str,
    unit: MemoryUnit = IN_BYTES,
    rival: str = "",
    plan: str = "plan",
    word: str = "",
) -> Front:
    """A curve over memory; `plan` is the noun for a plan, and `word` stands before the best value."""
    problem, options = curve.problem, curve.settings.options
    memory = unit.like(point.limit for point in curve.points)
    front = Front(
        problem,
        "memory of a device",
        value,
        (Series(BEST, curve.points),),
        lambda point: _within(problem, point, options),
        memory=memory,
        rivals=(rival, tuple((point.limit, point.rival) for point in curve.points if point.rival is not None)),
        rules=_best(curve),
        sentences=_ends(curve, memory, plan, word),
    )
    needs = ("needs", lambda point, times: front.need(point))
    columns: tuple[Column, ...] = (("bound", _bound), needs, (rival, _rival), ("seconds", _seconds))
    return _headed(replace(front, columns=columns), f"{sizes}; {value}")


def _headed(front: Front, what: str) -> Front:
    return replace(front, what=f"{what}{front.times().inside}")


def _best(curve: Curve) -> tuple[tuple[str, float], ...]:
    """The horizontal line of the best value without a limit, where that is known."""
    if curve.ends is None:
        return ()
    return ((f"{'optimum' if curve.ends.best_proven else 'best found'} {FREE}", curve.ends.best.value),)


def _ends(curve: Curve, memory: MemoryUnit, plan: str, word: str) -> tuple[str, ...]:
    """Sentences on both ends of a curve over memory."""
    ends, unit = curve.ends, curve.problem.time_unit
    if ends is None:
        return ()
    least = "proven" if ends.least_proven else f"none exists with less than {memory.text(ends.lower)}"
    free = "proven" if ends.best_proven else f"bound {amount_or(ends.bound, unit, 'unknown')}"
    best = f"{word}{amount_or(ends.best.value, unit)} ({free}), found with {memory.text(ends.best.need)}"
    return (f"smallest memory with any {plan}: {memory.text(ends.least.need)} ({least})", f"{FREE}: {best}")


def _within(problem: Problem, point: CurvePoint, options: Mapping[str, Any]) -> tuple[Problem, Rules]:
    kind = kind_of(problem)
    limited = kind.with_memory(problem, point.limit)
    return limited, kind.rules(limited, options)


# ---- `plan memory` -----------------------------------------------------------------------------------------


def of_memory(study: MemoryStudy) -> Front:
    """The value of a plan against the memory of a device, from the least with a plan on."""
    problem, least, points = study.problem, study.least, study.points
    value = "value" if not points else str(module_of(problem).value_name(rules_of(problem, study.options)))
    times = Times.of((point.value for point in points), problem.time_unit)
    exact = "" if least.memory_bytes is None else f"; {option(least.memory_bytes, least.counted)} asks for it"
    return Front(
        problem,
        "memory of a device",
        value,
        (Series(str(study.method), points, f"{value}{times.inside}"),),
        lambda point: _within(problem, point, study.options),
        memory=memory_unit(least.counted).like(point.limit for point in points),
        what=f"{said(least)}{exact}",
        columns=(("less time", lambda point, times: _less(point, points[0].value)),),
        sentences=(_closing(study),) if points else (),
        texts=in_one_unit((point.limit for point in points), least.counted),
    )


def _less(point: CurvePoint, first: float | None) -> str:
    if not first or point.value is None or point.value == first:
        return ""
    return f"{100 * (1 - point.value / first):.1f} %"


def _closing(study: MemoryStudy) -> str:
    """A sentence that says from where on more memory does not help, and below which amount it is known to help."""
    best, counted = study.no_more_helps, study.least.counted
    if best is None:
        return "what more memory is worth was not found in time"
    value, amounts = best.value, in_one_unit((point.limit for point in study.points), counted)
    slower = [p for p in study.points if p.bound is not None and value is not None and worse(p.bound, value)]
    if not best.certified:
        return f"with more than {amounts[best.limit]} nothing better was found ({study.method}, not proven)"
    words = f"from {amounts[best.limit]} on more memory does not help (proven by {study.method})"
    return f"{words}; with {at_least(slower[-1].limit, counted)} it still does" if slower else words
