"""The study of placements of inference: the best throughput within limits on the latency of one sample.

Each search starts from the best plan so far within its limit; where that plan meets a bound, nothing is searched.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from typing import Any

from ...formulations.registry import FORMULATIONS
from ...instances.base.kind import Later
from ...instances.base.result import Result, Stop
from ...instances.placement.plan import PlacementPlan
from ...instances.placement.problem import PlacementProblem
from ...instances.placement.referee.latency import evaluate_latency
from ...instances.placement.rules import LatencyRules, LimitedRules, ThroughputRules
from ...planners.options import SolveOptions
from ...planners.run.choose import check_extensions, time_of
from ...planners.run.solve import solve
from . import curve
from .curve import Asked, Axes, Candidate, CurvePoint, Ends, NothingKnownError, Settings, Sweep
from .study import Study

# Methods of a point, of both ends, and of a quick start.
METHOD, QUICKEST, FREE, QUICK = "cp-tarnawski", "ip-tarnawski-latency", "ip-tarnawski", "linear-dp-limited"
# The source of the plans at both ends.
END = "an end"

STUDY = Study(
    takes=frozenset({"latency_limit", "non_contiguous", "subgraphs_per_device"}),
    sweep=Later("pipeplan.studies.pareto.tradeoff:Placements"),
)


def facts(problem: PlacementProblem) -> dict[str, Any]:
    return curve.facts_of(problem, nodes=len(problem.nodes), accelerators=problem.accelerators, cpus=problem.cpus)


def _ends_to_json(ends: Ends | None) -> dict[str, Any]:
    if ends is None:
        return {"ends": None}
    latency = {"latency": ends.least.need, "latency_bound": ends.lower}
    return {"ends": {**latency, "max_load": ends.best.value, "max_load_bound": ends.bound}}


AXES = Axes(
    columns={
        "latency_limit": "limit",
        "max_load": "value",
        "latency": "need",
        **{name: name for name in ("bound", "gap", "certified", "stop", "found", "source", "seconds")},
    },
    facts=facts,
    ends=_ends_to_json,
)


def settings_of(
    levels: int = curve.LEVELS,
    latency_limits: Iterable[float] = (),
    limits: SolveOptions = curve.USUAL,
    *,
    non_contiguous: bool = False,
    subgraphs_per_device: int = 1,
) -> Settings:
    """The settings of a sweep; `latency_limits` take the place of a number of levels."""
    options = {"non_contiguous": non_contiguous, "subgraphs_per_device": subgraphs_per_device}
    return Settings(levels, tuple(latency_limits), limits, options, axis="latency_limits")


def rules_within(settings: Settings, limit: float = math.inf) -> LimitedRules:
    """The rules by which the plans of a point are judged."""
    return LimitedRules(
        contiguity="none" if settings.options["non_contiguous"] else "chain",
        latency_limit=limit,
        subgraphs_per_device=settings.options["subgraphs_per_device"],
    )


class Placements(Sweep):
    """The sweep of placements: the limited model at every limit, from the best plan that keeps it."""

    axes = AXES

    @classmethod
    def settings_for(cls, problem: PlacementProblem, asked: Asked) -> Settings:
        own = dict(asked.own)
        limits = [time_of(problem, "latency_limit", text) for text in own.pop("latency_limit", ())]
        return settings_of(*curve.places("--latency-limit", limits, asked.levels), asked.limits, **own)

    @classmethod
    def check(cls, problem: PlacementProblem, settings: Settings) -> None:
        settings.check_levels()
        check_extensions(FORMULATIONS[METHOD], problem)
        for limit in settings.chosen or (1.0,):
            FORMULATIONS[METHOD].load().check(problem, {"latency_limit": limit, **settings.options})

    @classmethod
    def free(cls, problem: PlacementProblem) -> PlacementProblem:
        return problem

    def measured(self, plan: Any, source: str = "") -> Candidate | None:
        rules = rules_within(self.settings)
        if not isinstance(plan, PlacementPlan) or rules.violations(self.problem, plan):
            return None
        latency = evaluate_latency(self.problem, plan).latency
        return None if latency is None else Candidate(plan, rules.value(self.problem, plan), latency, source)

    def fits(self, candidate: Candidate, limit: float) -> bool:
        return not rules_within(self.settings, limit).violations(self.problem, candidate.plan)

    def least_of(self, plan: Any) -> Candidate | None:
        """The plan with the least latency. It may break contiguity, so its load is not a value of the curve."""
        latency = self._latency_of(plan)
        return None if latency is None else Candidate(plan, math.inf, latency, END)

    def best_of(self, plan: Any) -> Candidate | None:
        rules = ThroughputRules(contiguity=rules_within(self.settings).contiguity)
        if rules.violations(self.problem, plan):
            return None
        return Candidate(plan, rules.value(self.problem, plan), self._latency_of(plan) or 0.0, END)

    def _latency_of(self, plan: PlacementPlan) -> float | None:
        """Latency of the plan; None where the plan breaks a rule."""
        rules = LatencyRules()
        return None if rules.violations(self.problem, plan) else rules.value(self.problem, plan)

    def solved_ends(self) -> Ends:
        settings = self.settings
        pieces, contiguity = ({name: settings.options[name]} for name in ("subgraphs_per_device", "non_contiguous"))
        quickest = self._end("latency alone", formulation=QUICKEST, options=pieces)
        free = self._end("load alone", formulation=FREE, options=contiguity)
        assert quickest.bound is not None, "a model has a bound that needs no solver"
        assert free.bound is not None, "a model has a bound that needs no solver"
        least, best = self.least_of(quickest.plan), self.best_of(free.plan)
        assert least is not None, "the referee has accepted it"
        assert best is not None, "the referee has accepted it"
        return Ends(
            levels=settings.chosen or _levels(least.need, max(least.need, best.need), settings.levels),
            least=least,
            lower=min(least.need, quickest.bound),
            best=best,
            bound=min(best.value, free.bound),
        )

    def _end(self, what: str, **method: Any) -> Result:
        result = solve(self.problem, **method, limits=self.settings.limits, on_progress=self.watcher(what))
        if result.stop == Stop.INTERRUPTED:
            raise KeyboardInterrupt
        if not result.verified:
            raise NothingKnownError(f"no plan was found for {what} ({result.stop}); give a longer --time-limit")
        return result

    def point(self, method: str, limit: float, ends: Ends) -> CurvePoint:
        if ends.lower > limit * (1 + 1e-9):
            return CurvePoint(limit, Stop.INFEASIBLE)
        start, bound = self._start(limit, ends), curve.bound_at(self.points.values(), limit, ends.bound)
        if start is not None and curve.proven(start.value, bound):
            return CurvePoint(limit, Stop.PROVEN, start, curve.no_more_than(bound, start.value))
        return self._searched(limit, start)

    def _searched(self, limit: float, start: Candidate | None) -> CurvePoint:
        result = solve(
            self.problem,
            formulation=METHOD,
            options={"latency_limit": limit, **self.settings.options},
            limits=self.settings.limits,
            warm_start="none" if start is None else start.plan,
            on_progress=self.watcher(f"latency at most {limit:.6g}"),
        )
        plan = self.measured(result.plan, METHOD) if result.verified else None
        if plan is not None and start is not None and plan.value >= start.value:
            plan = replace(plan, source=start.source)
        return CurvePoint(limit, result.stop, plan, result.bound, messages=result.messages).settled()

    def _start(self, limit: float, ends: Ends) -> Candidate | None:
        """The best known plan within the limit, a quick one for this very limit among them."""
        quick = solve(
            self.problem,
            planner=QUICK,
            options={"latency_limit": limit},
            limits=self.settings.limits,
            warm_start="none",
        )
        plans = [self.measured(plan, END) for plan in (ends.least.plan, ends.best.plan)]
        plans += [self.measured(quick.plan, QUICK), *(point.candidate for point in self.points.values())]
        within = [plan for plan in plans if plan is not None and self.fits(plan, limit)]
        return min(within, key=lambda plan: (plan.value, plan.need), default=None)


sweep = partial(curve.sweep, Placements)


def _levels(least: float, most: float, count: int) -> tuple[float, ...]:
    """The limits of the points: both ends, and amounts between them."""
    if not 0 < least < most:
        return (most,) if most > 0 else (1.0,)
    return tuple(sorted({least, *curve.between(least, most, count), most}))
