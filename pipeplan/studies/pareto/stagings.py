"""The study of stagings, flat or on levels: time per micro-batch against the memory of a device.

A plan that fits a memory fits every larger one, and what is proven at a memory holds at every smaller one. So a point
is solved only where the best plan that fits does not meet what is proven above it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial

from ...instances.clock import now
from ...instances.errors import InputError, UsageError
from ...instances.result import Result, Stop
from ...instances.staging.problem import StagingProblem
from ...planners.run.solve import solve
from ..journal import Journal
from .records import SCHEMA, met
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
    point_record,
    stored_ends,
    stored_points,
)
from .stored import opened
from .study import LEVELS, Asked, Study, Watch
from .sweep import halving

METHOD, EVEN = "dp-piper", "equi"
CLOSE = 0.01
"""Of the least memory: how closely it is sought."""

STUDY = Study(
    takes=frozenset({"memory"}),
    run="pipeplan.studies.pareto.stagings:ready",
    write_csv="pipeplan.studies.pareto.staging_records:write_csv",
    draw_table="pipeplan.show.terminal.memory_curve:draw_table",
    draw_picture="pipeplan.show.pictures.memory_curve:draw_curve",
)


def ready(
    problem: StagingProblem, asked: Asked, path: str | os.PathLike[str] | None, resume: bool
) -> Callable[[Watch], MemoryCurve]:
    """The sweep with its checked settings and its journal; a watcher is missing."""
    settings = _settings(asked)
    check(problem, settings)
    head = {"schema": SCHEMA, "problem": facts(problem), "settings": settings.to_json()}
    return partial(sweep, problem, settings, opened(path, head, resume))


def _settings(asked: Asked) -> Settings:
    memory = asked.own.get("memory")
    if memory and asked.levels is not None:
        raise UsageError("--memory and --levels both say where the points lie; give one of them.")
    levels = LEVELS if asked.levels is None else asked.levels
    return Settings(levels, tuple(sorted(set(memory or ()))), asked.limits)


def check(problem: StagingProblem, settings: Settings) -> None:
    """What makes no sense is refused before any work is done."""
    if not settings.memory_bytes and settings.levels < 2:
        raise InputError("levels", f"is {settings.levels}", "give at least 2: both ends of the curve are levels")
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
    run = _Sweep(problem.replace(memory_bytes=None), settings, journal or opened(None, {}, False), on_progress)
    complete = True
    try:
        run.prepare()
        run.run()
    except KeyboardInterrupt:
        complete = False
    points = () if run.ends is None else _curve(run.points.values(), run.ends)
    return MemoryCurve(run.problem, settings, run.ends, points, complete)


class _Sweep:
    """The state of one sweep."""

    def __init__(self, problem: StagingProblem, settings: Settings, journal: Journal, watch: Watch) -> None:
        self.problem, self.settings, self.journal, self.watch = problem, settings, journal, watch
        self.points = {point.memory_bytes: point for point in stored_points(problem, journal)}
        self.ends: Ends | None = None
        self.begun = now()

    def prepare(self) -> None:
        """Both ends and the levels, from the journal where they are there."""
        self.ends = stored_ends(self.problem, self.journal)
        if self.ends is None:
            self.ends = self._solved_ends()
            self.journal.append(ends_record(self.ends))

    def run(self) -> None:
        """The ends first, then always the middle between two levels."""
        assert self.ends is not None
        for memory in halving(sorted(self.ends.levels)):
            if memory not in self.points:
                point = self.points[memory] = self._point(memory, self.ends)
                if point.stop != Stop.ERROR:  # else the next run may do better
                    self.journal.append(point_record(point))

    def _solved_ends(self) -> Ends:
        free = self._solved(self.problem, "without a limit")
        best = measured(self.problem, free.plan) if free.verified else None
        if best is None or free.bound is None:
            raise UsageError(f"Without a memory limit no plan was found ({free.stop}); give a longer --time-limit.")
        least, below = self._least(best)
        return Ends(
            levels=self.settings.memory_bytes or _levels(least.peak_bytes, best.peak_bytes, self.settings.levels),
            least=least,
            below_bytes=below,
            best=best,
            bound=min(free.bound, best.value),
        )

    def _least(self, best: Staged) -> tuple[Staged, float]:
        """A plan with nearly the least memory, and an amount that is known to be too little."""
        least, below = best, 0.0
        while least.peak_bytes - below > CLOSE * least.peak_bytes:
            middle = (least.peak_bytes + below) / 2
            result = self._solved(self.problem.replace(memory_bytes=middle), f"{middle:.6g} B")
            found = measured(self.problem, result.plan) if result.verified else None
            if found is not None:
                least = found
            elif result.stop == Stop.INFEASIBLE:
                below = middle
            else:
                break
        return least, below

    def _point(self, memory: float, ends: Ends) -> MemoryPoint:
        begun = now()
        if memory <= ends.below_bytes:
            return MemoryPoint(memory, Stop.INFEASIBLE)
        problem, known = self.problem.replace(memory_bytes=memory), self._known(memory, ends)
        bound = self._bound(memory, ends)
        if known is not None and met(known.value, bound):
            point = MemoryPoint(memory, Stop.PROVEN, bound=min(bound, known.value)).with_plan(known)
        else:
            result = self._solved(problem, f"{memory:.6g} B")
            found = measured(problem, result.plan) if result.verified else None
            rivals = [plan for plan in (found, known) if plan is not None]
            point = MemoryPoint(memory, result.stop, bound=result.bound, messages=result.messages)
            point = point.with_plan(min(rivals, key=lambda plan: plan.value, default=None)).settled()
        return replace(point, even=self._even(problem), seconds=now() - begun)

    def _even(self, problem: StagingProblem) -> float | None:
        """What an equal split takes in the same memory."""
        return self._solved(problem, "an equal split", EVEN).objective

    def _known(self, memory: float, ends: Ends) -> Staged | None:
        """The best plan so far that fits."""
        plans = [
            ends.least,
            ends.best,
            *(plan for point in self.points.values() if (plan := point.staged) is not None),
        ]
        within = [plan for plan in plans if fits(self.problem, plan, memory)]
        return min(within, key=lambda plan: (plan.value, plan.peak_bytes), default=None)

    def _bound(self, memory: float, ends: Ends) -> float:
        """What is proven at this memory or a larger one."""
        above = (point.bound for point in self.points.values() if point.memory_bytes >= memory)
        return max(ends.bound, *(bound for bound in above if bound is not None), 0.0)

    def _solved(self, problem: StagingProblem, what: str, planner: str = METHOD) -> Result:
        result = solve(problem, planner=planner, limits=self.settings.limits, on_progress=self._watcher(what))
        if result.stop == Stop.INTERRUPTED:
            raise KeyboardInterrupt
        return result

    def _watcher(self, what: str) -> Watch:
        """Progress says which point is under way, and counts the time of the whole sweep."""
        watch = self.watch
        if watch is None:
            return None
        return lambda record: watch(replace(record, seconds=now() - self.begun, source=what))


def _levels(least: float, most: float, count: int) -> tuple[float, ...]:
    """In equal ratios, both ends among them."""
    if not 0 < least < most:
        return (most,)
    inner = (least * (most / least) ** (i / (count - 1)) for i in range(1, count - 1))
    return tuple(sorted({least, *(float(round(level)) if level > 100 else level for level in inner), most}))


def _curve(points: Iterable[MemoryPoint], ends: Ends) -> tuple[MemoryPoint, ...]:
    """By growing memory; along the curve neither value nor bound ever grows."""
    by_memory = sorted(points, key=lambda point: point.memory_bytes)
    best: Staged | None = None
    for i, point in enumerate(by_memory):
        if best is not None and (point.value is None or best.value < point.value):
            by_memory[i] = point.with_plan(best)
        best = by_memory[i].staged or best
    bound = ends.bound
    for i, point in reversed(list(enumerate(by_memory))):
        bound = max(bound, point.bound or 0.0)
        if point.stop != Stop.INFEASIBLE:
            bound = bound if point.value is None else min(bound, point.value)
            by_memory[i] = replace(point, bound=bound).settled()
    return tuple(by_memory)
