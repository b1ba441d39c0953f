"""The axis of trainings: the time of an iteration against the number of GPUs of one sort.

A limit is a number of GPUs; a plan for fewer GPUs keeps it, too. A proof for one number says nothing about another one,
so the bound within a limit is the least of the bounds for all numbers up to it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, ClassVar

from ..instances.base.errors import PipeplanError, UsageError
from ..instances.base.quantities import several
from ..instances.base.result import Result, Stop
from ..instances.registry import kind_of
from ..instances.training.kind_functions import with_devices
from ..instances.training.plan import Configuration
from ..instances.training.problem import TrainingProblem
from ..planners.run.solve import solve
from . import sweep
from .sweep import Candidate, CurvePoint, Ends, NothingKnownError, Settings, Sweep


class Trainings(Sweep):
    """The sweep of trainings: the exact search for each number of GPUs."""

    axis = "gpus"
    takes = ("gpus",)
    usual_levels = 5
    columns: ClassVar[Mapping[str, str]] = {
        "gpus": "limit",
        "value": "value",
        "used": "need",
        **{name: name for name in ("bound", "gap", "certified", "stop", "found", "seconds")},
    }

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.results: dict[int, Result] = {}
        """Results by the number of GPUs."""

    @classmethod
    def sizes(cls, problem: TrainingProblem) -> dict[str, Any]:
        return {"devices": problem.devices, "units": len(problem.model.units)}

    @classmethod
    def ends_to_json(cls, ends: Ends | None) -> dict[str, Any]:
        if ends is None:
            return {"ends": None}
        best = {"value": ends.best.value, "bound": ends.bound, "gpus": ends.best.need}
        return {"ends": {"least_gpus": ends.least.need, "lower": ends.lower, "most": best}}

    @classmethod
    def check(cls, problem: TrainingProblem, settings: Settings) -> None:
        for count in settings.chosen:
            with_devices(problem, int(count))

    @classmethod
    def free(cls, problem: TrainingProblem) -> TrainingProblem:
        """Memory stays as it is: what is limited is the number of GPUs."""
        return problem

    def measured(self, plan: Any, source: str = "") -> Candidate | None:
        if plan is None:
            return None
        count = devices_of(plan)
        try:
            problem = with_devices(self.problem, count)
        except PipeplanError:
            return None
        rules = kind_of(problem).rules(problem, self.settings.options)
        if rules.violations(problem, plan):
            return None
        return Candidate(plan, rules.value(problem, plan), float(count), source)

    def fits(self, candidate: Candidate, limit: float) -> bool:
        return candidate.need <= limit

    def solved_ends(self) -> Ends:
        """Both ends: from the fewest GPUs up until there is a plan, and the most GPUs."""
        levels = sorted(self.settings.chosen or self._levels())
        most = self.measured(self._result(levels[-1]).plan)
        least, lower = most, levels[0]
        for count in levels[:-1]:
            result = self._result(count)
            least = self.measured(result.plan) or least
            if least is not most:
                break
            lower = lower if result.stop != Stop.INFEASIBLE else next(x for x in levels if x > count)
        best = most or least
        if least is None or best is None:
            raise NothingKnownError(
                f"no plan was found on {levels[-1]:g} GPUs; give a longer --time-limit or more GPUs"
            )
        return Ends(tuple(levels), least, min(lower, least.need), best, None)

    def _levels(self) -> list[float]:
        """The problem's own number of GPUs, and halves of it, as long as links of its levels allow it."""
        levels = [float(self.problem.devices)]
        while len(levels) < self.settings.levels and levels[-1] % 2 == 0:
            half = levels[-1] / 2
            try:
                with_devices(self.problem, int(half))
            except UsageError:
                break
            levels.append(half)
        return levels

    def _result(self, limit: float) -> Result:
        count = int(limit)
        if count not in self.results:
            problem = with_devices(self.problem, count)
            watch = self.watcher(f"on {several(count, 'GPU')}")
            result = solve(problem, limits=self.settings.limits, on_progress=watch)
            if result.stop == Stop.INTERRUPTED:
                raise KeyboardInterrupt
            self.results[count] = result
        return self.results[count]

    def point(self, method: str, limit: float) -> CurvePoint:
        result = self._result(limit)
        plan = self.measured(result.plan) if result.verified else None
        source = result.planner or ""
        candidate = None if plan is None else replace(plan, source=source)
        return CurvePoint(limit, result.stop, candidate, result.bound, messages=result.messages)

    def along_curves(self) -> list[CurvePoint]:
        """The points: a plan serves at all larger numbers of GPUs that have none better, and a bound is the least of
        those for all numbers up to its own."""
        bounds = dict(self._bounds())
        return [
            replace(point, bound=sweep.no_more_than(bounds[point.limit], point.value))
            for point in sweep.with_plans_from_below(self.points.values())
        ]

    def _bounds(self) -> Iterator[tuple[float, float | None]]:
        least = math.inf
        for point in sorted(self.points.values(), key=lambda point: point.limit):
            if point.stop != Stop.INFEASIBLE:
                least = min(least, -math.inf if point.bound is None else point.bound)
            yield point.limit, least if math.isfinite(least) else None


def devices_of(plan: Configuration) -> int:
    """The GPUs that a configuration runs on."""
    own = plan.degrees
    return own.pipeline * own.stage_ranks
