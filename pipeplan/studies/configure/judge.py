"""One given configuration: what its ranks hold, whether it fits, and what it costs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ...instances.base.errors import UsageError, show
from ...instances.training.fits import Fit, Margin
from ...instances.training.plan import Configuration
from ...instances.training.problem import TrainingProblem
from ...instances.training.referee.evaluate import ConfigurationEvaluation, evaluate_configuration
from ...instances.training.referee.verify import framework_faults, shape_faults
from ...instances.training.words import configuration_from_words, words_of
from .least_change import Change, least_change


@dataclass(frozen=True)
class Judged:
    """A configuration with the referee's numbers."""

    asked: str
    """The configuration as the user wrote it."""
    problem: TrainingProblem
    evaluation: ConfigurationEvaluation
    memory_error: float | Margin
    change: Change | None = None
    """The least change that makes it fit; None: it fits, or nothing that was tried helps."""
    notes: tuple[str, ...] = ()
    """Sentences on what was not understood of `asked`, or contradicts the problem."""

    @property
    def plan(self) -> Configuration:
        return self.evaluation.plan

    @property
    def fits(self) -> Fit:
        return self.evaluation.fit(self.memory_error)

    def to_json(self) -> dict[str, Any]:
        return {
            "asked": self.asked,
            **configuration_facts(self.evaluation, self.memory_error),
            "least_change": None if self.change is None else self.change.to_json(),
            "notes": list(self.notes),
        }


def judge(problem: TrainingProblem, text: str, memory_error: float | Margin) -> Judged:
    """Judge the configuration in `text`; one that breaks a rule is refused with the rule's own sentence."""
    plan, framework, notes = read_configuration(problem, text)
    problem = problem.replace(framework=framework)
    refuse_faults(problem, plan, text)
    evaluation = evaluate_configuration(problem, plan)
    change = None if evaluation.fit(memory_error) == "yes" else least_change(problem, plan, memory_error)
    return Judged(text, problem, evaluation, memory_error, change, notes)


def read_configuration(problem: TrainingProblem, text: str) -> tuple[Configuration, str, tuple[str, ...]]:
    """The configuration in `text`, the framework by whose rules it runs, and notes on what was not understood.

    `text` is words such as tensor=4, or a framework's flags or file.
    """
    if looks_like_flags(text):
        from ...instances.training.flags import configuration_from_flags  # loads tables of flags

        read = configuration_from_flags(problem, text)
        return read.configuration, read.framework, read.notes
    return configuration_from_words(problem, text), problem.framework, ()


def looks_like_flags(text: str) -> bool:
    """Is the text a framework's flags or file, and not words such as tensor=4?"""
    stripped = text.strip()
    return stripped.startswith(("--", "{")) or " --" in stripped or stripped.lower().endswith((".toml", ".json"))


def refuse_faults(problem: TrainingProblem, plan: Configuration, text: str) -> None:
    """Raise a `UsageError` for the first rule that the configuration breaks; memory is not checked."""
    for fault in (*shape_faults(problem, plan), *framework_faults(problem, plan)):
        raise UsageError(f"--judge {show(text)} cannot be run: {fault}")


def configuration_facts(evaluation: ConfigurationEvaluation, memory_error: float | Margin) -> Mapping[str, Any]:
    """A configuration in the form of `pipeplan.configurations/1`."""
    facts = evaluation.to_json()
    plan = {name: value for name, value in evaluation.plan.to_json().items() if name != "kind"}
    return {
        **plan,
        "words": words_of(evaluation.plan),
        **facts,
        "fits": evaluation.fit(memory_error),
    }
