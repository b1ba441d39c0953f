"""What every curve is made of, whatever limit it is drawn over: points, the sweep, and how points become a curve.

A plan that keeps a limit keeps every looser one, and what is proven of a limit holds of every tighter one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from ...instances.base.clock import now
from ...instances.base.errors import InputError, UsageError
from ...instances.base.result import Found, Stop, met, relative_gap
from ...planners.options import Progress, SolveOptions
from ..journal import Journal

SCHEMA = "pipeplan.pareto/1"
LEVELS = 8
TIME_LIMIT_S = 60.0
USUAL = SolveOptions(time_limit_s=TIME_LIMIT_S)

Watch = Callable[[Progress], None] | None


class NothingKnownError(Exception):
    """No plan is known at an end of the curve, so that there is no curve: an answer, and nobody's mistake."""


# ---- points ----------------------------------------------------------------------------------------------------


class CurvePoint:
    """The best plan within one limit. What plans measure is the referee's; absent is None."""

    __slots__ = ()

    COLUMNS: ClassVar[tuple[str, ...]]
    """What a table shows of it."""
    stop: Stop
    bound: float | None
    seconds: float
    messages: tuple[str, ...]

    @property
    def limit(self) -> float:
        """Where it lies on the curve."""
        raise NotImplementedError

    @property
    def value(self) -> float | None:
        """Of its plan."""
        raise NotImplementedError

    @property
    def plan(self) -> Any:
        raise NotImplementedError

    def candidate(self) -> Any:
        """Its plan as other points take it; None where it has none."""
        raise NotImplementedError

    def with_plan(self: P, found: Any) -> P:
        """The same point with this plan, or as it is where there is none."""
        raise NotImplementedError

    @property
    def gap(self) -> float | None:
        return relative_gap(self.value, self.bound)

    @property
    def certified(self) -> bool:
        """Is the value proven to be the least, or proven that there is no plan?"""
        return self.stop in (Stop.PROVEN, Stop.INFEASIBLE)

    @property
    def found(self) -> Found:
        if self.plan is None:
            return Found.NOTHING
        return Found.OPTIMAL if self.stop == Stop.PROVEN else Found.FEASIBLE

    def settled(self: P) -> P:
        """Proven is a point exactly where its value and its bound meet."""
        if self.value is None or self.bound is None:
            return self
        if met(self.value, self.bound):
            return _with(self, stop=Stop.PROVEN)
        return _with(self, stop=Stop.COMPLETED) if self.stop == Stop.PROVEN else self

    def facts(self) -> dict[str, Any]:
        """Everything except the plan."""
        return {**{name: getattr(self, name) for name in self.COLUMNS}, "seconds": round(self.seconds, 3)}

    def to_json(self) -> dict[str, Any]:
        plan = None if self.plan is None else self.plan.to_json()
        return {**self.facts(), "messages": list(self.messages), "plan": plan}


P = TypeVar("P", bound=CurvePoint)


def _with(point: P, **changes: Any) -> P:
    changed: P = replace(point, **changes)  # type: ignore[type-var]
    return changed


def with_plans_from_below(points: Iterable[P]) -> list[P]:
    """By growing limit; a plan serves wherever none is better."""
    answer: list[P] = []
    for point in sorted(points, key=lambda point: point.limit):
        before = answer[-1] if answer else None
        if before is not None and before.value is not None and (point.value is None or before.value < point.value):
            point = point.with_plan(before.candidate())
        answer.append(point)
    return answer


def no_more_than(bound: float | None, value: float | None) -> float | None:
    """The bound, lowered to the value of a plan where a float solver's word is above it."""
    return bound if bound is None or value is None else min(bound, value)


def with_bounds_from_above(points: Sequence[P], bound: float | None) -> list[P]:
    """`bound` holds without a limit."""
    answer: list[P] = []
    for point in reversed(points):
        bound = max((known for known in (bound, point.bound) if known is not None), default=None)
        if point.stop != Stop.INFEASIBLE:
            bound = no_more_than(bound, point.value)
            point = _with(point, bound=bound)
        answer.append(point)
    return answer[::-1]


def bound_at(points: Iterable[CurvePoint], limit: float, unlimited: float | None) -> float | None:
    """What is proven within this limit or a looser one."""
    bounds = [unlimited, *(point.bound for point in points if point.limit >= limit)]
    return max((bound for bound in bounds if bound is not None), default=None)


def proven(value: float, bound: float | None) -> bool:
    """Is there a bound, and does the value meet it?"""
    return bound is not None and met(value, bound)


# ---- what is asked ---------------------------------------------------------------------------------------------


def limits_to_json(limits: SolveOptions) -> dict[str, Any]:
    """Those that can change a point."""
    return {name: getattr(limits, name) for name in ("time_limit_s", "rel_gap", "abs_gap", "threads", "seed")}


def places(flag: str, given: Iterable[float] | None, levels: int | None) -> tuple[int, tuple[float, ...]]:
    """How many levels, or the limits in their place."""
    chosen = tuple(sorted(set(given or ())))
    if chosen and levels is not None:
        raise UsageError(f"{flag} and --points both say where the points lie; give one of them.")
    return LEVELS if levels is None else levels, chosen


def check_levels(levels: int, chosen: Sequence[float]) -> None:
    if not chosen and levels < 2:
        raise InputError("points", f"is {levels}", "give at least 2: both ends of the curve are points")


def between(least: float, most: float, count: int) -> list[float]:
    """So many amounts with both ends, which are left out: in equal ratios, as curves are steep where little is
    allowed."""
    shares = [i / (count - 1) for i in range(1, count - 1)]
    if least > 0:
        return [least * (most / least) ** share for share in shares]
    return [share * most for share in shares]


def halving(levels: Sequence[float]) -> list[float]:
    """Both ends, then always the middle between two: plans come from below and bounds from above."""
    order = [*levels[:1], *levels[1:][-1:]]
    spans = [(0, len(levels) - 1)]
    for low, high in spans:
        middle = (low + high) // 2
        if high - low > 1:
            order.append(levels[middle])
            spans += [(low, middle), (middle, high)]
    return order


def facts_of(problem: Any, **own: int) -> dict[str, Any]:
    """By what a curve names its problem."""
    names = {"kind": problem.kind, "name": problem.name, "hash": problem.hash}
    return {**names, **own, "time_unit": problem.time_unit}


class Answer(Protocol):
    """A whole curve, by growing limit."""

    @property
    def complete(self) -> bool:
        """Was it not interrupted?"""

    @property
    def points(self) -> Sequence[CurvePoint]: ...

    @property
    def columns(self) -> tuple[str, ...]:
        """Of a table of its points, for when there is none."""

    @property
    def settings(self) -> Any: ...

    def to_json(self) -> dict[str, Any]: ...


def answer_to_json(curve: Answer, problem: Mapping[str, Any], ends: Mapping[str, Any]) -> dict[str, Any]:
    """`ends` by the names that this curve has for them."""
    return {
        "schema": SCHEMA,
        "problem": problem,
        "settings": curve.settings.to_json(),
        "complete": curve.complete,
        **ends,
        "points": [point.to_json() for point in curve.points],
    }


# ---- the sweep -------------------------------------------------------------------------------------------------


class EndsOfCurve(Protocol):
    @property
    def levels(self) -> tuple[float, ...]: ...


Key = TypeVar("Key")
E = TypeVar("E", bound=EndsOfCurve)
POINT = "point"


class Sweep(Generic[Key, P, E]):
    """The state of one sweep: both ends first, then its points in an order in which each helps the next."""

    def __init__(self, points: Mapping[Key, P], ends: E | None, journal: Journal, watch: Watch) -> None:
        self.points, self.ends, self.journal, self.watch = dict(points), ends, journal, watch
        self.interrupted = False
        self.begun = now()

    def solved_ends(self) -> E:
        """Both ends and the levels between them."""
        raise NotImplementedError

    def ends_record(self, ends: E) -> dict[str, Any]:
        """For the journal."""
        raise NotImplementedError

    def keys(self, ends: E) -> Sequence[Key]:
        """Of the points, in the order in which they are sought."""
        raise NotImplementedError

    def point(self, key: Key, ends: E) -> P:
        """Sought with what is known already."""
        raise NotImplementedError

    def run(self) -> bool:
        """Was nothing interrupted? What was done before stays."""
        try:
            if self.ends is None:
                self.ends = self.solved_ends()
                self.journal.append(self.ends_record(self.ends))
            self._run(self.ends)
        except KeyboardInterrupt:
            return False
        return not self.interrupted

    def _run(self, ends: E) -> None:
        for key in self.keys(ends):
            if key in self.points:
                continue
            begun = now()
            point = self.points[key] = _with(self.point(key, ends), seconds=now() - begun)
            if point.stop == Stop.INTERRUPTED:
                self.interrupted = True
                return
            if point.stop != Stop.ERROR:  # else the next run may do better
                self.journal.append({"record": POINT, **point.to_json()})

    def watcher(self, what: str) -> Watch:
        """Progress says which point is under way, and counts the time of the whole sweep."""
        watch = self.watch
        if watch is None:
            return None
        count = "" if self.ends is None else f" ({len(self.points) + 1} of {len(self.keys(self.ends))})"
        return lambda record: watch(replace(record, seconds=now() - self.begun, source=f"{what}{count}"))
