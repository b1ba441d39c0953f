"""One given configuration: what its ranks hold, whether it fits, and what it costs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ...instances.base.errors import InputError, UsageError, show
from ...instances.base.json_file import read_json, read_text
from ...instances.base.result import PROVEN_TOLERANCE
from ...instances.stored_results import load_plan
from ...instances.training.flag_options import is_path
from ...instances.training.iteration import timing_of
from ...instances.training.plan import Configuration
from ...instances.training.problem import TrainingProblem
from ...instances.training.referee import (
    ConfigurationEvaluation,
    evaluate_configuration,
    framework_faults,
    shape_faults,
)
from ...instances.training.scope import Fit, Margin
from ...instances.training.words import configuration_from_words, words_of
from .least_change import Change, least_change

if TYPE_CHECKING:
    from ...instances.training.flags import Read


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
    """Judge the configuration in `text`; one that breaks a rule is refused with the rule's own sentence.

    `text` is words such as tensor=4, a framework's flags or a file with them, or the path of a result or plan of ours.
    """
    notes: tuple[str, ...] = ()
    plan = _stored(text.strip())
    if plan is None and looks_like_flags(text):
        from ...instances.training.flags import configuration_from_flags

        read = configuration_from_flags(problem, text)
        plan, optimizer = read.configuration, read.optimizer or problem.optimizer
        problem = problem.replace(framework=read.framework, optimizer=optimizer)
        refuse_faults(problem, plan, text)
        problem, slower = _as_hidden(problem, read)
        notes = (*read.notes, *slower)
    elif plan is None:
        plan = configuration_from_words(problem, text)
    refuse_faults(problem, plan, text)
    evaluation = evaluate_configuration(problem, plan)
    change = None if evaluation.fit(memory_error) == "yes" else least_change(problem, plan, memory_error)
    return Judged(text, problem, evaluation, memory_error, change, notes)


def _as_hidden(problem: TrainingProblem, read: Read) -> tuple[TrainingProblem, tuple[str, ...]]:
    """The problem with as much data-parallel communication hidden as these flags hide, and what that costs."""
    usual = problem.efficiencies.data_hidden
    hidden = with_data_hidden(problem, usual * read.hidden_share)
    times = [timing_of(own, read.configuration).seconds for own in (hidden, problem)]
    if read.why_not_hidden is None or times[0] <= times[1] * (1 + PROVEN_TOLERANCE):
        return hidden, ()
    cost = f"an iteration takes {times[0]:.4g} s, and {times[1]:.4g} s with {usual:.0%} hidden"
    return hidden, (f"{read.why_not_hidden}: {cost}.",)


def with_data_hidden(problem: TrainingProblem, share: float) -> TrainingProblem:
    return problem.replace(efficiencies=replace(problem.efficiencies, data_hidden=share))


def _stored(path: str) -> Configuration | None:
    """The configuration in a result or plan of ours; None where the text is no path, or that of another file."""
    if not is_path(path) or not read_text(path).lstrip().startswith("{"):
        return None
    if not {"schema", "kind"} & read_json(path).keys():
        return None
    plan = load_plan(path)
    if not isinstance(plan, Configuration):
        raise InputError("plan", f"is of the kind {plan.kind}", "give a configuration of training", path)
    return plan


def looks_like_flags(text: str) -> bool:
    """Is the text a framework's flags or file, and not words such as tensor=4?"""
    stripped = text.strip()
    return stripped.startswith(("--", "{")) or " --" in stripped or is_path(stripped)


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
