"""The study of stagings, flat or on levels: time per micro-batch against the memory of a device.

A point is solved only where the best plan that fits does not meet the bound that looser limits give.
"""

from __future__ import annotations

from fractions import Fraction
from functools import partial
from typing import Any

from ...instances.base.errors import InputError
from ...instances.base.kind import Later
from ...instances.base.result import Result, Stop
from ...instances.least_memory import enough
from ...instances.registry import kind_of
from ...instances.staging.problem import StagingProblem
from ...planners.memory.smallest import smallest_memory
from ...planners.run.solve import solve
from . import curve
from .curve import Axes, Candidate, CurvePoint, Ends, NothingKnownError, Settings, Sweep
from .study import Study

# The exact method, and that of the even split.
METHOD, EVEN = "dp-piper", "equi"

STUDY = Study(
    takes=frozenset({"memory"}),
    sweep=Later("pipeplan.studies.pareto.stagings:Stagings"),
)


def facts(problem: StagingProblem) -> dict[str, Any]:
    free = problem.replace(memory_bytes=None)
    return curve.facts_of(free, devices=free.devices, layers=len(free.layers))


def ends_to_json(ends: Ends | None, unit: str = "_bytes") -> dict[str, Any]:
    """The ends of a curve over memory; `unit` is what stands behind the names of amounts."""
    if ends is None:
        return {"ends": None}
    best = {"value": ends.best.value, "bound": ends.bound, f"peak{unit}": ends.best.need}
    return {"ends": {f"least{unit}": ends.least.need, f"lower{unit}": ends.lower, "unlimited": best}}


AXES = Axes(
    columns={
        "memory_bytes": "limit",
        "value": "value",
        "peak_bytes": "need",
        "bound": "bound",
        "gap": "gap",
        "certified": "certified",
        "even": "rival",
        **{name: name for name in ("stop", "found", "seconds")},
    },
    facts=facts,
    ends=ends_to_json,
)


class MemorySweep(Sweep):
    """The best plan in every memory; the common part of the sweeps of stagings and schedules."""

    unit = "B"

    def exact(self, problem: Any, what: str, start: Candidate | None) -> Result:
        """Search for the best plan, with a proof if time allows; `start` is a plan that fits."""
        raise NotImplementedError

    def rival(self, problem: Any, what: str) -> Candidate | None:
        """The plan to compare with; also the end without a limit where time is too short for the best plan."""
        raise NotImplementedError

    def free_end(self, best: Candidate, rival: Candidate | None) -> Candidate:
        """The plan at the end without a limit: `best`, or another one that is as good and needs less."""
        return best

    def measured(self, plan: Any, source: str = "") -> Candidate | None:
        kind, options = kind_of(self.problem), self.settings.options
        rules = kind.rules(self.problem, options)
        if plan is None or rules.violations(self.problem, plan):
            return None
        assert kind.held is not None, kind.name
        peak = enough(kind.held(self.problem, plan, options))
        idle_share = getattr(rules.evaluation(self.problem, plan), "idle_share", None)
        value = rules.value(self.problem, plan)
        bubble = None if idle_share is None else max(0.0, float(idle_share(Fraction(value))))
        return Candidate(plan, value, peak, source, bubble)

    def fits(self, candidate: Candidate, limit: float) -> bool:
        kind = kind_of(self.problem)
        limited = kind.with_memory(self.problem, limit)
        return not kind.rules(limited, self.settings.options).violations(limited, candidate.plan)

    def solved_ends(self) -> Ends:
        free = self.exact(self.problem, "without a limit", None)
        rival = None if free.verified else self.rival(self.problem, "without a limit")
        memory = smallest_memory(self.problem, self.settings.limits, on_progress=self.watcher("the least memory"))
        if memory.stop == Stop.INTERRUPTED:
            raise KeyboardInterrupt
        ends = [self.measured(memory.plan), self.measured(free.plan) if free.verified else rival]
        least, best = ends[0] or ends[1], ends[1] or ends[0]
        if least is None or best is None:
            raise NothingKnownError(
                f"no plan was found without a memory limit ({free.stop}); give a longer --time-limit"
            )
        best = self.free_end(best, rival)
        return Ends(
            levels=self.settings.chosen or _levels(least.need, best.need, self.settings.levels),
            least=least,
            lower=memory.lower_bytes,
            best=best,
            bound=curve.no_more_than(free.bound, best.value),
        )

    def point(self, method: str, limit: float, ends: Ends) -> CurvePoint:
        if limit < ends.lower:
            return CurvePoint(limit, Stop.INFEASIBLE)
        problem, start = kind_of(self.problem).with_memory(self.problem, limit), self._start(limit, ends)
        bound = curve.bound_at(self.points.values(), limit, ends.bound)
        where = f"at {limit:.6g} {self.unit}".rstrip()
        rival = self.rival(problem, where)
        beside = None if rival is None else rival.value
        if start is not None and curve.proven(start.value, bound):
            return CurvePoint(limit, Stop.PROVEN, start, curve.no_more_than(bound, start.value), beside)
        result = self.exact(problem, where, start)
        plans = [self.measured(result.plan) if result.verified else None, start]
        best = min((plan for plan in plans if plan is not None), key=lambda plan: plan.value, default=None)
        return CurvePoint(limit, result.stop, best, result.bound, beside, messages=result.messages).settled()

    def _start(self, memory: float, ends: Ends) -> Candidate | None:
        """The best plan so far that fits."""
        plans = [ends.least, ends.best, *(point.candidate for point in self.points.values())]
        within = [plan for plan in plans if plan is not None and self.fits(plan, memory)]
        return min(within, key=lambda plan: (plan.value, plan.need), default=None)


class Stagings(MemorySweep):
    """The sweep of stagings: the exact program and the even split at every level."""

    axes = AXES

    @classmethod
    def check(cls, problem: StagingProblem, settings: Settings) -> None:
        settings.check_levels()
        if problem.device_types:
            remedy = "draw the curve for devices that are alike"
            raise InputError("device_types", "have memories of their own", remedy)

    def exact(self, problem: StagingProblem, what: str, start: Candidate | None) -> Result:
        return self._solved(problem, what, METHOD)

    def rival(self, problem: StagingProblem, what: str) -> Candidate | None:
        return self.measured(self._solved(problem, f"an even split {what}", EVEN).plan)

    def _solved(self, problem: StagingProblem, what: str, planner: str) -> Result:
        result = solve(problem, planner=planner, limits=self.settings.limits, on_progress=self.watcher(what))
        if result.stop == Stop.INTERRUPTED:
            raise KeyboardInterrupt
        return result


sweep = partial(curve.sweep, Stagings)


def _levels(least: float, most: float, count: int) -> tuple[float, ...]:
    """The limits of the points, both ends among them; large ones are whole numbers of bytes."""
    if not 0 < least < most:
        return (most,)
    inner = (float(round(level)) if level > 100 else level for level in curve.between(least, most, count))
    return tuple(sorted({least, *inner, most}))
