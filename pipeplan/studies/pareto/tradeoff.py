"""The study of placements of inference: the best throughput within limits on the latency of one sample.

A plan within a limit is within every larger one, and what is proven within a limit holds within every smaller one. So
each search starts from the best plan that is within its limit, and where that meets a bound nothing is searched.
"""

from __future__ import annotations

import os
from dataclasses import replace
from functools import partial
from typing import Any

from ...formulations.registry import FORMULATIONS
from ...instances.base.kind import Function
from ...instances.base.result import Result, Stop
from ...instances.placement.plan import PlacementPlan
from ...instances.placement.problem import PlacementProblem
from ...planners.run.choose import check_extensions, time_of
from ...planners.run.solve import solve
from ..journal import Journal
from .curve import (
    NothingKnownError,
    Sweep,
    Watch,
    between,
    bound_at,
    check_levels,
    halving,
    no_more_than,
    places,
    proven,
    with_bounds_from_above,
    with_plans_from_below,
)
from .stored import opened
from .study import Asked, Study
from .tradeoff_records import (
    Candidate,
    Ends,
    Point,
    Settings,
    Tradeoff,
    ends_record,
    facts,
    fits,
    latency_of,
    load_of,
    measured,
    stored_ends,
    stored_points,
)

METHOD, QUICKEST, FREE, QUICK = "cp-tarnawski", "ip-tarnawski-latency", "ip-tarnawski", "linear-dp-limited"
_HERE = "pipeplan.studies.pareto"

STUDY = Study(
    takes=frozenset({"latency_limit", "non_contiguous", "subgraphs_per_device"}),
    run=Function(f"{_HERE}.tradeoff:ready"),
    draw_table=Function("pipeplan.show.terminal.tradeoff:draw_tradeoff"),
    front=Function("pipeplan.show.front:of_placement"),
)


def ready(
    problem: PlacementProblem, asked: Asked, path: str | os.PathLike[str] | None, resume: bool
) -> partial[Tradeoff]:
    """The sweep with its checked settings and its journal; a watcher is missing."""
    settings = _settings(problem, asked)
    check(problem, settings)
    return partial(sweep, problem, settings, opened(path, facts(problem), settings.to_json(), resume))


def _settings(problem: PlacementProblem, asked: Asked) -> Settings:
    own = asked.own
    limits = [time_of(problem, "latency_limit", text) for text in own.get("latency_limit", ())]
    levels, chosen = places("--latency-limit", limits, asked.levels)
    return Settings(
        levels=levels,
        latency_limits=chosen,
        non_contiguous=own.get("non_contiguous", False),
        subgraphs_per_device=own.get("subgraphs_per_device", 1),
        limits=asked.limits,
    )


def check(problem: PlacementProblem, settings: Settings) -> None:
    """Settings that make no sense are refused before any work is done."""
    check_levels(settings.levels, settings.latency_limits)
    check_extensions(FORMULATIONS[METHOD], problem)
    for limit in settings.latency_limits or (1.0,):
        FORMULATIONS[METHOD].load().check(problem, settings.options(limit))


def sweep(
    problem: PlacementProblem,
    settings: Settings | None = None,
    journal: Journal | None = None,
    on_progress: Watch = None,
) -> Tradeoff:
    """Load against latency; an interrupt keeps the points that are done, and the plan of the one under way."""
    settings = settings or Settings()
    check(problem, settings)
    run = _Sweep(problem, settings, journal or opened(None), on_progress)
    complete, ends = run.run(), run.ends
    found = with_plans_from_below(run.points.values())
    points = [] if ends is None else with_bounds_from_above(found, ends.max_load_bound)
    return Tradeoff(problem, settings, ends, tuple(point.settled() for point in points), complete)


class _Sweep(Sweep[float, Point, Ends]):
    """The limited model at every limit, from the best plan that keeps it."""

    def __init__(self, problem: PlacementProblem, settings: Settings, journal: Journal, watch: Watch) -> None:
        points = stored_points(problem, settings, journal)
        super().__init__(points, stored_ends(problem, settings, journal), journal, watch)
        self.problem, self.settings = problem, settings

    def keys(self, ends: Ends) -> list[float]:
        return halving(sorted(ends.levels))

    def ends_record(self, ends: Ends) -> dict[str, Any]:
        return ends_record(ends)

    def solved_ends(self) -> Ends:
        settings, problem = self.settings, self.problem
        pieces = {"subgraphs_per_device": settings.subgraphs_per_device}
        quickest = self._end("latency alone", formulation=QUICKEST, options=pieces)
        free = self._end("load alone", formulation=FREE, options={"non_contiguous": settings.non_contiguous})
        plans = quickest.plan, free.plan
        assert quickest.bound is not None, "a model has a bound that needs no solver"
        assert free.bound is not None, "a model has a bound that needs no solver"
        assert isinstance(plans[0], PlacementPlan)
        assert isinstance(plans[1], PlacementPlan)
        latency, load = latency_of(problem, plans[0]), load_of(problem, settings, plans[1])
        assert latency is not None, "the referee has accepted it"
        assert load is not None, "the referee has accepted it"
        last = max(latency, latency_of(problem, plans[1]) or 0.0)
        return Ends(
            levels=settings.latency_limits or _levels(latency, last, settings.levels),
            quickest=plans[0],
            latency=latency,
            latency_bound=min(latency, quickest.bound),
            freest=plans[1],
            max_load=load,
            max_load_bound=min(load, free.bound),
        )

    def _end(self, what: str, **method: Any) -> Result:
        result = solve(self.problem, **method, limits=self.settings.limits, on_progress=self.watcher(what))
        if result.stop == Stop.INTERRUPTED:
            raise KeyboardInterrupt
        if not result.verified:
            raise NothingKnownError(f"no plan was found for {what} ({result.stop}); give a longer --time-limit")
        return result

    def point(self, key: float, ends: Ends) -> Point:
        if ends.latency_bound > key * (1 + 1e-9):
            return Point(key, Stop.INFEASIBLE)
        start, bound = self._start(key, ends), bound_at(self.points.values(), key, ends.max_load_bound)
        if start is not None and proven(start.max_load, bound):
            return Point(key, Stop.PROVEN, bound=no_more_than(bound, start.max_load)).with_plan(start)
        return self._searched(key, start)

    def _searched(self, limit: float, start: Candidate | None) -> Point:
        result = solve(
            self.problem,
            formulation=METHOD,
            options=self.settings.options(limit),
            limits=self.settings.limits,
            warm_start="none" if start is None else start.plan,
            on_progress=self.watcher(f"latency at most {limit:.6g}"),
        )
        point = Point(limit, result.stop, bound=result.bound, messages=result.messages)
        found = measured(self.problem, self.settings, result.plan, METHOD) if result.verified else None
        if found is not None and start is not None and found.max_load >= start.max_load:
            found = replace(found, source=start.source)
        return point.with_plan(found).settled()

    def _start(self, limit: float, ends: Ends) -> Candidate | None:
        """The best known plan within the limit, a quick one for this very limit among them."""
        quick = solve(
            self.problem,
            planner=QUICK,
            options={"latency_limit": limit},
            limits=self.settings.limits,
            warm_start="none",
        )
        known = [measured(self.problem, self.settings, plan, "an end") for plan in (ends.quickest, ends.freest)]
        known.append(measured(self.problem, self.settings, quick.plan, QUICK))
        known += [point.candidate() for point in self.points.values()]
        within = [plan for plan in known if plan is not None and fits(self.problem, self.settings, plan, limit)]
        return min(within, key=lambda plan: (plan.max_load, plan.latency), default=None)


def _levels(least: float, most: float, count: int) -> tuple[float, ...]:
    """Both ends, and what lies between."""
    if not 0 < least < most:
        return (most,) if most > 0 else (1.0,)
    return tuple(sorted({least, *between(least, most, count), most}))
