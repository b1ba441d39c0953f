"""The referee: the longest work of a machine."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from pipeplan.instances.base.errors import Violation
from pipeplan.instances.base.kind import Rules
from toy_kind.problem import ToyPlan, ToyProblem


@dataclass(frozen=True)
class ToyEvaluation:
    """The work of each machine."""

    loads: tuple[float, ...]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class ToyRules:
    """Every job is on a machine that there is."""

    objective = "longest work"
    plan_type = ToyPlan

    def violations(self, problem: ToyProblem, plan: ToyPlan) -> tuple[Violation, ...]:
        if len(plan.machine) != len(problem.jobs):
            return (Violation("jobs", f"The plan has {len(plan.machine)} jobs, the problem {len(problem.jobs)}."),)
        wrong = [m for m in plan.machine if not 0 <= m < problem.machines]
        return tuple(Violation("machines", f"There is no machine {m}.") for m in wrong)

    def value(self, problem: ToyProblem, plan: ToyPlan) -> float:
        return max(self.evaluation(problem, plan).loads)

    def evaluation(self, problem: ToyProblem, plan: ToyPlan) -> ToyEvaluation:
        held = [
            [s for s, on in zip(problem.jobs, plan.machine, strict=True) if on == m]
            for m in range(problem.machines)
        ]
        return ToyEvaluation(tuple(map(math.fsum, held)))

    def to_options(self) -> dict[str, Any]:
        return {}


def rules_of(problem: ToyProblem, options: Mapping[str, Any]) -> Rules:
    return ToyRules()
