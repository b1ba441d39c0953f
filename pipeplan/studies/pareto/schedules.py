"""The study of schedules: period, makespan or span against the memory of a device, beside the best of the named rules.

Memory is in the problem's own unit, the same on every device but links.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from ...instances.base.errors import UsageError
from ...instances.base.kind import Later
from ...instances.base.result import Result, Stop, met
from ...instances.registry import kind_of
from ...instances.schedule.problem import ScheduleProblem
from ...planners.run.solve import solve
from ..journal import Journal
from ..stage_schedule import RuleSchedule, best_rule, objective_of, rule_schedules, start_among
from . import curve
from .curve import Asked, Axes, Candidate, Settings, Watch, facts_of
from .stagings import MemorySweep, ends_to_json
from .study import Study

STUDY = Study(
    takes=frozenset({"memory", "objective"}),
    sweep=Later("pipeplan.studies.pareto.schedules:Schedules"),
)


def facts(problem: ScheduleProblem) -> dict[str, Any]:
    free = kind_of(problem).with_memory(problem, None)
    return facts_of(free, devices=len(free.devices), blocks=len(free.blocks))


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
    ends=partial(ends_to_json, unit=""),
)


class Schedules(MemorySweep):
    """The sweep of schedules: the default method and the named rules at every level."""

    axes = AXES

    @classmethod
    def settings_for(cls, problem: ScheduleProblem, asked: Asked) -> Settings:
        objective = objective_of(asked.own.get("objective"), problem.micro_batches)
        return replace(super().settings_for(problem, asked), options={"objective": objective})

    @classmethod
    def check(cls, problem: ScheduleProblem, settings: Settings) -> None:
        settings.check_levels()
        if not any(block.memory or block.workspace for block in problem.blocks):
            raise UsageError(f"No block of {problem.name} takes any memory, so there is no curve.")

    def shown(self, asked: ScheduleProblem) -> ScheduleProblem:
        return asked

    def __init__(self, problem: ScheduleProblem, settings: Settings, journal: Journal, watch: Watch) -> None:
        super().__init__(problem, settings, journal, watch)
        self.unit = problem.memory_unit or ""
        self.objective = str(settings.options["objective"])
        self.rules: dict[str, list[RuleSchedule]] = {}
        """Schedules by published rules, by the digest of the problem."""

    def _rules(self, problem: ScheduleProblem) -> list[RuleSchedule]:
        if problem.hash not in self.rules:
            self.rules[problem.hash] = rule_schedules(problem, self.objective, self.settings.limits)
        return self.rules[problem.hash]

    def exact(self, problem: ScheduleProblem, what: str, start: Candidate | None) -> Result:
        by_rules = self._rules(problem)
        result = solve(
            problem,
            options=self.settings.options,
            limits=self.settings.limits,
            warm_start=start_among(problem, self.objective, {}, by_rules, None if start is None else start.plan),
            on_progress=self.watcher(what),
        )
        if result.stop == Stop.INTERRUPTED:
            raise KeyboardInterrupt
        return result

    def rival(self, problem: ScheduleProblem, what: str) -> Candidate | None:
        best = best_rule(self._rules(problem))
        return None if best is None else self.measured(best.plan)

    def free_end(self, best: Candidate, rival: Candidate | None) -> Candidate:
        """The schedule that needs least memory, of the best one and those of rules that are as good."""
        plans = (self.measured(schedule.plan) for schedule in self._rules(self.problem))
        alike = [p for p in plans if p is not None and (p.value < best.value or met(p.value, best.value))]
        return min([best, *alike], key=lambda plan: plan.need)


sweep = partial(curve.sweep, Schedules)
