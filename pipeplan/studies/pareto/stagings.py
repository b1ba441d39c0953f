"""The study of stagings, flat or on levels: time per micro-batch against the memory of a device.

A point is solved only where the best plan that fits does not meet what is proven above it.
"""

from __future__ import annotations

import os
from functools import partial
from typing import Any

from ...instances.errors import InputError
from ...instances.result import Result, Stop
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
    run="pipeplan.studies.pareto.stagings:ready",
    draw_table="pipeplan.show.terminal.memory_curve:draw_table",
    draw_picture="pipeplan.show.pictures.memory_curve:draw_curve",
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
    run = _Sweep(problem.replace(memory_bytes=None), settings, journal or opened(None), on_progress)
    complete, ends = run.run(), run.ends
    points = [] if ends is None else with_bounds_from_above(with_plans_from_below(run.points.values()), ends.bound)
    return MemoryCurve(run.problem, settings, ends, tuple(point.settled() for point in points), complete)


class _Sweep(Sweep[float, MemoryPoint, Ends]):
    """The exact program and the even split at every level."""

    def __init__(self, problem: StagingProblem, settings: Settings, journal: Journal, watch: Watch) -> None:
        super().__init__(stored_points(problem, journal), stored_ends(problem, journal), journal, watch)
        self.problem, self.settings = problem, settings

    def keys(self, ends: Ends) -> list[float]:
        return halving(sorted(ends.levels))

    def ends_record(self, ends: Ends) -> dict[str, Any]:
        return ends_record(ends)

    def solved_ends(self) -> Ends:
        """Where time was too short for the best plan, the even split is the end without a limit."""
        free = self._solved(self.problem, "without a limit")
        even = free if free.verified else self._solved(self.problem, "an even split", EVEN)
        known = smallest_memory(self.problem, self.settings.limits, on_progress=self.watcher("the least memory"))
        if known.stop == Stop.INTERRUPTED:
            raise KeyboardInterrupt
        ends = [measured(self.problem, plan) for plan in (known.plan, even.plan)]
        least, best = ends[0] or ends[1], ends[1] or ends[0]
        if least is None or best is None:
            raise NothingKnownError(
                f"no plan was found without a memory limit ({free.stop}); give a longer --time-limit"
            )
        return Ends(
            levels=self.settings.memory_bytes or _levels(least.peak_bytes, best.peak_bytes, self.settings.levels),
            least=least,
            lower_bytes=known.lower_bytes,
            best=best,
            bound=no_more_than(free.bound, best.value),
        )

    def point(self, key: float, ends: Ends) -> MemoryPoint:
        if key < ends.lower_bytes:
            return MemoryPoint(key, Stop.INFEASIBLE)
        problem, known = self.problem.replace(memory_bytes=key), self._known(key, ends)
        bound = bound_at(self.points.values(), key, ends.bound)
        even = self._solved(problem, f"an even split at {key:.6g} B", EVEN).objective
        if known is not None and proven(known.value, bound):
            return MemoryPoint(key, Stop.PROVEN, known, no_more_than(bound, known.value), even)
        result = self._solved(problem, f"at {key:.6g} B")
        found = measured(self.problem, result.plan) if result.verified else None
        rivals = [plan for plan in (found, known) if plan is not None]
        best = min(rivals, key=lambda plan: plan.value, default=None)
        return MemoryPoint(key, result.stop, best, result.bound, even, messages=result.messages).settled()

    def _known(self, memory: float, ends: Ends) -> Staged | None:
        """The best plan so far that fits."""
        plans = [ends.least, ends.best, *(point.staged for point in self.points.values())]
        within = [plan for plan in plans if plan is not None and fits(self.problem, plan, memory)]
        return min(within, key=lambda plan: (plan.value, plan.peak_bytes), default=None)

    def _solved(self, problem: StagingProblem, what: str, planner: str = METHOD) -> Result:
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
