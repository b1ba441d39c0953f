"""Training configurations for the frameworks that run them: what all targets check first."""

from __future__ import annotations

from ...instances.base.errors import UsageError
from ...instances.training.frameworks import even_layout
from ...instances.training.plan import FULL, Configuration, Recompute
from ...instances.training.problem import TrainingProblem
from ...instances.training.referee.verify import framework_faults, shape_faults
from .contract import ExportOptions


def checked(target: str, problem: TrainingProblem, plan: Configuration, options: ExportOptions) -> TrainingProblem:
    """The problem as one of that framework, which keeps all of its rules."""
    if options.legacy:
        raise UsageError(
            f"A configuration is written for versions of {target} with layouts; drop the legacy option."
        )
    if options.micro_batches is not None:
        raise UsageError("A configuration has its own number of micro-batches; drop --micro-batches.")
    own = problem.replace(framework=target)
    for fault in (*shape_faults(own, plan), *framework_faults(own, plan)):
        raise refused(target, str(fault).rstrip("."))
    if problem.model.own:
        raise refused(target, "the model has measured layers, whose modules nobody named; give one with shapes")
    return own


def refused(target: str, why: str) -> UsageError:
    """One sentence: what the framework has no words for, and what to do."""
    found = f"plan configure --framework {target} finds one that it can"
    return UsageError(f"{target} cannot say this configuration ({found}): {why}.")


def word_of_all(plan: Configuration) -> Recompute:
    """What every chunk computes again; the frameworks' rules say that all chunks are alike."""
    return plan.recompute[0]


def is_whole(word: Recompute) -> bool:
    return word.modules == (FULL,)


def is_even(problem: TrainingProblem, plan: Configuration) -> bool:
    """Is it the layout that the framework takes where nothing is said?"""
    return plan.layout == even_layout(problem, plan.degrees.chunks)


def ranks_in_words(problem: TrainingProblem, plan: Configuration) -> str:
    """What a launcher is told."""
    count, size = plan.micro_batches(problem.batch), plan.micro_batch
    return (
        f"start it on {problem.devices} GPU{'s' * (problem.devices != 1)}: the data-parallel degree is "
        f"{plan.degrees.data}, with {count} micro-batch{'es' * (count != 1)} of {size} "
        f"sequence{'s' * (size != 1)} each"
    )
