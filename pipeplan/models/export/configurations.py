"""Training configurations for the frameworks that run them: what all targets check first."""

from __future__ import annotations

from ...instances.base.errors import UsageError
from ...instances.base.quantities import several
from ...instances.training.frameworks import even_layout
from ...instances.training.plan import FULL, Configuration, Recompute
from ...instances.training.problem import TrainingProblem
from ...instances.training.referee.verify import framework_faults, shape_faults
from .contract import ExportOptions


def checked(target: str, problem: TrainingProblem, plan: Configuration, options: ExportOptions) -> TrainingProblem:
    """The problem with the rules of that framework; a plan that breaks one of them is refused."""
    if options.legacy:
        raise UsageError(
            f"A configuration is written for versions of {target} with layouts; drop the legacy option."
        )
    if options.micro_batches is not None:
        raise UsageError("A configuration has its own number of micro-batches; drop --micro-batches.")
    with_rules = problem.replace(framework=target)
    for fault in (*shape_faults(with_rules, plan), *framework_faults(with_rules, plan)):
        raise refused(target, str(fault).rstrip("."))
    if problem.model.own:
        raise refused(target, "the model has measured layers, whose modules nobody named; give one with shapes")
    return with_rules


def refused(target: str, why: str) -> UsageError:
    """An error that says what the framework has no words for, and what to do."""
    hint = f"plan configure --framework {target} finds one that it can"
    return UsageError(f"{target} cannot say this configuration ({hint}): {why}.")


def word_of_all(plan: Configuration) -> Recompute:
    """What every chunk computes again; the frameworks' rules say that all chunks are alike."""
    return plan.recompute[0]


def is_whole(word: Recompute) -> bool:
    return word.modules == (FULL,)


def is_even(problem: TrainingProblem, plan: Configuration) -> bool:
    """Does the plan have the layout that the framework takes where none is stated?"""
    return plan.layout == even_layout(problem, plan.degrees.chunks)


def ranks_in_words(problem: TrainingProblem, plan: Configuration) -> str:
    """A note on what a launcher has to be told."""
    count, size = plan.micro_batches(problem.batch), plan.micro_batch
    return (
        f"start it on {several(problem.devices, 'GPU')}: the data-parallel degree is "
        f"{plan.degrees.data}, with {count} micro-batch{'es' * (count != 1)} of {size} "
        f"sequence{'s' * (size != 1)} each"
    )
