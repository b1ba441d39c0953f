"""The study of schedules: period, makespan or span against the memory of a device, beside the best of the named rules.

Memory is in the problem's own unit, the same on every device but links.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

from ...instances.base.errors import UsageError
from ...instances.base.kind import Function
from ...instances.base.result import Result, Stop, met
from ...instances.registry import kind_of
from ...instances.schedule.problem import ScheduleProblem
from ...planners.run.solve import solve
from ..journal import Journal
from ..schedule import RuleSchedule, best_rule, objective_of, rule_schedules, start_among
from .curve import (
    Watch,
    answer_to_json,
    check_levels,
    facts_of,
    places,
    with_bounds_from_above,
    with_plans_from_below,
)
from .staging_records import Ends, MemoryPoint, Settings, Staged
from .stagings import MemorySweep
from .stored import opened
from .study import Asked, Study

STUDY = Study(
    takes=frozenset({"memory", "objective"}),
    run=Function("pipeplan.studies.pareto.schedules:ready"),
    draw_table=Function("pipeplan.show.terminal.schedule_curve:draw_table"),
    front=Function("pipeplan.show.front:of_schedule"),
)


class SchedulePoint(MemoryPoint):
    """The best schedule in one memory."""

    __slots__ = ()

    COLUMNS: ClassVar[tuple[str, ...]] = (
        "memory",
        "value",
        "peak",
        "bubble",
        "bound",
        "gap",
        "certified",
        "rule",
        "stop",
        "found",
        "seconds",
    )
    LIMIT: ClassVar[str] = "memory"
    RIVAL: ClassVar[str] = "rule"

    @property
    def memory(self) -> float:
        return self.memory_bytes

    @property
    def peak(self) -> float | None:
        return self.peak_bytes

    @property
    def bubble(self) -> float | None:
        return None if self.staged is None else self.staged.bubble

    @property
    def rule(self) -> float | None:
        """What the best of the named rules takes; None: none fits."""
        return self.even


@dataclass(frozen=True, slots=True)
class ScheduleCurve:
    """The whole curve, by growing memory."""

    columns: ClassVar = SchedulePoint.COLUMNS

    problem: ScheduleProblem
    settings: Settings
    ends: Ends | None
    """None: interrupted before they were known."""
    points: tuple[SchedulePoint, ...]
    complete: bool

    @property
    def objective(self) -> str:
        """What is minimised."""
        return str(self.settings.options["objective"])

    def to_json(self) -> dict[str, Any]:
        ends = None if self.ends is None else _ends_to_json(self.ends)
        about = {**facts(self.problem), "memory_unit": self.problem.memory_unit}
        return answer_to_json(self, about, {"ends": ends})


def _ends_to_json(ends: Ends) -> dict[str, Any]:
    unlimited = {"value": ends.best.value, "bound": ends.bound, "peak": ends.best.peak_bytes}
    return {"least": ends.least.peak_bytes, "lower": ends.lower_bytes, "unlimited": unlimited}


def facts(problem: ScheduleProblem) -> dict[str, Any]:
    """The problem apart from its own memory limits, which the levels replace."""
    free = kind_of(problem).with_memory(problem, None)
    return facts_of(free, devices=len(free.devices), blocks=len(free.blocks))


def ready(
    problem: ScheduleProblem, asked: Asked, path: str | os.PathLike[str] | None, resume: bool
) -> partial[ScheduleCurve]:
    """The sweep with its checked settings and its journal; a watcher is missing."""
    levels, chosen = places("--memory", asked.own.get("memory"), asked.levels)
    objective = objective_of(asked.own.get("objective"), problem.micro_batches)
    settings = Settings(levels, chosen, asked.limits, {"objective": objective})
    check(problem, settings)
    return partial(sweep, problem, settings, opened(path, facts(problem), settings.to_json(), resume))


def check(problem: ScheduleProblem, settings: Settings) -> None:
    """What makes no sense is refused before any work is done."""
    check_levels(settings.levels, settings.memory_bytes)
    if not any(block.memory or block.workspace for block in problem.blocks):
        raise UsageError(f"No block of {problem.name} takes any memory, so there is no curve.")


def sweep(
    problem: ScheduleProblem,
    settings: Settings | None = None,
    journal: Journal | None = None,
    on_progress: Watch = None,
) -> ScheduleCurve:
    """The objective against memory; an interrupt keeps the points that are done."""
    settings = settings or Settings(options={"objective": objective_of(None, problem.micro_batches)})
    check(problem, settings)
    run = _Schedules(kind_of(problem).with_memory(problem, None), settings, journal or opened(None), on_progress)
    complete, ends = run.run(), run.ends
    points = [] if ends is None else with_bounds_from_above(with_plans_from_below(run.points.values()), ends.bound)
    return ScheduleCurve(problem, settings, ends, tuple(point.settled() for point in points), complete)


class _Schedules(MemorySweep[SchedulePoint]):
    """The default method and the named rules at every level."""

    point_type = SchedulePoint

    def __init__(self, problem: ScheduleProblem, settings: Settings, journal: Journal, watch: Watch) -> None:
        super().__init__(problem, settings, journal, watch)
        self.unit = problem.memory_unit or ""
        self.objective = str(settings.options["objective"])
        self.rules: dict[str, list[RuleSchedule]] = {}
        """By the digest of the problem."""

    def _rules(self, problem: ScheduleProblem) -> list[RuleSchedule]:
        if problem.hash not in self.rules:
            self.rules[problem.hash] = rule_schedules(problem, self.objective, self.settings.limits)
        return self.rules[problem.hash]

    def exact(self, problem: ScheduleProblem, what: str, start: Staged | None) -> Result:
        known = self._rules(problem)
        result = solve(
            problem,
            options=self.settings.options,
            limits=self.settings.limits,
            warm_start=start_among(problem, self.objective, {}, known, None if start is None else start.plan),
            on_progress=self.watcher(what),
        )
        if result.stop == Stop.INTERRUPTED:
            raise KeyboardInterrupt
        return result

    def rival(self, problem: ScheduleProblem, what: str) -> Staged | None:
        best = best_rule(self._rules(problem))
        return None if best is None else self.measured(best.plan)

    def free_end(self, best: Staged, rival: Staged | None) -> Staged:
        """A rule that is as good may need less memory than what was found where memory did not matter."""
        known = self._rules(self.problem)
        found = (self.measured(one.plan) for one in known)
        alike = [one for one in found if one is not None and (one.value < best.value or met(one.value, best.value))]
        return min([best, *alike], key=lambda one: one.peak_bytes)
