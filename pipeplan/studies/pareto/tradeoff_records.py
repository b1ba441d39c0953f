"""Load against latency: settings, the ends of the curve, its points, and their way to a journal and back."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from ...instances.base.errors import InputError
from ...instances.base.fields import require, require_list
from ...instances.base.result import Stop, met
from ...instances.placement.plan import PlacementPlan
from ...instances.placement.problem import PlacementProblem
from ...instances.placement.referee.latency import evaluate_latency
from ...instances.placement.rules import LatencyRules, LimitedRules, ThroughputRules
from ...planners.options import SolveOptions
from ..journal import Journal
from .curve import LEVELS, POINT, USUAL, CurvePoint, answer_to_json, facts_of, limits_to_json
from .stored import ANEW, as_it_was, level_of, lines_of, number_of

ENDS = "ends"


@dataclass(frozen=True, slots=True)
class Settings:
    """What is swept, and how long each point may take; `latency_limits` in place of a number of levels."""

    levels: int = LEVELS
    latency_limits: tuple[float, ...] = ()
    non_contiguous: bool = False
    subgraphs_per_device: int = 1
    limits: SolveOptions = USUAL

    def rules(self, limit: float = math.inf) -> LimitedRules:
        """By which the plans of a point are judged."""
        contiguity = "none" if self.non_contiguous else "chain"
        return LimitedRules(
            contiguity=contiguity, latency_limit=limit, subgraphs_per_device=self.subgraphs_per_device
        )

    def options(self, limit: float) -> dict[str, Any]:
        """Of the formulation."""
        own = {"non_contiguous": self.non_contiguous, "subgraphs_per_device": self.subgraphs_per_device}
        return {"latency_limit": limit, **own}

    def to_json(self) -> dict[str, Any]:
        """Everything that can change a point."""
        return {
            "levels": None if self.latency_limits else self.levels,
            "latency_limits": list(self.latency_limits) or None,
            "non_contiguous": self.non_contiguous,
            "subgraphs_per_device": self.subgraphs_per_device,
            **limits_to_json(self.limits),
        }


@dataclass(frozen=True, slots=True)
class Candidate:
    """A plan that the referee accepts without a limit, and what it measures."""

    plan: PlacementPlan
    max_load: float
    latency: float
    source: str
    """Who found it."""


def measured(problem: PlacementProblem, settings: Settings, plan: object, source: str) -> Candidate | None:
    """The referee's numbers; None for a plan that is none of the curve, whatever the limit."""
    rules = settings.rules()
    if not isinstance(plan, PlacementPlan) or rules.violations(problem, plan):
        return None
    latency = evaluate_latency(problem, plan).latency
    return None if latency is None else Candidate(plan, rules.value(problem, plan), latency, source)


def fits(problem: PlacementProblem, settings: Settings, candidate: Candidate, limit: float) -> bool:
    return not settings.rules(limit).violations(problem, candidate.plan)


@dataclass(frozen=True, slots=True)
class Ends:
    """The quickest plan for one sample, the best for throughput, and the limits in between."""

    levels: tuple[float, ...]
    """In the problem's time unit, ascending."""
    quickest: PlacementPlan
    latency: float
    """Of the quickest plan, contiguous or not."""
    latency_bound: float
    """No plan takes less."""
    freest: PlacementPlan
    max_load: float
    """Of the best plan without a limit."""
    max_load_bound: float
    """No plan of the curve has less, whatever the limit."""

    @property
    def latency_proven(self) -> bool:
        return met(self.latency, self.latency_bound)

    @property
    def max_load_proven(self) -> bool:
        return met(self.max_load, self.max_load_bound)

    def to_json(self) -> dict[str, Any]:
        return {
            "latency": self.latency,
            "latency_bound": self.latency_bound,
            "max_load": self.max_load,
            "max_load_bound": self.max_load_bound,
        }


@dataclass(frozen=True, slots=True)
class Point(CurvePoint):
    """The best plan within one limit on the latency. Load and latency are the referee's; absent is None."""

    COLUMNS: ClassVar = (
        "latency_limit",
        "max_load",
        "latency",
        "bound",
        "gap",
        "certified",
        "stop",
        "found",
        "source",
        "seconds",
    )

    latency_limit: float
    stop: Stop
    max_load: float | None = None
    latency: float | None = None
    bound: float | None = None
    """No plan within the limit has a smaller load."""
    seconds: float = 0.0
    source: str | None = None
    plan: PlacementPlan | None = None
    messages: tuple[str, ...] = ()

    @property
    def limit(self) -> float:
        return self.latency_limit

    @property
    def value(self) -> float | None:
        return self.max_load

    def candidate(self) -> Candidate | None:
        if self.plan is None or self.max_load is None or self.latency is None:
            return None
        return Candidate(self.plan, self.max_load, self.latency, self.source or "")

    def with_plan(self, found: Candidate | None) -> Point:
        if found is None:
            return self
        facts = {"plan": found.plan, "max_load": found.max_load, "latency": found.latency, "source": found.source}
        return replace(self, **facts)  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class Tradeoff:
    """The whole curve, by growing limit."""

    columns: ClassVar = Point.COLUMNS

    problem: PlacementProblem
    settings: Settings
    ends: Ends | None
    """None: interrupted before they were known."""
    points: tuple[Point, ...]
    complete: bool

    def to_json(self) -> dict[str, Any]:
        ends = None if self.ends is None else self.ends.to_json()
        return answer_to_json(self, facts(self.problem), {"ends": ends})


def facts(problem: PlacementProblem) -> dict[str, Any]:
    return facts_of(problem, nodes=len(problem.nodes), accelerators=problem.accelerators, cpus=problem.cpus)


# ---- to a journal and back -----------------------------------------------------------------------------------


def ends_record(ends: Ends) -> dict[str, Any]:
    plans = {"quickest": ends.quickest.to_json(), "freest": ends.freest.to_json()}
    return {"record": ENDS, "levels": list(ends.levels), **ends.to_json(), **plans}


def stored_ends(problem: PlacementProblem, settings: Settings, journal: Journal) -> Ends | None:
    """The bounds are as they were proven, everything about the plans is recomputed."""
    for where, line in lines_of(journal, ENDS):
        quickest, freest = (
            PlacementPlan.from_json(require(where, line, name), f"{where}: {name}")
            for name in ("quickest", "freest")
        )
        latency, load = latency_of(problem, quickest), load_of(problem, settings, freest)
        if latency is None or load is None:
            raise InputError(f"{where}: plans", "do not stand before the referee", ANEW)
        return Ends(
            levels=tuple(level_of(where, level) for level in require_list(where, line, "levels")),
            quickest=quickest,
            latency=latency,
            latency_bound=min(latency, number_of(where, line, "latency_bound")),
            freest=freest,
            max_load=load,
            max_load_bound=min(load, number_of(where, line, "max_load_bound")),
        )
    return None


def latency_of(problem: PlacementProblem, plan: PlacementPlan) -> float | None:
    """None where the plan breaks a rule."""
    rules = LatencyRules()
    return None if rules.violations(problem, plan) else rules.value(problem, plan)


def load_of(problem: PlacementProblem, settings: Settings, plan: PlacementPlan) -> float | None:
    """Without a limit; None where the plan breaks a rule."""
    rules = ThroughputRules(contiguity=settings.rules().contiguity)
    return None if rules.violations(problem, plan) else rules.value(problem, plan)


def stored_points(problem: PlacementProblem, settings: Settings, journal: Journal) -> dict[float, Point]:
    """The bound is as it was proven, everything about the plan is recomputed."""
    points: dict[float, Point] = {}
    for where, line in lines_of(journal, POINT):
        limit = number_of(where, line, "latency_limit")
        plan = _stored_plan(problem, settings, line, limit, where)
        points[limit] = Point(limit, **as_it_was(where, line)).with_plan(plan)
    return points


def _stored_plan(
    problem: PlacementProblem, settings: Settings, line: Mapping[str, Any], limit: float, where: str
) -> Candidate | None:
    if line.get("plan") is None:
        return None
    plan = PlacementPlan.from_json(line["plan"], f"{where}: plan")
    found = measured(problem, settings, plan, str(line.get("source")))
    if found is None or not fits(problem, settings, found, limit):
        raise InputError(f"{where}: plan", "does not stand before the referee", ANEW)
    return found
