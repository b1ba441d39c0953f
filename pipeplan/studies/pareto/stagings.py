"""The study of stagings, flat or on levels: time per micro-batch against the memory of a device.

A point is solved only where the best plan that fits does not meet what is proven above it.
"""

from __future__ import annotations

import os
from functools import partial
from typing import Any

from ...instances.base.errors import InputError
from ...instances.base.kind import Function
from ...instances.base.result import Result, Stop
from ...instances.registry import Plan, Problem, kind_of
from ...instances.staging.problem import StagingProblem
from ...planners.memory.smallest import smallest_memory
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
from .staging_records import (
    Ends,
    MemoryCurve,
    MemoryPoint,
    Point,
    Settings,
    Staged,
    ends_record,
    facts,
    fits,
    measured,
    stored_ends,
    stored_points,
)
from .stored import opened
from .study import Asked, Study

METHOD, EVEN = "dp-piper", "equi"

STUDY = Study(
    takes=frozenset({"memory"}),
    run=Function("pipeplan.studies.pareto.stagings:ready"),
    draw_table=Function("pipeplan.show.terminal.memory_curve:draw_table"),
    front=Function("pipeplan.show.front:of_staging"),
)


def ready(
    problem: StagingProblem, asked: Asked, path: str | os.PathLike[str] | None, resume: bool
) -> partial[MemoryCurve]:
    """The sweep with its checked settings and its journal; a watcher is missing."""
    settings = Settings(*places("--memory", asked.own.get("memory"), asked.levels), asked.limits)
    check(problem, settings)
    return partial(sweep, problem, settings, opened(path, facts(problem), settings.to_json(), resume))


def check(problem: StagingProblem, settings: Settings) -> None:
    """What makes no sense is refused before any work is done."""
    check_levels(settings.levels, settings.memory_bytes)
    if problem.device_types:
        raise InputError("device_types", "have memories of their own", "draw the curve for devices that are alike")


def sweep(
    problem: StagingProblem,
    settings: Settings | None = None,
    journal: Journal | None = None,
    on_progress: Watch = None,
) -> MemoryCurve:
    """Time against memory; an interrupt keeps the points that are done."""
    settings = settings or Settings()
    check(problem, settings)
    run = _Stagings(problem.replace(memory_bytes=None), settings, journal or opened(None), on_progress)
    complete, ends = run.run(), run.ends
    points = [] if ends is None else with_bounds_from_above(with_plans_from_below(run.points.values()), ends.bound)
    return MemoryCurve(run.problem, settings, ends, tuple(point.settled() for point in points), complete)


class MemorySweep(Sweep[float, Point, Ends]):
    """The best plan in every memory: what all kinds do alike."""

    unit = "B"
    point_type: type[Point]

    def __init__(self, problem: Problem, settings: Settings, journal: Journal, watch: Watch) -> None:
        points = stored_points(problem, journal, self.point_type, settings.options)
        super().__init__(points, stored_ends(problem, journal, settings.options), journal, watch)
        self.problem: Any = problem
        self.settings = settings

    def keys(self, ends: Ends) -> list[float]:
        return halving(sorted(ends.levels))

    def ends_record(self, ends: Ends) -> dict[str, Any]:
        return ends_record(ends)

    def exact(self, problem: Any, what: str, start: Staged | None) -> Result:
        """The best plan, with a proof where time allows; `start` fits."""
        raise NotImplementedError

    def rival(self, problem: Any, what: str) -> Staged | None:
        """What is compared with, and the end without a limit where time is too short for the best plan."""
        raise NotImplementedError

    def free_end(self, best: Staged, rival: Staged | None) -> Staged:
        """The plan without a limit, of those that are as good."""
        return best

    def solved_ends(self) -> Ends:
        free = self.exact(self.problem, "without a limit", None)
        rival = None if free.verified else self.rival(self.problem, "without a limit")
        known = smallest_memory(self.problem, self.settings.limits, on_progress=self.watcher("the least memory"))
        if known.stop == Stop.INTERRUPTED:
            raise KeyboardInterrupt
        measured_free = self.measured(free.plan) if free.verified else rival
        ends = [self.measured(known.plan), measured_free]
        least, best = ends[0] or ends[1], ends[1] or ends[0]
        if least is None or best is None:
            raise NothingKnownError(
                f"no plan was found without a memory limit ({free.stop}); give a longer --time-limit"
            )
        best = self.free_end(best, rival)
        return Ends(
            levels=self.settings.memory_bytes or _levels(least.peak_bytes, best.peak_bytes, self.settings.levels),
            least=least,
            lower_bytes=known.lower_bytes,
            best=best,
            bound=no_more_than(free.bound, best.value),
        )

    def point(self, key: float, ends: Ends) -> Point:
        if key < ends.lower_bytes:
            return self.point_type(key, Stop.INFEASIBLE)
        problem, known = kind_of(self.problem).with_memory(self.problem, key), self._known(key, ends)
        bound = bound_at(self.points.values(), key, ends.bound)
        where = f"at {key:.6g} {self.unit}".rstrip()
        rival = self.rival(problem, where)
        beside = None if rival is None else rival.value
        if known is not None and proven(known.value, bound):
            return self.point_type(key, Stop.PROVEN, known, no_more_than(bound, known.value), beside)
        result = self.exact(problem, where, known)
        found = self.measured(result.plan) if result.verified else None
        rivals = [plan for plan in (found, known) if plan is not None]
        best = min(rivals, key=lambda plan: plan.value, default=None)
        return self.point_type(key, result.stop, best, result.bound, beside, messages=result.messages).settled()

    def measured(self, plan: Plan | None) -> Staged | None:
        return measured(self.problem, plan, self.settings.options)

    def _known(self, memory: float, ends: Ends) -> Staged | None:
        """The best plan so far that fits."""
        plans = [ends.least, ends.best, *(point.staged for point in self.points.values())]
        within = [
            plan for plan in plans if plan is not None and fits(self.problem, plan, memory, self.settings.options)
        ]
        return min(within, key=lambda plan: (plan.value, plan.peak_bytes), default=None)


class _Stagings(MemorySweep[MemoryPoint]):
    """The exact program and the even split at every level."""

    point_type = MemoryPoint

    def exact(self, problem: StagingProblem, what: str, start: Staged | None) -> Result:
        return self._solved(problem, what, METHOD)

    def rival(self, problem: StagingProblem, what: str) -> Staged | None:
        return self.measured(self._solved(problem, f"an even split {what}", EVEN).plan)

    def _solved(self, problem: StagingProblem, what: str, planner: str) -> Result:
        result = solve(problem, planner=planner, limits=self.settings.limits, on_progress=self.watcher(what))
        if result.stop == Stop.INTERRUPTED:
            raise KeyboardInterrupt
        return result


def _levels(least: float, most: float, count: int) -> tuple[float, ...]:
    """In whole bytes where there are many, both ends among them."""
    if not 0 < least < most:
        return (most,)
    inner = (float(round(level)) if level > 100 else level for level in between(least, most, count))
    return tuple(sorted({least, *inner, most}))
