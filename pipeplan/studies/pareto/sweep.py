"""The sweep: every method at every memory limit, each point from what is known already.

Plans that fit a memory fit every larger one, and what is proven at a memory holds at every smaller one. So each exact
search starts from the best plan that fits, and where that plan meets a bound nothing is searched.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cached_property
from typing import Any

from ...formulations.registry import FORMULATIONS
from ...instances.base.errors import InputError, UsageError, did_you_mean
from ...instances.base.result import Result, Stop
from ...instances.chain.plan import PatternPlan
from ...instances.chain.problem import ChainProblem
from ...planners.chain import exact
from ...planners.options import Progress
from ...planners.run.solve import solve
from ..journal import Journal
from .candidates import PIPEDREAM, best_within, measured, pipedream_front, renumbered, single
from .curve import Sweep, Watch, bound_at, check_levels, halving, no_more_than, proven
from .curves import curves
from .frame import build_frame
from .records import EXACT_METHODS, METHODS, Candidate, Frame, Pareto, Point, Settings
from .stored import (
    candidates_to_json,
    frame_to_json,
    open_journal,
    stored_candidates,
    stored_frame,
    stored_points,
)

SMALLEST = "one batch after the other"
"""The source of the plan at the smallest memory."""


def sweep(
    problem: ChainProblem,
    settings: Settings | None = None,
    journal: Journal | None = None,
    on_progress: Callable[[Progress], None] | None = None,
) -> Pareto:
    """Period against memory; an interrupt keeps the points that are done, and the plan of the one under way."""
    settings = settings or Settings()
    check(problem, settings)
    journal = journal or open_journal(None, problem, settings)
    run = _Sweep(problem.replace(memory_bytes=None), settings, journal, on_progress)
    complete, ends = run.run(), run.ends
    points = () if ends is None else curves(run.points.values(), ends, run.candidates, settings.methods)
    return Pareto(run.problem, settings, ends, points, complete)


def check(problem: ChainProblem, settings: Settings) -> None:
    """Settings that make no sense are refused before any work is done."""
    unknown = [name for name in settings.methods if name not in METHODS]
    if unknown:
        guess = did_you_mean(unknown[0], METHODS)
        raise UsageError(f"plan pareto knows no method {unknown[0]!r}{guess}; choose from {', '.join(METHODS)}.")
    if not settings.methods:
        raise UsageError(f"There is no method to compare; choose from {', '.join(METHODS)}.")
    check_levels(settings.levels, settings.memory_bytes)
    if problem.memory_mode == "strict":
        raise InputError(
            "memory_mode",
            'is "strict", which the exact methods have no model for',
            'take "reserved" with exclusive buffers: such plans never need more than strict memory allows',
        )
    exact.check(problem.replace(memory_bytes=None))


class _Sweep(Sweep[tuple[str, float], Point, Frame]):
    """Every method at every level."""

    def __init__(self, problem: ChainProblem, settings: Settings, journal: Journal, watch: Watch) -> None:
        super().__init__(stored_points(problem, journal), stored_frame(problem, journal), journal, watch)
        self.problem, self.settings = problem, settings

    @cached_property
    def candidates(self) -> tuple[Candidate, ...]:
        """PipeDream's plans, from the journal where they are there."""
        known = stored_candidates(self.problem, self.journal)
        if known is None:
            known = pipedream_front(self.problem)
            self.journal.append(candidates_to_json(known))
        return known

    def solved_ends(self) -> Frame:
        return build_frame(self.problem, self.settings, self.candidates, self.watcher("without a limit"))

    def ends_record(self, ends: Frame) -> dict[str, Any]:
        return frame_to_json(ends)

    def keys(self, ends: Frame) -> list[tuple[str, float]]:
        """Quick methods first, so that their plans can be starts."""
        methods = sorted(dict.fromkeys(self.settings.methods), key=lambda name: name in EXACT_METHODS)
        return [(method, memory) for method in methods for memory in halving(sorted(ends.levels))]

    def point(self, key: tuple[str, float], ends: Frame) -> Point:
        method, memory = key
        if method == PIPEDREAM:
            return Point(method, memory, Stop.COMPLETED).with_plan(best_within(self.candidates, memory))
        if ends.smallest_proven and memory < ends.smallest_bytes:
            return Point(method, memory, Stop.INFEASIBLE)
        problem = self.problem.replace(memory_bytes=memory)
        start = self._start(memory, ends) if method in EXACT_METHODS else None
        if start is not None:
            own = [point for point in self.points.values() if point.method == method]
            bound = bound_at(own, memory, ends.unlimited_bound)
            if proven(start.period, bound):
                return Point(method, memory, Stop.PROVEN, bound=no_more_than(bound, start.period)).with_plan(start)
        return _judged(problem, method, self._solve(problem, method, start), start)

    def _solve(self, problem: ChainProblem, method: str, start: Candidate | None) -> Result:
        is_model = method in FORMULATIONS
        return solve(
            problem,
            formulation=method if is_model else None,
            planner=None if is_model else method,
            limits=self.settings.limits,
            warm_start="none" if start is None else renumbered(start.plan),
            on_progress=self.watcher(f"{method} at {problem.memory_bytes:.6g} B"),
        )

    def _start(self, memory: float, frame: Frame) -> Candidate | None:
        """The best plan with one batch per period that fits."""
        found = [point.candidate() for point in self.points.values()]
        known = [*self.candidates, *_ends(self.problem, frame), *(plan for plan in found if plan is not None)]
        return best_within(single(known), memory)


def _ends(problem: ChainProblem, frame: Frame) -> Iterator[Candidate]:
    smallest = measured(problem, frame.smallest_plan, SMALLEST)
    if smallest is not None:
        yield smallest
    yield Candidate(frame.unlimited_plan, frame.unlimited_period, frame.unlimited_bytes, "unlimited")


def _judged(problem: ChainProblem, method: str, result: Result, start: Candidate | None) -> Point:
    """The result as a point; the plan that it started from is named by who found it."""
    point = Point(method, problem.memory_bytes or 0.0, result.stop, bound=result.bound, messages=result.messages)
    if not isinstance(result.plan, PatternPlan) or not result.verified:
        return point
    found = measured(problem, result.plan, method)
    if found is None:
        return point
    if start is not None and found.period >= start.period:
        found = replace(found, source=start.source)
    return point.with_plan(found).settled()
