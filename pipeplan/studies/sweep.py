"""Points along the memory of a device, and what each takes from the others: what curves of every kind have in common.

A plan that keeps a limit keeps every looser one, and a bound that is proven for a limit holds for every tighter one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ..instances.base.clock import now
from ..instances.base.result import Found, Stop, met, relative_gap
from ..instances.least_memory import enough
from ..instances.registry import kind_of
from ..planners.options import Progress

# More points are no curve that anybody looks at.
MOST_POINTS = 1000

Watch = Callable[[Progress], None] | None


@dataclass(frozen=True, slots=True)
class Candidate:
    """A plan that the referee accepts without a limit, and what it measures."""

    plan: Any
    value: float
    """The value that is minimised: a time."""
    need: float
    """The memory of a device that the plan takes."""
    source: str = ""
    """The method that the plan comes from."""


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """The best plan within one limit, as the referee measures it; absent values are None."""

    limit: float
    stop: Stop
    candidate: Candidate | None = None
    bound: float | None = None
    """No plan within the limit has a smaller value."""
    method: str = ""
    """The method of the point, on a curve by several methods."""
    seconds: float = field(default=0.0, compare=False)
    messages: tuple[str, ...] = ()

    @property
    def memory_bytes(self) -> float:
        """The limit, as points of `memory_study` call it."""
        return self.limit

    @property
    def plan(self) -> Any:
        return None if self.candidate is None else self.candidate.plan

    @property
    def value(self) -> float | None:
        return None if self.candidate is None else self.candidate.value

    @property
    def need(self) -> float | None:
        return None if self.candidate is None else self.candidate.need

    @property
    def source(self) -> str | None:
        """The method of the plan: an exact method may start from the plan of another one."""
        return None if self.candidate is None else self.candidate.source

    @property
    def batches_per_period(self) -> int | None:
        """Batches per period of a chain's plan; None for other plans."""
        return getattr(self.plan, "batches_per_period", None)

    @property
    def gap(self) -> float | None:
        return relative_gap(self.value, self.bound)

    @property
    def certified(self) -> bool:
        """Is the value proven to be the least, or proven that there is no plan?"""
        return self.stop in (Stop.PROVEN, Stop.INFEASIBLE)

    @property
    def found(self) -> Found:
        if self.candidate is None:
            return Found.NOTHING
        return Found.OPTIMAL if self.stop == Stop.PROVEN else Found.FEASIBLE

    def settled(self) -> CurvePoint:
        """The point with the stop `proven` exactly where its value and its bound meet."""
        if self.value is None or self.bound is None:
            return self
        if met(self.value, self.bound):
            return replace(self, stop=Stop.PROVEN)
        return replace(self, stop=Stop.COMPLETED) if self.stop == Stop.PROVEN else self

    def facts(self, columns: Mapping[str, str]) -> dict[str, Any]:
        """Everything except the plan and messages, by the columns of its curve."""
        return {**{name: getattr(self, fact) for name, fact in columns.items()}, "seconds": round(self.seconds, 3)}

    def to_json(self, columns: Mapping[str, str]) -> dict[str, Any]:
        plan = None if self.plan is None else self.plan.to_json()
        return {**self.facts(columns), "messages": list(self.messages), "plan": plan}


def with_plans_from_below(points: Iterable[CurvePoint]) -> list[CurvePoint]:
    """The points by growing limit, where a plan serves at higher limits that have none better."""
    answer: list[CurvePoint] = []
    for point in sorted(points, key=lambda point: point.limit):
        before = answer[-1] if answer else None
        if before is not None and before.value is not None and (point.value is None or before.value < point.value):
            point = replace(point, candidate=before.candidate)
        answer.append(point)
    return answer


def no_more_than(bound: float | None, value: float | None) -> float | None:
    """The bound, lowered to the value of a plan where rounding in a solver has put it above."""
    return bound if bound is None or value is None else min(bound, value)


def with_bounds_from_above(points: Sequence[CurvePoint], bound: float | None) -> list[CurvePoint]:
    """Each point with the best bound that holds for it; `bound` is the one without a limit."""
    answer: list[CurvePoint] = []
    for point in reversed(points):
        bound = max((one for one in (bound, point.bound) if one is not None), default=None)
        if point.stop != Stop.INFEASIBLE:
            bound = no_more_than(bound, point.value)
            point = replace(point, bound=bound)
        answer.append(point)
    return answer[::-1]


def bound_at(points: Iterable[CurvePoint], limit: float, unlimited: float | None) -> float | None:
    """The best bound that is proven for this limit or a looser one; `unlimited` is the one without a limit."""
    bounds = [unlimited, *(point.bound for point in points if point.limit >= limit)]
    return max((bound for bound in bounds if bound is not None), default=None)


def proven(value: float, bound: float | None) -> bool:
    """Is there a bound, and does the value meet it?"""
    return bound is not None and met(value, bound)


def measured(
    problem: Any, plan: Any, source: str = "", options: Mapping[str, Any] | None = None
) -> Candidate | None:
    """The referee's numbers for a plan, without a memory limit; None for no plan, or one that breaks a rule."""
    kind, options = kind_of(problem), options or {}
    free, rules = kind.with_memory(problem, None), kind.rules(problem, options)
    if plan is None or rules.violations(free, plan):
        return None
    assert kind.held is not None, kind.name
    value, peak = rules.value(free, plan), enough(kind.held(free, plan, options))
    return Candidate(plan, value, peak, source)


def columns(*words: str) -> Mapping[str, str]:
    """The attribute of `CurvePoint` for each column: of the same name, or after an equals sign."""
    parts = (word.partition("=") for word in " ".join(words).split())
    return {name: attribute or name for name, _, attribute in parts}


class Sweep:
    """The state of one sweep: what all points need first, then the points in an order in which each helps the next."""

    def __init__(self, problem: Any, watch: Watch) -> None:
        self.problem, self.watch = problem, watch
        self.points: dict[tuple[str, float], CurvePoint] = {}
        """By method and limit."""
        self.begun = now()

    def seek_ends(self) -> None:
        """Find what is needed before the first point."""
        raise NotImplementedError

    def keys(self) -> Iterable[tuple[str, float]]:
        """Method and limit of each point, in the order in which they are sought."""
        raise NotImplementedError

    def point(self, method: str, limit: float) -> CurvePoint:
        """Search for one point, with the help of the points so far."""
        raise NotImplementedError

    def keep(self, point: CurvePoint) -> None:
        """Called with each point that was found."""

    def run(self) -> bool:
        """Seek everything; False after an interrupt, which keeps the points that are done."""
        try:
            self.seek_ends()
            for key in self.keys():
                if key in self.points:
                    continue
                begun = now()
                point = self.points[key] = replace(self.point(*key), seconds=now() - begun)
                if point.stop == Stop.INTERRUPTED:
                    return False
                self.keep(point)
        except KeyboardInterrupt:
            return False
        return True
