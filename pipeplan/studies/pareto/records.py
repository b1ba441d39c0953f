"""What a sweep is asked for and what it answers: settings, the frame of memory levels, points, the whole curve set."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from ...instances.base.result import Stop
from ...instances.chain.plan import PatternPlan
from ...instances.chain.problem import ChainProblem
from ...planners.options import SolveOptions
from .curve import LEVELS, USUAL, CurvePoint, answer_to_json, facts_of, limits_to_json, proven

EXACT_METHODS = ("exact-beaumont", "ilp-beaumont", "cp-beaumont")
"""Their bounds hold for every pattern with one batch per period."""
BASELINES = ("contiguous", "pipedream-eager", "gpipe", "sync-1f1b")
METHODS = (*EXACT_METHODS, *BASELINES)
DEFAULT_METHODS = ("exact-beaumont", *BASELINES)


@dataclass(frozen=True, slots=True)
class Settings:
    """What is swept, and how long each point may take; `memory_bytes` in place of a number of levels."""

    methods: tuple[str, ...] = DEFAULT_METHODS
    levels: int = LEVELS
    memory_bytes: tuple[float, ...] = ()
    limits: SolveOptions = USUAL

    def to_json(self) -> dict[str, Any]:
        """Everything that can change a point."""
        return {
            "methods": list(self.methods),
            "levels": None if self.memory_bytes else self.levels,
            "memory_bytes": list(self.memory_bytes) or None,
            **limits_to_json(self.limits),
        }


@dataclass(frozen=True, slots=True)
class Frame:
    """The ends of the curves, and the memory limits in between."""

    levels: tuple[float, ...]
    """Bytes, ascending."""
    smallest_bytes: float
    """With this much some pattern exists."""
    smallest_proven: bool
    """Does none exist with less?"""
    smallest_plan: PatternPlan
    unlimited_period: float
    """The best period found without a memory limit."""
    unlimited_bound: float | None
    """No pattern, whatever its memory and its number of batches per period, takes less time per batch.
    None: not known."""
    unlimited_bytes: float
    """Peak of a plan with that period, the least that was found."""
    unlimited_plan: PatternPlan

    @property
    def unlimited_proven(self) -> bool:
        return proven(self.unlimited_period, self.unlimited_bound)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A plan that the referee accepts without a memory limit, and what it measures."""

    plan: PatternPlan
    period: float
    """Per batch."""
    peak_bytes: float
    source: str
    """The method that found it."""


@dataclass(frozen=True, slots=True)
class Point(CurvePoint):
    """One method at one memory limit. Period and peak are the referee's; absent is None."""

    COLUMNS: ClassVar = (
        "method",
        "memory_bytes",
        "period",
        "peak_bytes",
        "bound",
        "gap",
        "certified",
        "stop",
        "found",
        "source",
        "batches_per_period",
        "seconds",
    )

    method: str
    memory_bytes: float
    stop: Stop
    period: float | None = None
    """Per batch."""
    peak_bytes: float | None = None
    bound: float | None = None
    seconds: float = 0.0
    source: str | None = None
    """Which method found the plan: an exact method may start from the plan of another one."""
    plan: PatternPlan | None = None
    messages: tuple[str, ...] = ()

    @property
    def limit(self) -> float:
        return self.memory_bytes

    @property
    def value(self) -> float | None:
        return self.period

    def candidate(self) -> Candidate | None:
        if self.plan is None or self.period is None or self.peak_bytes is None:
            return None
        return Candidate(self.plan, self.period, self.peak_bytes, self.source or self.method)

    def with_plan(self, found: Candidate | None) -> Point:
        if found is None:
            return self
        plan = {"plan": found.plan, "period": found.period, "peak_bytes": found.peak_bytes, "source": found.source}
        return replace(self, **plan)  # type: ignore[arg-type]

    @property
    def batches_per_period(self) -> int | None:
        return None if self.plan is None else self.plan.batches_per_period


@dataclass(frozen=True, slots=True)
class Pareto:
    """All points of one sweep, by method and growing memory."""

    columns: ClassVar = Point.COLUMNS

    problem: ChainProblem
    settings: Settings
    frame: Frame | None
    """None: the sweep was interrupted before its levels were known."""
    points: tuple[Point, ...]
    complete: bool

    def of(self, method: str) -> tuple[Point, ...]:
        return tuple(point for point in self.points if point.method == method)

    def to_json(self) -> dict[str, Any]:
        frame = self.frame
        smallest, unlimited = (None, None) if frame is None else (_smallest(frame), _unlimited(frame))
        return answer_to_json(self, facts(self.problem), {"smallest": smallest, "unlimited": unlimited})


def facts(problem: ChainProblem) -> dict[str, Any]:
    """The problem apart from its own memory limit, which the levels replace."""
    return facts_of(problem.replace(memory_bytes=None), gpus=problem.gpus, layers=problem.layers)


def _smallest(frame: Frame) -> Mapping[str, Any]:
    return {"memory_bytes": frame.smallest_bytes, "proven": frame.smallest_proven}


def _unlimited(frame: Frame) -> Mapping[str, Any]:
    return {
        "period": frame.unlimited_period,
        "bound": frame.unlimited_bound,
        "peak_bytes": frame.unlimited_bytes,
        "proven": frame.unlimited_proven,
    }
