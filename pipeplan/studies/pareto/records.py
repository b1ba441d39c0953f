"""What a sweep is asked for and what it answers: settings, the frame of memory levels, points, the whole curve set."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ...instances.chain.plan import PatternPlan
from ...instances.chain.problem import ChainProblem
from ...instances.result import PROVEN_TOLERANCE, Found, Stop, relative_gap
from ...planners.options import SolveOptions
from .study import LEVELS, TIME_LIMIT_S

SCHEMA = "pipeplan.pareto/1"
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
    limits: SolveOptions = SolveOptions(time_limit_s=TIME_LIMIT_S)

    def to_json(self) -> dict[str, Any]:
        """Everything that can change a point."""
        limits = self.limits
        return {
            "methods": list(self.methods),
            "levels": None if self.memory_bytes else self.levels,
            "memory_bytes": list(self.memory_bytes) or None,
            "time_limit_s": limits.time_limit_s,
            "rel_gap": limits.rel_gap,
            "abs_gap": limits.abs_gap,
            "threads": limits.threads,
            "seed": limits.seed,
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
    unlimited_bound: float
    """No pattern, whatever its memory and its number of batches per period, takes less time per batch."""
    unlimited_bytes: float
    """Peak of a plan with that period, the least that was found."""
    unlimited_plan: PatternPlan

    @property
    def unlimited_proven(self) -> bool:
        return met(self.unlimited_period, self.unlimited_bound)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A plan that the referee accepts without a memory limit, and what it measures."""

    plan: PatternPlan
    period: float
    """Per batch."""
    peak_bytes: float
    source: str
    """The method that found it."""


COLUMNS = (
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
"""What a table shows of a point."""


@dataclass(frozen=True, slots=True)
class Point:
    """One method at one memory limit. Period and peak are the referee's; absent is None."""

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
    def gap(self) -> float | None:
        return relative_gap(self.period, self.bound)

    @property
    def certified(self) -> bool:
        """Is the period proven to be the least, or proven that there is none?"""
        return self.stop in (Stop.PROVEN, Stop.INFEASIBLE)

    @property
    def found(self) -> Found:
        if self.plan is None:
            return Found.NOTHING
        return Found.OPTIMAL if self.stop == Stop.PROVEN else Found.FEASIBLE

    def with_plan(self, found: Candidate | None, seconds: float) -> Point:
        """The same point with this plan, or with none."""
        if found is None:
            return replace(self, seconds=seconds)
        plan = {"plan": found.plan, "period": found.period, "peak_bytes": found.peak_bytes, "source": found.source}
        return replace(self, seconds=seconds, **plan)  # type: ignore[arg-type]

    @property
    def batches_per_period(self) -> int | None:
        return None if self.plan is None else self.plan.batches_per_period

    def facts(self) -> dict[str, Any]:
        """Everything except the plan."""
        return {**{name: getattr(self, name) for name in COLUMNS}, "seconds": round(self.seconds, 3)}

    def to_json(self) -> dict[str, Any]:
        plan = None if self.plan is None else self.plan.to_json()
        return {**self.facts(), "messages": list(self.messages), "plan": plan}


@dataclass(frozen=True, slots=True)
class Pareto:
    """All points of one sweep, by method and growing memory."""

    problem: ChainProblem
    settings: Settings
    frame: Frame | None
    """None: the sweep was interrupted before its levels were known."""
    points: tuple[Point, ...]
    complete: bool

    def of(self, method: str) -> tuple[Point, ...]:
        return tuple(point for point in self.points if point.method == method)

    def to_json(self) -> dict[str, Any]:
        return {
            "schema": SCHEMA,
            "problem": facts(self.problem),
            "settings": self.settings.to_json(),
            "complete": self.complete,
            "smallest": None if self.frame is None else _smallest(self.frame),
            "unlimited": None if self.frame is None else _unlimited(self.frame),
            "points": [point.to_json() for point in self.points],
        }


def facts(problem: ChainProblem) -> dict[str, Any]:
    """The problem apart from its own memory limit, which the levels replace."""
    free = problem.replace(memory_bytes=None)
    return {
        "kind": free.kind,
        "name": free.name,
        "hash": free.hash,
        "gpus": free.gpus,
        "layers": free.layers,
        "time_unit": free.time_unit,
    }


def _smallest(frame: Frame) -> Mapping[str, Any]:
    return {"memory_bytes": frame.smallest_bytes, "proven": frame.smallest_proven}


def _unlimited(frame: Frame) -> Mapping[str, Any]:
    return {
        "period": frame.unlimited_period,
        "bound": frame.unlimited_bound,
        "peak_bytes": frame.unlimited_bytes,
        "proven": frame.unlimited_proven,
    }


def met(period: float, bound: float) -> bool:
    """Do period and bound agree as closely as a proof asks for?"""
    return period - bound <= PROVEN_TOLERANCE * abs(period)
