"""The sweep: every method at every memory limit, each point from what is known already.

Plans that fit a memory fit every larger one, and what is proven at a memory holds at every smaller one. So each exact
search starts from the best plan that fits, and where that plan meets a bound nothing is searched.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from ...formulations.registry import FORMULATIONS
from ...instances.chain.plan import PatternPlan
from ...instances.chain.problem import ChainProblem
from ...instances.clock import now
from ...instances.errors import InputError, UsageError, did_you_mean
from ...instances.result import Result, Stop
from ...planners.beaumont import exact
from ...planners.options import Progress
from ...planners.run.solve import solve
from ..journal import Journal
from .candidates import PIPEDREAM, best_within, measured, pipedream_front, renumbered, single
from .curves import candidate_of, curves, settled
from .frame import Watch, build_frame
from .records import EXACT_METHODS, METHODS, Candidate, Frame, Pareto, Point, Settings, met
from .stored import (
    POINT,
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
    complete = True
    try:
        run.prepare()
        run.run()
    except KeyboardInterrupt:
        complete = False
    points = () if run.frame is None else curves(run.points.values(), run.frame, run.candidates, settings.methods)
    return Pareto(run.problem, settings, run.frame, points, complete and not run.interrupted)


def halving(levels: Sequence[float]) -> list[float]:
    """Both ends, then always the middle between two: plans come from below and bounds from above."""
    order = [*levels[:1], *levels[1:][-1:]]
    spans = [(0, len(levels) - 1)]
    for low, high in spans:
        middle = (low + high) // 2
        if high - low > 1:
            order.append(levels[middle])
            spans += [(low, middle), (middle, high)]
    return order


def check(problem: ChainProblem, settings: Settings) -> None:
    """Settings that make no sense are refused before any work is done."""
    unknown = [name for name in settings.methods if name not in METHODS]
    if unknown:
        guess = did_you_mean(unknown[0], METHODS)
        raise UsageError(f"plan pareto knows no method {unknown[0]!r}{guess}; choose from {', '.join(METHODS)}.")
    if not settings.methods:
        raise UsageError(f"There is no method to compare; choose from {', '.join(METHODS)}.")
    if not settings.memory_bytes and settings.levels < 2:
        raise InputError("levels", f"is {settings.levels}", "give at least 2: both ends of the curve are levels")
    if problem.memory_mode == "strict":
        raise InputError(
            "memory_mode",
            'is "strict", which the exact methods have no model for',
            'take "reserved" with exclusive buffers: such plans never need more than strict memory allows',
        )
    exact.check(problem.replace(memory_bytes=None))


class _Sweep:
    """The state of one sweep."""

    def __init__(self, problem: ChainProblem, settings: Settings, journal: Journal, watch: Watch) -> None:
        self.problem, self.settings, self.journal, self.watch = problem, settings, journal, watch
        self.points = stored_points(problem, journal)
        self.frame: Frame | None = None
        self.candidates: tuple[Candidate, ...] = ()
        """PipeDream's plans."""
        self.interrupted = False
        self.begun = now()

    def prepare(self) -> None:
        """PipeDream's runs and the levels, from the journal where they are there."""
        known = stored_candidates(self.problem, self.journal)
        self.candidates = pipedream_front(self.problem) if known is None else known
        if known is None:
            self.journal.append(candidates_to_json(self.candidates))
        frame = stored_frame(self.problem, self.journal)
        if frame is None:
            frame = build_frame(self.problem, self.settings, self.candidates, self._watcher("without a limit"))
            self.journal.append(frame_to_json(frame))
        self.frame = frame

    def run(self) -> None:
        """Quick methods first, so that their plans can be starts."""
        assert self.frame is not None
        methods = sorted(dict.fromkeys(self.settings.methods), key=lambda name: name in EXACT_METHODS)
        for method in methods:
            for memory in halving(sorted(self.frame.levels)):
                if (method, memory) in self.points:
                    continue
                point = self._point(method, memory, self.frame)
                self.points[method, memory] = point
                if point.stop == Stop.INTERRUPTED:
                    self.interrupted = True
                    return
                if point.stop != Stop.ERROR:  # else the next run may do better
                    self.journal.append({"record": POINT, **point.to_json()})

    def _point(self, method: str, memory: float, frame: Frame) -> Point:
        begun = now()
        if method == PIPEDREAM:
            best = best_within(self.candidates, memory)
            return Point(method, memory, Stop.COMPLETED).with_plan(best, now() - begun)
        if frame.smallest_proven and memory < frame.smallest_bytes:
            return Point(method, memory, Stop.INFEASIBLE)
        problem = self.problem.replace(memory_bytes=memory)
        start = self._start(memory, frame) if method in EXACT_METHODS else None
        bound = self._bound(method, memory, frame) if method in EXACT_METHODS else None
        if start is not None and bound is not None and met(start.period, bound):
            point = Point(method, memory, Stop.PROVEN, bound=min(bound, start.period))
            return point.with_plan(start, now() - begun)
        result = self._solve(problem, method, start)
        point = _judged(problem, method, result, start)
        return replace(point, seconds=now() - begun)

    def _solve(self, problem: ChainProblem, method: str, start: Candidate | None) -> Result:
        is_model = method in FORMULATIONS
        return solve(
            problem,
            formulation=method if is_model else None,
            planner=None if is_model else method,
            limits=self.settings.limits,
            warm_start="none" if start is None else renumbered(start.plan),
            on_progress=self._watcher(f"{method} at {problem.memory_bytes:.6g} B"),
        )

    def _start(self, memory: float, frame: Frame) -> Candidate | None:
        """The best plan with one batch per period that fits."""
        found = [candidate_of(point) for point in self.points.values()]
        known = [*self.candidates, *_ends(self.problem, frame), *(plan for plan in found if plan is not None)]
        return best_within(single(known), memory)

    def _bound(self, method: str, memory: float, frame: Frame) -> float:
        """What is proven at this memory or a larger one."""
        above = (p.bound for p in self.points.values() if p.method == method and p.memory_bytes >= memory)
        return max(frame.unlimited_bound, *(bound for bound in above if bound is not None), 0.0)

    def _watcher(self, what: str) -> Watch:
        """Progress says which point is under way, and counts the time of the whole sweep."""
        watch, done = self.watch, len(self.points)
        if watch is None:
            return None
        count = (
            "" if self.frame is None else f" ({done + 1} of {len(self.frame.levels) * len(self.settings.methods)})"
        )

        def tell(record: Progress) -> None:
            assert watch is not None
            watch(replace(record, seconds=now() - self.begun, source=f"{what}{count}"))

        return tell


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
    return settled(point.with_plan(found, 0.0))
