"""The study of placements of inference: the best throughput within limits on the latency of one sample.

A plan within a limit is within every larger one, and what is proven within a limit holds within every smaller one. So
each search starts from the best plan that is within its limit, and where that meets a bound nothing is searched.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from typing import Any

from ...formulations.registry import FORMULATIONS
from ...instances.clock import now
from ...instances.errors import InputError, UsageError
from ...instances.placement.plan import PlacementPlan
from ...instances.placement.problem import PlacementProblem
from ...instances.result import Result, Stop
from ...planners.options import Progress
from ...planners.run.choose import check_extensions, time_of
from ...planners.run.solve import solve
from ..journal import Journal
from .records import SCHEMA, met
from .stored import opened
from .study import LEVELS, Asked, Study, Watch
from .sweep import halving
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
    point_record,
    stored_ends,
    stored_points,
)

METHOD, QUICKEST, FREE, QUICK = "cp-tarnawski", "ip-tarnawski-latency", "ip-tarnawski", "linear-dp-limited"
_HERE = "pipeplan.studies.pareto"

STUDY = Study(
    takes=frozenset({"latency_limit", "non_contiguous", "subgraphs_per_device"}),
    run=f"{_HERE}.tradeoff:ready",
    write_csv=f"{_HERE}.export:write_tradeoff",
    draw_table="pipeplan.show.terminal.tradeoff:draw_tradeoff",
    draw_picture="pipeplan.show.pictures.tradeoff:draw_tradeoff",
)


def ready(
    problem: PlacementProblem, asked: Asked, path: str | os.PathLike[str] | None, resume: bool
) -> partial[Tradeoff]:
    """The sweep with its checked settings and its journal; a watcher is missing."""
    settings = _settings(problem, asked)
    check(problem, settings)
    head = {"schema": SCHEMA, "problem": facts(problem), "settings": settings.to_json()}
    return partial(sweep, problem, settings, opened(path, head, resume))


def _settings(problem: PlacementProblem, asked: Asked) -> Settings:
    own = asked.own
    limits = [time_of(problem, "latency_limit", text) for text in own.get("latency_limit", ())]
    if limits and asked.levels is not None:
        raise UsageError("--latency-limit and --levels both say where the points lie; give one of them.")
    return Settings(
        levels=LEVELS if asked.levels is None else asked.levels,
        latency_limits=tuple(sorted(set(limits))),
        non_contiguous=own.get("non_contiguous", False),
        subgraphs_per_device=own.get("subgraphs_per_device", 1),
        limits=asked.limits,
    )


def check(problem: PlacementProblem, settings: Settings) -> None:
    """Settings that make no sense are refused before any work is done."""
    if not settings.latency_limits and settings.levels < 2:
        raise InputError("levels", f"is {settings.levels}", "give at least 2: both ends of the curve are levels")
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
    run = _Sweep(problem, settings, journal or opened(None, {}, False), on_progress)
    complete = True
    try:
        run.prepare()
        run.run()
    except KeyboardInterrupt:
        complete = False
    points = () if run.ends is None else _curve(run.points.values(), run.ends)
    return Tradeoff(problem, settings, run.ends, points, complete and not run.interrupted)


class _Sweep:
    """The state of one sweep."""

    def __init__(self, problem: PlacementProblem, settings: Settings, journal: Journal, watch: Watch) -> None:
        self.problem, self.settings, self.journal, self.watch = problem, settings, journal, watch
        self.points = {point.latency_limit: point for point in stored_points(problem, settings, journal)}
        self.ends: Ends | None = None
        self.interrupted = False
        self.begun = now()

    def prepare(self) -> None:
        """Both ends and the levels, from the journal where they are there."""
        self.ends = stored_ends(self.problem, self.settings, self.journal)
        if self.ends is None:
            self.ends = self._solved_ends()
            self.journal.append(ends_record(self.ends))

    def run(self) -> None:
        """The ends first, then always the middle between two levels."""
        assert self.ends is not None
        for limit in halving(sorted(self.ends.levels)):
            if limit in self.points:
                continue
            point = self.points[limit] = self._point(limit, self.ends)
            if point.stop == Stop.INTERRUPTED:
                self.interrupted = True
                return
            if point.stop != Stop.ERROR:  # else the next run may do better
                self.journal.append(point_record(point))

    def _solved_ends(self) -> Ends:
        settings, problem = self.settings, self.problem
        pieces = {"subgraphs_per_device": settings.subgraphs_per_device}
        quickest = self._end("latency alone", formulation=QUICKEST, options=pieces)
        free = self._end("load alone", formulation=FREE, options={"non_contiguous": settings.non_contiguous})
        plans = quickest.plan, free.plan
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
            latency_bound=quickest.bound or 0.0,
            freest=plans[1],
            max_load=load,
            max_load_bound=free.bound or 0.0,
        )

    def _end(self, what: str, **method: Any) -> Result:
        result = solve(self.problem, **method, limits=self.settings.limits, on_progress=self._watcher(what))
        if result.stop == Stop.INTERRUPTED:
            raise KeyboardInterrupt
        if not result.verified:
            raise UsageError(
                f"No plan was found for {what} ({result.stop}); give a longer --time-limit, or a larger cluster."
            )
        return result

    def _point(self, limit: float, ends: Ends) -> Point:
        begun = now()
        if ends.latency_bound > limit * (1 + 1e-9):
            return Point(limit, Stop.INFEASIBLE)
        start, bound = self._start(limit, ends), self._bound(limit, ends)
        if start is not None and met(start.max_load, bound):
            point = Point(limit, Stop.PROVEN, bound=min(bound, start.max_load)).with_plan(start)
        else:
            point = self._searched(limit, start)
        return replace(point, seconds=now() - begun)

    def _searched(self, limit: float, start: Candidate | None) -> Point:
        result = solve(
            self.problem,
            formulation=METHOD,
            options=self.settings.options(limit),
            limits=self.settings.limits,
            warm_start="none" if start is None else start.plan,
            on_progress=self._watcher(f"latency at most {limit:.6g}"),
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

    def _bound(self, limit: float, ends: Ends) -> float:
        """What is proven within this limit or a larger one."""
        above = (point.bound for point in self.points.values() if point.latency_limit >= limit)
        return max(ends.max_load_bound, *(bound for bound in above if bound is not None), 0.0)

    def _watcher(self, what: str) -> Watch:
        """Progress says which point is under way, and counts the time of the whole sweep."""
        watch = self.watch
        if watch is None:
            return None
        count = "" if self.ends is None else f" ({len(self.points) + 1} of {len(self.ends.levels)})"

        def tell(record: Progress) -> None:
            watch(replace(record, seconds=now() - self.begun, source=f"{what}{count}"))

        return tell


def _levels(least: float, most: float, count: int) -> tuple[float, ...]:
    """In equal ratios, both ends among them."""
    if not 0 < least < most:
        return (most,) if most > 0 else (1.0,)
    inner = [least * (most / least) ** (i / (count - 1)) for i in range(1, count - 1)]
    return tuple(sorted({least, *inner, most}))


def _curve(points: Iterable[Point], ends: Ends) -> tuple[Point, ...]:
    """By growing limit; along the curve neither load nor bound ever grows."""
    return tuple(_with_bounds_from_above(_with_plans_from_below(points), ends))


def _with_plans_from_below(points: Iterable[Point]) -> list[Point]:
    answer: list[Point] = []
    for point in sorted(points, key=lambda point: point.latency_limit):
        best = answer[-1].candidate() if answer else None
        if best is not None and (point.max_load is None or best.max_load < point.max_load):
            point = point.with_plan(best)
        answer.append(point)
    return answer


def _with_bounds_from_above(points: list[Point], ends: Ends) -> list[Point]:
    answer: list[Point] = []
    bound = ends.max_load_bound
    for point in reversed(points):
        bound = max(bound, point.bound or 0.0)
        if point.stop != Stop.INFEASIBLE:
            bound = bound if point.max_load is None else min(bound, point.max_load)
            point = replace(point, bound=bound).settled()
        answer.append(point)
    return answer[::-1]
