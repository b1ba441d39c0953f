"""Curves of one method along the memory of each device, and what `plan memory` asks.

Memory lies between the least with which there is a plan and the amount from which on more does not help. `plan pareto`
asks for amounts that are known before it begins, beside a plan to compare with, and `plan memory` always for the
amount where the value falls most. A plan may hold less than the memory with which it was found.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import pairwise
from typing import Any

from ..formulations.contract import Problem
from ..instances.base.clock import now
from ..instances.base.errors import InputError, UsageError
from ..instances.base.result import PROVEN_TOLERANCE, Result, Stop, met
from ..instances.least_memory import SmallestMemory, enough
from ..instances.lookup import problem_of
from ..instances.registry import kind_of
from ..instances.schedule.problem import ScheduleProblem
from ..instances.staging.problem import StagingProblem
from ..planners.memory.smallest import smallest_memory
from ..planners.options import SolveOptions, check_asked, limits_of
from ..planners.run.choose import choose
from ..planners.run.solve import describe, solve
from .journal import Journal
from .stage_schedule import Rival, best_rule, objective_of, rule_schedules, start_among
from .sweep import (
    MOST_POINTS,
    Candidate,
    CurvePoint,
    Ends,
    NothingKnownError,
    Settings,
    Sweep,
    Watch,
    bound_at,
    columns,
    no_more_than,
    opened,
    proven,
    spread,
    with_bounds_from_above,
    with_plans_from_below,
)

SCHEMA = "pipeplan.memory/1"
# The usual number of points of `plan memory`.
POINTS = 6
# The search for the least memory gets the time divided by this: a third.
LEAST_SHARE = 3
# Amounts of memory that differ by a smaller share than this count as the same.
NARROW = 0.002

# The key of the point with any amount of memory.
ANY_AMOUNT = ("", math.inf)

MemoryPoint = CurvePoint


def measured(
    problem: Any, plan: Any, source: str = "", options: Mapping[str, Any] | None = None
) -> Candidate | None:
    """The referee's numbers for a plan, without a memory limit; None for no plan, or one that breaks a rule."""
    kind, options = kind_of(problem), options or {}
    free, rules = kind.with_memory(problem, None), kind.rules(problem, options)
    if plan is None or rules.violations(free, plan):
        return None
    assert kind.held is not None, kind.name
    value, peak = rules.value(free, plan), enough(kind.held(free, plan, options))
    idle_share = getattr(rules.evaluation(free, plan), "idle_share", None)
    bubble = None if idle_share is None else max(0.0, float(idle_share(Fraction(value))))
    return Candidate(plan, value, peak, source, bubble)


class MemorySweep(Sweep):
    """The best plan in every memory: what the sweeps of all kinds have in common."""

    suffix = "_bytes"
    """What stands behind the names of amounts in JSON."""

    @classmethod
    def ends_to_json(cls, ends: Ends) -> dict[str, Any]:
        best = {"value": ends.best.value, "bound": ends.bound, f"peak{cls.suffix}": ends.best.need}
        least = {f"least{cls.suffix}": ends.least.need, f"lower{cls.suffix}": ends.lower}
        return {"ends": {**least, "unlimited": best}}

    def exact(self, problem: Any, what: str, start: Candidate | None, method: str = "") -> Result:
        """Search for the best plan, with a proof if time allows; `start` is a plan that fits, and `method` that of the
        curve, where there are several."""
        raise NotImplementedError

    def rival(self, problem: Any, what: str) -> Candidate | None:
        """The plan to compare with; also the end without a limit where time is too short for the best plan."""
        return None

    def whole(self, amount: float) -> float:
        """An amount between both ends, rounded: large ones are whole numbers of bytes."""
        return round(amount) if amount > 100 else amount

    def free_end(self, best: Candidate, least: float) -> Candidate:
        """The plan at the end without a limit: `best`, or another one that is as good and needs less, though no less
        than `least`."""
        return best

    def measured(self, plan: Any, source: str = "") -> Candidate | None:
        return measured(self.problem, plan, source, self.settings.options)

    def solved_ends(self) -> Ends:
        free = self.exact(self.problem, "without a limit", None)
        rival = None if free.verified else self.rival(self.problem, "without a limit")
        memory = smallest_memory(self.problem, self.settings.limits, on_progress=self.watcher("the least memory"))
        if Stop.INTERRUPTED in (free.stop, memory.stop):
            raise KeyboardInterrupt
        ends = [self.measured(memory.plan), self.measured(free.plan) if free.verified else rival]
        least, best = ends[0] or ends[1], ends[1] or ends[0]
        if least is None or best is None:
            raise NothingKnownError(
                f"no plan was found without a memory limit ({free.stop}); give a longer --time-limit"
            )
        if not self.settings.chosen:
            best = self.free_end(best, least.need)
        return Ends(
            levels=self.settings.chosen or spread(least.need, best.need, self.settings.levels, self.whole),
            least=replace(least, source=self.sources[0]),
            lower=memory.lower_bytes,
            best=replace(best, source=self.sources[1]),
            bound=no_more_than(free.bound, best.value),
        )

    def point(self, method: str, limit: float) -> CurvePoint:
        ends = self.known_ends
        if limit < ends.lower:
            return CurvePoint(limit, Stop.INFEASIBLE, method=method)
        problem, start = kind_of(self.problem).with_memory(self.problem, limit), self.start(method, limit)
        bound = bound_at((own for own in self.points.values() if own.method == method), limit, ends.bound)
        unit = getattr(self.problem, "memory_unit", "B") or ""
        where = f"{method} at {limit:.6g} {unit}".strip()
        rival = self.rival(problem, where)
        beside = None if rival is None else rival.value
        if start is not None and proven(start.value, bound):
            return CurvePoint(limit, Stop.PROVEN, start, no_more_than(bound, start.value), beside, method)
        result = self.exact(problem, where, start, method)
        best = self.measured(result.plan, method) if result.verified else None
        if start is not None and (best is None or start.value <= best.value):
            # A plan that is no better comes from where the start came from.
            best = start if best is None or start.value < best.value else replace(best, source=start.source)
        return CurvePoint(
            limit, result.stop, best, result.bound, beside, method, messages=result.messages
        ).settled()

    def solved(self, problem: Any, what: str, **how: Any) -> Result:
        """The result of a problem; raises `KeyboardInterrupt` if its search is interrupted."""
        result = solve(problem, limits=self.settings.limits, on_progress=self.watcher(what), **how)
        if result.stop == Stop.INTERRUPTED:
            raise KeyboardInterrupt
        return result

    def start(self, method: str, memory: float) -> Candidate | None:
        """The best plan so far that fits."""
        within = [plan for plan in self.plans if self.fits(plan, memory)]
        return min(within, key=lambda plan: (plan.value, plan.need), default=None)

    @property
    def plans(self) -> list[Candidate]:
        """The plans of both ends and of all points so far."""
        points = (point.candidate for point in self.points.values())
        return [self.known_ends.least, self.known_ends.best, *(plan for plan in points if plan is not None)]


class Stagings(MemorySweep):
    """The sweep of stagings: the exact program and the even split at every level."""

    columns = columns("memory_bytes=limit value peak_bytes=need bound gap certified even=rival stop found seconds")

    @classmethod
    def sizes(cls, problem: StagingProblem) -> dict[str, Any]:
        return {"devices": problem.devices, "layers": len(problem.layers)}

    @classmethod
    def check(cls, problem: StagingProblem, settings: Settings) -> None:
        if problem.device_types:
            remedy = "draw the curve for devices that are alike"
            raise InputError("device_types", "have memories of their own", remedy)

    def exact(self, problem: StagingProblem, what: str, start: Candidate | None, method: str = "") -> Result:
        return self.solved(problem, what, planner="dp-piper")

    def rival(self, problem: StagingProblem, what: str) -> Candidate | None:
        return self.measured(self.solved(problem, f"an even split {what}", planner="equi").plan)


class Schedules(MemorySweep):
    """The sweep of schedules: the default method and the named rules at every level."""

    takes = ("memory", "objective")
    suffix = ""
    columns = columns("memory=limit value peak=need bubble bound gap certified rule=rival stop found seconds")

    @classmethod
    def own_settings(cls, problem: ScheduleProblem, asked: Mapping[str, Any]) -> dict[str, Any]:
        return {"options": {"objective": objective_of(asked.get("objective"), problem.micro_batches)}}

    @classmethod
    def sizes(cls, problem: ScheduleProblem) -> dict[str, Any]:
        counts = {"devices": len(problem.devices), "blocks": len(problem.blocks)}
        return {**counts, "memory_unit": problem.memory_unit}

    @classmethod
    def check(cls, problem: ScheduleProblem, settings: Settings) -> None:
        if not any(block.memory or block.workspace for block in problem.blocks):
            raise UsageError(f"No block of {problem.name} takes any memory, so there is no curve.")

    def __init__(self, problem: ScheduleProblem, settings: Settings, journal: Journal, watch: Watch) -> None:
        super().__init__(problem, settings, journal, watch)
        self.objective = str(settings.options["objective"])
        self.rules: dict[str, list[Rival]] = {}
        """Schedules by published rules, by the digest of the problem."""

    def _rules(self, problem: ScheduleProblem) -> list[Rival]:
        if problem.hash not in self.rules:
            self.rules[problem.hash] = rule_schedules(problem, self.objective, self.settings.limits)
        return self.rules[problem.hash]

    def exact(self, problem: ScheduleProblem, what: str, start: Candidate | None, method: str = "") -> Result:
        known = None if start is None else start.plan
        start_with = start_among(problem, self.objective, {}, self._rules(problem), known)
        return self.solved(problem, what, options=self.settings.options, warm_start=start_with)

    def rival(self, problem: ScheduleProblem, what: str) -> Candidate | None:
        best = best_rule(self._rules(problem))
        return None if best is None else self.measured(best.plan)

    def free_end(self, best: Candidate, least: float) -> Candidate:
        """The schedule that needs least memory, of the best one and those of rules that are as good."""
        plans = (self.measured(schedule.plan) for schedule in self._rules(self.problem))
        alike = [p for p in plans if p is not None and (p.value < best.value or met(p.value, best.value))]
        return min([best, *alike], key=lambda plan: plan.need)


# ---- `plan memory` ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class MemoryStudy:
    """The least memory, and points by growing memory up to where more does not help."""

    problem: Problem
    least: SmallestMemory
    points: tuple[CurvePoint, ...] = ()
    method: str | None = None
    """The method that found these values."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """The options with which these values were found."""
    complete: bool = True
    """Were all points asked for, without an interrupt and before the time was over?"""
    open_above: bool = False
    """Is the value with any amount of memory missing?"""

    @property
    def no_more_helps(self) -> CurvePoint | None:
        """The first point that is as good as the last one."""
        last = self.points[-1].value if self.points and not self.open_above else None
        if last is None:
            return None
        return next(point for point in self.points if point.value is not None and not worse(point.value, last))

    def to_json(self) -> dict[str, Any]:
        no_more = self.no_more_helps
        return {
            "schema": SCHEMA,
            "problem": describe(self.problem),
            "least": self.least.to_json(),
            "plan": None if self.least.plan is None else self.least.plan.to_json(),
            "method": self.method,
            "points": [point.to_json(_Worth.columns) for point in self.points],
            "no_more_helps_from_bytes": None if no_more is None else no_more.limit,
            "complete": self.complete,
        }


def memory_study(
    problem: Problem | str | os.PathLike[str],
    *,
    formulation: str | None = None,
    planner: str | None = None,
    options: Mapping[str, Any] | None = None,
    limits: SolveOptions | None = None,
    points: int = POINTS,
    on_progress: Watch = None,
) -> MemoryStudy:
    """Find the least memory per device with a plan, and the best values with more of it.

    The memory is the same on each device, and what the problem says of it does not count. An interrupt or the end of
    the time keeps what is known by then.

    Parameters
    ----------
    problem : Problem, str or PathLike
        A problem, the path of a file, or the name of a packaged instance.
    formulation : str, optional
        The name of a model for the values, which the exact planner is handed. None: see `planner`.
    planner : str, optional
        The name of another way to the values. None: the exact planner with that formulation; with neither, the best
        exact method for the problem.
    options : Mapping, optional
        Options that the formulation or planner declares, by name. None: its defaults.
    limits : SolveOptions, optional
        Limits, of which the time is for everything together. None: no limits, and proofs are sought to the end.
    points : int
        Number of amounts of memory to ask for, from the least to that from which more does not help. 0: only the least
        amount itself, without values.
    on_progress : callable, optional
        Called with a `Progress` whenever there is news. None: nobody watches.

    Returns
    -------
    MemoryStudy
        The least memory, and a point with value and bound for each amount.

    Raises
    ------
    InputError
        An argument has another type.
    UsageError
        There is no such instance, method or option, or they do not go together.
    """
    problem, limits = problem_of(problem), limits_of(limits)
    if isinstance(points, bool) or not isinstance(points, int) or not 0 <= points <= MOST_POINTS:
        raise InputError("points", f"is {points!r}", f"give a whole number from 0 to {MOST_POINTS}")
    check_asked({"formulation": formulation, "planner": planner}, options, on_progress)
    choose(problem, formulation, planner, "auto", options or {})  # refused before any work is done
    method: dict[str, Any] = {"formulation": formulation, "planner": planner, "options": options}
    free = kind_of(problem).with_memory(problem, None)
    worth = _Worth(free, Settings(points, limits=limits), opened(problem, Settings()), on_progress)
    return worth.study(problem, method)


class _Worth(MemorySweep):
    """The sweep of `plan memory`, for problems of every kind: all points share one time limit, and each follows from
    those before it. The first, without a limit, has an infinite one."""

    columns = columns("memory_bytes=limit value bound gap certified stop")

    least: SmallestMemory
    method: Mapping[str, Any]
    """How values are asked for."""
    name: str | None = None
    """The method that answered."""
    in_time = True

    def study(self, problem: Problem, method: Mapping[str, Any]) -> MemoryStudy:
        """The answer for a problem, of which this one is free of its limit; values are found by the method."""
        self.method = method
        complete = self.run() and self.in_time and self.least.stop != Stop.TIME
        open_above = self.points.get(ANY_AMOUNT) is None or self.points[ANY_AMOUNT].candidate is None
        points = tuple(settled(self.points.values()))
        return MemoryStudy(problem, self.least, points, self.name, self.settings.options, complete, open_above)

    def seek_ends(self) -> None:
        shared = self._limits(LEAST_SHARE if self.settings.levels else 1)
        options = self.method["options"]
        self.least = smallest_memory(self.problem, shared, options=options, on_progress=self.watch)
        if self.least.stop == Stop.INTERRUPTED:
            raise KeyboardInterrupt

    def keys(self) -> Iterator[tuple[str, float]]:
        """Both ends, then always the middle where the value falls most."""
        ends = [] if self.least.memory_bytes is None else [ANY_AMOUNT, ("", self.least.memory_bytes)]
        for number in range(self.settings.levels if ends else 0):
            if self._seconds_left() == 0:
                self.in_time = False
                return
            key = ends[number] if number < len(ends) else self._steepest()
            if key is None:  # nothing is left to ask
                return
            yield key

    def point(self, method: str, limit: float) -> CurvePoint:
        asked = kind_of(self.problem).with_memory(self.problem, None if limit == math.inf else limit)
        limits = self._limits(self.settings.levels - len(self.points))
        result = solve(asked, **self.method, limits=limits, on_progress=self.watch)
        self.name = result.formulation or result.planner
        self.settings = replace(self.settings, options=result.options)
        candidate = self.measured(result.plan, str(self.name)) if result.verified else None
        limit = limit if candidate is None else min(limit, candidate.need)
        return CurvePoint(limit, result.stop, candidate, result.bound, messages=result.messages)

    def _steepest(self) -> tuple[str, float] | None:
        """The amount between the two points where the value falls most; None where all amounts are nearly the same."""
        best, most = None, 0.0
        for low, high in pairwise(settled(self.points.values())):
            if low.value is None or high.value is None or high.limit <= low.limit * (1 + NARROW):
                continue
            fall, middle = low.value - high.value, _middle(low.limit, high.limit)
            if worse(low.value, high.value) and fall > most and ("", middle) not in self.points:
                best, most = ("", middle), fall
        return best

    def _limits(self, share: int) -> SolveOptions:
        left = self._seconds_left()
        return replace(self.settings.limits, time_limit_s=None if left is None else left / share)

    def _seconds_left(self) -> float | None:
        limit = self.settings.limits.time_limit_s
        return None if limit is None else max(0.0, limit - (now() - self.begun))


def _middle(low: float, high: float) -> float:
    """The amount in the middle by ratio, as curves are steep where memory is short; in whole bytes if there is room."""
    middle = (low * high) ** 0.5 if low > 0 else (low + high) / 2
    return float(round(middle)) if high - low >= 2 else middle


def worse(value: float, other: float) -> bool:
    """Is a value worse by more than a proof leaves open?"""
    return value - other > PROVEN_TOLERANCE * abs(value)


def settled(points: Iterable[CurvePoint]) -> list[CurvePoint]:
    """The points by growing memory, each amount once; neither value nor bound ever grows with it."""
    kept: dict[float, CurvePoint] = {}
    finite = (point for point in points if math.isfinite(point.limit))
    for point in sorted(finite, key=lambda point: (point.value is None, point.value)):
        best = kept.setdefault(point.limit, point)
        kept[point.limit] = replace(best, bound=bound_at((best, point), point.limit, None))
    return [point.settled() for point in with_bounds_from_above(with_plans_from_below(kept.values()), None)]
