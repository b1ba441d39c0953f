"""What `plan memory` asks: the least memory with a plan, and what more of it is worth.

Memory lies between the least with which there is a plan and the amount from which on more does not help. Both are found
first, then always the best value in the middle where it falls most. A plan may hold less than the memory with which it
was found.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

from ..formulations.contract import Problem
from ..instances.base.clock import now
from ..instances.base.errors import InputError
from ..instances.base.result import PROVEN_TOLERANCE, Stop
from ..instances.least_memory import SmallestMemory
from ..instances.lookup import problem_of
from ..instances.registry import kind_of
from ..planners.memory.smallest import smallest_memory
from ..planners.options import SolveOptions, check_asked, limits_of
from ..planners.run.choose import choose
from ..planners.run.solve import describe, solve
from .sweep import (
    MOST_POINTS,
    CurvePoint,
    Sweep,
    Watch,
    bound_at,
    columns,
    measured,
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
# The attribute of `CurvePoint` for each key of a point in JSON.
COLUMNS = columns("memory_bytes=limit value bound gap certified stop")

# The key of the point with any amount of memory.
ANY_AMOUNT = ("", math.inf)

MemoryPoint = CurvePoint


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
            "points": [point.to_json(COLUMNS) for point in self.points],
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
    return _Worth(free, points, method, limits, on_progress).study(problem)


class _Worth(Sweep):
    """The sweep of `plan memory`, for problems of every kind: all points share one time limit, and each follows from
    those before it. The first, without a limit, has an infinite one."""

    least: SmallestMemory

    def __init__(
        self, problem: Problem, count: int, method: Mapping[str, Any], limits: SolveOptions, watch: Watch
    ) -> None:
        """A problem without a limit; `method` says how values are asked for."""
        super().__init__(problem, watch)
        self.count, self.method, self.limits = count, method, limits
        self.name: str | None = None
        """The method that answered."""
        self.options: Mapping[str, Any] = {}
        """The options with which it did."""
        self.in_time = True

    def study(self, problem: Problem) -> MemoryStudy:
        """The answer for a problem, of which this one is free of its limit."""
        complete = self.run() and self.in_time and self.least.stop != Stop.TIME
        open_above = self.points.get(ANY_AMOUNT) is None or self.points[ANY_AMOUNT].candidate is None
        points = tuple(settled(self.points.values()))
        return MemoryStudy(problem, self.least, points, self.name, self.options, complete, open_above)

    def seek_ends(self) -> None:
        shared = self._limits(LEAST_SHARE if self.count else 1)
        options = self.method["options"]
        self.least = smallest_memory(self.problem, shared, options=options, on_progress=self.watch)
        if self.least.stop == Stop.INTERRUPTED:
            raise KeyboardInterrupt

    def keys(self) -> Iterator[tuple[str, float]]:
        """Both ends, then always the middle where the value falls most."""
        ends = [] if self.least.memory_bytes is None else [ANY_AMOUNT, ("", self.least.memory_bytes)]
        for number in range(self.count if ends else 0):
            if self._seconds_left() == 0:
                self.in_time = False
                return
            key = ends[number] if number < len(ends) else self._steepest()
            if key is None:  # nothing is left to ask
                return
            yield key

    def point(self, method: str, limit: float) -> CurvePoint:
        asked = kind_of(self.problem).with_memory(self.problem, None if limit == math.inf else limit)
        limits = self._limits(self.count - len(self.points))
        result = solve(asked, **self.method, limits=limits, on_progress=self.watch)
        self.name = result.formulation or result.planner
        self.options = result.options
        plan = result.plan if result.verified else None
        candidate = measured(self.problem, plan, str(self.name), self.options)
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
        return replace(self.limits, time_limit_s=None if left is None else left / share)

    def _seconds_left(self) -> float | None:
        limit = self.limits.time_limit_s
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
