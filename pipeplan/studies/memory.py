"""The least memory with which a problem has a plan, and what more memory is worth, up to where more does not help.

A plan may hold less than the memory with which it was found; its point is at the amount that it holds. Plans count for
every larger memory, bounds for every smaller one.

Points, curve and bounds are those of `pareto`; the loop is one of its own. `pareto` knows its amounts before it begins,
and a journal can go on with what is left of them. Here the next amount follows from what the last plan holds, all of
them share one time limit, and the first is the answer of a search.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ..formulations.contract import Problem
from ..instances.base.clock import now
from ..instances.base.errors import InputError
from ..instances.base.result import PROVEN_TOLERANCE, Result, Stop
from ..instances.least_memory import SmallestMemory, enough
from ..instances.lookup import problem_of
from ..instances.registry import kind_of
from ..planners.memory.smallest import smallest_memory
from ..planners.options import SolveOptions, check_asked, limits_of
from ..planners.run.choose import choose
from ..planners.run.solve import describe, solve
from .pareto.curve import Candidate, CurvePoint, Watch, bound_at, with_bounds_from_above, with_plans_from_below

SCHEMA = "pipeplan.memory/1"
# The usual number of points, and the most.
POINTS, MOST_POINTS = 6, 1000
# The search for the least memory gets the time divided by this: a third.
LEAST_SHARE = 3
# Amounts of memory that differ by a smaller share than this count as the same.
NARROW = 0.002

MemoryPoint = CurvePoint
# What JSON calls the parts of a point.
COLUMNS = {"memory_bytes": "limit", **{name: name for name in ("value", "bound", "gap", "certified", "stop")}}


@dataclass(frozen=True, slots=True)
class MemoryStudy:
    """The least memory, and points by growing memory up to where more does not help."""

    problem: Problem
    least: SmallestMemory
    points: tuple[MemoryPoint, ...] = ()
    method: str | None = None
    """The method that found these values."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """The options with which these values were found."""
    complete: bool = True
    """Were all points asked for, without an interrupt and before the time was over?"""
    open_above: bool = False
    """Is the value with any amount of memory missing?"""

    @property
    def no_more_helps(self) -> MemoryPoint | None:
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
    study = _Study(
        problem, {"formulation": formulation, "planner": planner, "options": options}, limits, on_progress
    )
    return study.run(points)


class _Study:
    def __init__(self, problem: Problem, method: Mapping[str, Any], limits: SolveOptions, watch: Watch) -> None:
        self.problem, self.method, self.limits, self.watch = problem, method, limits, watch
        self.started = now()
        self.points: list[MemoryPoint] = []
        self.name: str | None = None
        self.options: Mapping[str, Any] = {}
        self.interrupted = False
        self.open_above = True
        self.asked: set[float] = set()

    def run(self, count: int) -> MemoryStudy:
        shared = self._limits(LEAST_SHARE if count else 1)
        least = smallest_memory(self.problem, shared, options=self.method["options"], on_progress=self.watch)
        self.interrupted = least.stop == Stop.INTERRUPTED
        asked = 0
        if least.memory_bytes is not None:
            asked = self._ask_all(least.memory_bytes, count)
        whole = least.stop != Stop.TIME and (least.memory_bytes is None or asked == count)
        complete = whole and not self.interrupted
        return MemoryStudy(
            self.problem, least, tuple(self.points), self.name, self.options, complete, self.open_above
        )

    def _ask_all(self, least: float, count: int) -> int:
        """Ask for both ends, then always where the value falls most; the number of amounts that are settled."""
        amounts: list[float | None] = [None, least][:count]
        for number in range(count):
            if self.interrupted or self._seconds_left() == 0:
                return number
            amount = amounts[number] if number < len(amounts) else self._steepest()
            if number >= len(amounts) and amount is None:
                return count  # nothing is left to ask
            self._ask(amount, count - number)
        return count

    def _ask(self, amount: float | None, share: int) -> None:
        if amount is not None:
            self.asked.add(amount)
        begun, asked = now(), kind_of(self.problem).with_memory(self.problem, amount)
        result = solve(asked, **self.method, limits=self._limits(share), on_progress=self.watch)
        self.interrupted = result.stop == Stop.INTERRUPTED
        self.name, self.options = result.formulation or result.planner, result.options
        point = self._point(amount, result)
        if point is not None:
            self.open_above &= amount is not None
            self.points = settled([*self.points, replace(point, seconds=now() - begun)])

    def _point(self, amount: float | None, result: Result) -> MemoryPoint | None:
        """The point of a result: at what its plan holds; without a plan, at the amount that was asked for."""
        limit, candidate = amount, None
        if result.plan is not None and result.objective is not None and result.verified:
            fullest = kind_of(self.problem).held
            assert fullest is not None, self.problem.kind
            need = enough(fullest(self.problem, result.plan, result.options))
            limit = need if amount is None else min(need, amount)
            candidate = Candidate(result.plan, result.objective, limit, str(self.name))
        if limit is None:
            return None
        return MemoryPoint(limit, result.stop, candidate, result.bound, messages=result.messages)

    def _steepest(self) -> float | None:
        """The amount between the two points where the value falls most; None where all amounts are nearly the same."""
        best, most = None, 0.0
        for low, high in zip(self.points, self.points[1:], strict=False):
            if low.value is None or high.value is None or high.limit <= low.limit * (1 + NARROW):
                continue
            fall, middle = low.value - high.value, _middle(low.limit, high.limit)
            if worse(low.value, high.value) and fall > most and middle not in self.asked:
                best, most = middle, fall
        return best

    def _limits(self, share: int) -> SolveOptions:
        left = self._seconds_left()
        return replace(self.limits, time_limit_s=None if left is None else left / share)

    def _seconds_left(self) -> float | None:
        limit = self.limits.time_limit_s
        return None if limit is None else max(0.0, limit - (now() - self.started))


def _middle(low: float, high: float) -> float:
    """The amount in the middle by ratio, as curves are steep where memory is short; in whole bytes if there is room."""
    middle = (low * high) ** 0.5 if low > 0 else (low + high) / 2
    return float(round(middle)) if high - low >= 2 else middle


def worse(value: float, other: float) -> bool:
    """Is a value worse by more than a proof leaves open?"""
    return value - other > PROVEN_TOLERANCE * abs(value)


def settled(points: Iterable[MemoryPoint]) -> list[MemoryPoint]:
    """The points by growing memory, each amount once; neither value nor bound ever grows with it."""
    kept: dict[float, MemoryPoint] = {}
    for point in sorted(points, key=lambda point: (point.value is None, point.value)):
        best = kept.setdefault(point.limit, point)
        kept[point.limit] = replace(best, bound=bound_at((best, point), point.limit, None))
    return [point.settled() for point in with_bounds_from_above(with_plans_from_below(kept.values()), None)]
