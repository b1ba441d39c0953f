"""A value against memory: settings, both ends, the points, and their way to a journal and back; and what of these is
special about stagings, whose value is the time per micro-batch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, ClassVar, TypeVar

from ...instances.base.errors import InputError
from ...instances.base.fields import require, require_list
from ...instances.base.result import Stop
from ...instances.least_memory import enough
from ...instances.registry import Plan, Problem, any_plan_from_json, kind_of
from ...instances.staging.problem import StagingProblem
from ...planners.options import SolveOptions
from ..journal import Journal
from .curve import LEVELS, POINT, USUAL, CurvePoint, answer_to_json, facts_of, limits_to_json, no_more_than, proven
from .stored import ANEW, as_it_was, level_of, lines_of, number_of, number_or_none

ENDS = "ends"


@dataclass(frozen=True, slots=True)
class Settings:
    """How many levels, or the memories in their place; the limits are for each solve."""

    levels: int = LEVELS
    memory_bytes: tuple[float, ...] = ()
    limits: SolveOptions = USUAL
    options: Mapping[str, Any] = field(default_factory=dict)
    """By which rules plans are judged; none: the usual ones of their kind."""

    def to_json(self) -> dict[str, Any]:
        """Everything that can change a point."""
        return {
            "levels": None if self.memory_bytes else self.levels,
            "memory_bytes": list(self.memory_bytes) or None,
            **self.options,
            **limits_to_json(self.limits),
        }


@dataclass(frozen=True, slots=True)
class Staged:
    """A plan that the referee accepts in the memory that it takes."""

    plan: Plan
    value: float
    peak_bytes: float
    bubble: float | None = None
    """Of schedules: the share of the time in which devices idle."""


def measured(
    problem: Problem, plan: Plan | None, options: Mapping[str, Any] = MappingProxyType({})
) -> Staged | None:
    """The referee's numbers; None for no plan, or one that it refuses."""
    kind = kind_of(problem)
    rules = kind.rules(problem, options)
    if plan is None or rules.violations(problem, plan):
        return None
    assert kind.held is not None, kind.name
    peak = enough(kind.held(problem, plan, options))
    bubble = getattr(rules.evaluation(problem, plan), "bubble", None)
    return Staged(plan, rules.value(problem, plan), peak, None if bubble is None else float(bubble))


def fits(
    problem: Problem, staged: Staged, memory: float, options: Mapping[str, Any] = MappingProxyType({})
) -> bool:
    kind = kind_of(problem)
    limited = kind.with_memory(problem, memory)
    return not kind.rules(limited, options).violations(limited, staged.plan)


@dataclass(frozen=True, slots=True)
class Ends:
    """The plan with the least memory, the best one without a limit, and the levels in between."""

    levels: tuple[float, ...]
    """Bytes, ascending."""
    least: Staged
    lower_bytes: float
    """With less there is no plan."""
    best: Staged
    bound: float | None
    """No plan takes less time, whatever its memory; None: unknown."""

    @property
    def least_proven(self) -> bool:
        return self.least.peak_bytes <= self.lower_bytes

    @property
    def best_proven(self) -> bool:
        return proven(self.best.value, self.bound)

    def to_json(self) -> dict[str, Any]:
        return {
            "least_bytes": self.least.peak_bytes,
            "lower_bytes": self.lower_bytes,
            "unlimited": {"value": self.best.value, "bound": self.bound, "peak_bytes": self.best.peak_bytes},
        }


@dataclass(frozen=True, slots=True)
class MemoryPoint(CurvePoint):
    """The best plan in one memory."""

    COLUMNS: ClassVar[tuple[str, ...]] = (
        "memory_bytes",
        "value",
        "peak_bytes",
        "bound",
        "gap",
        "certified",
        "even",
        "stop",
        "found",
        "seconds",
    )

    LIMIT: ClassVar[str] = "memory_bytes"
    """The column of the limit,"""
    RIVAL: ClassVar[str] = "even"
    """... and that of who is compared with."""

    memory_bytes: float
    stop: Stop
    staged: Staged | None = None
    bound: float | None = None
    even: float | None = None
    """What an even split takes."""
    seconds: float = 0.0
    messages: tuple[str, ...] = ()

    @property
    def limit(self) -> float:
        return self.memory_bytes

    @property
    def plan(self) -> Plan | None:
        return None if self.staged is None else self.staged.plan

    @property
    def value(self) -> float | None:
        return None if self.staged is None else self.staged.value

    @property
    def peak_bytes(self) -> float | None:
        return None if self.staged is None else self.staged.peak_bytes

    def candidate(self) -> Staged | None:
        return self.staged

    def with_plan(self, found: Staged | None) -> MemoryPoint:
        return self if found is None else replace(self, staged=found)


Point = TypeVar("Point", bound=MemoryPoint)


@dataclass(frozen=True, slots=True)
class MemoryCurve:
    """The whole curve, by growing memory."""

    columns: ClassVar = MemoryPoint.COLUMNS

    problem: StagingProblem
    settings: Settings
    ends: Ends | None
    """None: interrupted before they were known."""
    points: tuple[MemoryPoint, ...]
    complete: bool

    def to_json(self) -> dict[str, Any]:
        ends = None if self.ends is None else self.ends.to_json()
        return answer_to_json(self, facts(self.problem), {"ends": ends})


def facts(problem: StagingProblem) -> dict[str, Any]:
    """The problem apart from its own memory limit, which the levels replace."""
    free = problem.replace(memory_bytes=None)
    return facts_of(free, devices=free.devices, layers=len(free.layers))


# ---- to a journal and back -----------------------------------------------------------------------------------


def ends_record(ends: Ends) -> dict[str, Any]:
    plans = {"least": ends.least.plan.to_json(), "best": ends.best.plan.to_json()}
    return {"record": ENDS, "levels": list(ends.levels), "lower": ends.lower_bytes, "bound": ends.bound, **plans}


def stored_ends(
    problem: Problem, journal: Journal, options: Mapping[str, Any] = MappingProxyType({})
) -> Ends | None:
    """What was proven is as it was, everything about the plans is recomputed."""
    for where, line in lines_of(journal, ENDS):
        best = _staged(problem, require(where, line, "best"), where, options)
        return Ends(
            levels=tuple(level_of(where, level) for level in require_list(where, line, "levels")),
            least=_staged(problem, require(where, line, "least"), where, options),
            lower_bytes=number_of(where, line, "lower"),
            best=best,
            bound=no_more_than(number_or_none(where, line, "bound"), best.value),
        )
    return None


def stored_points(
    problem: Problem, journal: Journal, kind: type[Point], options: Mapping[str, Any] = MappingProxyType({})
) -> dict[float, Point]:
    """The bound is as it was proven, everything about the plan is recomputed."""
    points: dict[float, Point] = {}
    for where, line in lines_of(journal, POINT):
        memory, rival = number_of(where, line, kind.LIMIT), number_or_none(where, line, kind.RIVAL)
        limited = kind_of(problem).with_memory(problem, memory)
        plan = None if line.get("plan") is None else _staged(limited, line["plan"], where, options)
        points[memory] = kind(memory, even=rival, staged=plan, **as_it_was(where, line))
    return points


def _staged(problem: Problem, data: object, where: str, options: Mapping[str, Any]) -> Staged:
    found = measured(problem, any_plan_from_json(data, f"{where}: plan"), options)
    if found is None:
        raise InputError(f"{where}: plan", "does not stand before the referee", ANEW)
    return found
