"""By which rules configurations are judged: the time of an iteration, within memory and the framework's rules."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..base.errors import Violation, refuse_broken
from ..base.kind import Rules
from .plan import Configuration
from .problem import TrainingProblem
from .referee.evaluate import ConfigurationEvaluation, evaluate_configuration
from .referee.verify import shape_faults, verify_configuration


@dataclass(frozen=True, slots=True)
class IterationRules:
    """Seconds from one update to the next."""

    objective = "iteration"
    plan_type = Configuration

    def violations(self, problem: TrainingProblem, plan: Configuration) -> tuple[Violation, ...]:
        return verify_configuration(problem, plan)

    def value(self, problem: TrainingProblem, plan: Configuration) -> float:
        return self.evaluation(problem, plan).timing.seconds

    def evaluation(self, problem: TrainingProblem, plan: Configuration) -> ConfigurationEvaluation:
        refuse_broken(shape_faults(problem, plan), "evaluated")
        return evaluate_configuration(problem, plan)

    def to_options(self) -> dict[str, Any]:
        return {}


def rules_of(problem: TrainingProblem, options: Mapping[str, Any]) -> Rules:
    return IterationRules()
