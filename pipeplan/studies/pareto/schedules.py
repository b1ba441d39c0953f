"""The study of schedules: period, makespan or span against the memory of a device, beside the best of the named rules.

Memory is in the problem's own unit, the same on every device but links.
"""

from __future__ import annotations

import os
from functools import partial
from typing import Any

from ...instances.base.errors import UsageError
from ...instances.base.kind import Function
from ...instances.base.result import Result, Stop, met
from ...instances.registry import kind_of
from ...instances.schedule.problem import ScheduleProblem
from ...planners.run.solve import solve
from ..journal import Journal
from ..stage_schedule import RuleSchedule, best_rule, objective_of, rule_schedules, start_among
from .curve import Axes, Candidate, Curve, Ends, Settings, Watch, facts_of, places
from .stagings import MemorySweep
from .stored import opened
from .study import Asked, Study

STUDY = Study(
    takes=frozenset({"memory", "objective"}),
    run=Function("pipeplan.studies.pareto.schedules:ready"),
)


def facts(problem: ScheduleProblem) -> dict[str, Any]:
    free = kind_of(problem).with_memory(problem, None)
    return facts_of(free, devices=len(free.devices), blocks=len(free.blocks))


def _ends_to_json(ends: Ends | None) -> dict[str, Any]:
    if ends is None:
        return {"ends": None}
    best = {"value": ends.best.value, "bound": ends.bound, "peak": ends.best.need}
    return {"ends": {"least": ends.least.need, "lower": ends.lower, "unlimited": best}}


AXES = Axes(
    columns={
        "memory": "limit",
        "value": "value",
        "peak": "need",
        **{name: name for name in ("bubble", "bound", "gap", "certified")},
        "rule": "rival",
        **{name: name for name in ("stop", "found", "seconds")},
    },
    facts=lambda problem: {**facts(problem), "memory_unit": problem.memory_unit},
    ends=_ends_to_json,
)


def ready(
    problem: ScheduleProblem, asked: Asked, path: str | os.PathLike[str] | None, resume: bool
) -> partial[Curve]:
    """The sweep with its checked settings and its journal; a watcher is missing."""
    levels, chosen = places("--memory", asked.own.get("memory"), asked.levels)
    objective = objective_of(asked.own.get("objective"), problem.micro_batches)
    settings = Settings(levels, chosen, asked.limits, {"objective": objective})
    check(problem, settings)
    return partial(sweep, problem, settings, opened(path, facts(problem), settings.to_json(), resume))


def check(problem: ScheduleProblem, settings: Settings) -> None:
    """What makes no sense is refused before any work is done."""
    settings.check_levels()
    if not any(block.memory or block.workspace for block in problem.blocks):
        raise UsageError(f"No block of {problem.name} takes any memory, so there is no curve.")


def sweep(
    problem: ScheduleProblem,
    settings: Settings | None = None,
    journal: Journal | None = None,
    on_progress: Watch = None,
) -> Curve:
    """The objective against memory; an interrupt keeps the points that are done."""
    settings = settings or Settings(options={"objective": objective_of(None, problem.micro_batches)})
    check(problem, settings)
    free = kind_of(problem).with_memory(problem, None)
    return _Schedules(free, settings, journal or opened(None), on_progress).curve(problem)


class _Schedules(MemorySweep):
    """The default method and the named rules at every level."""

    axes = AXES

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

    def exact(self, problem: ScheduleProblem, what: str, start: Candidate | None) -> Result:
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

    def rival(self, problem: ScheduleProblem, what: str) -> Candidate | None:
        best = best_rule(self._rules(problem))
        return None if best is None else self.measured(best.plan)

    def free_end(self, best: Candidate, rival: Candidate | None) -> Candidate:
        """A rule that is as good may need less memory than what was found where memory did not matter."""
        plans = (self.measured(one.plan) for one in self._rules(self.problem))
        alike = [one for one in plans if one is not None and (one.value < best.value or met(one.value, best.value))]
        return min([best, *alike], key=lambda one: one.need)
