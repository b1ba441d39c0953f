"""One given configuration: what its ranks hold, whether it fits, what it costs, and the least change that makes it
fit.

Of all changes that are tried the one that costs least time is told. What is tried may be extended by a function beside
`SAME_DEGREES`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ...instances.base.errors import InputError, UsageError, show
from ...instances.base.json_file import read_json, read_text
from ...instances.base.result import PROVEN_TOLERANCE
from ...instances.stored_results import load_plan
from ...instances.training.flag_options import is_path
from ...instances.training.frameworks import effective
from ...instances.training.iteration import Iteration, timing_of
from ...instances.training.plan import FULL, Configuration, Recompute, layout_word
from ...instances.training.problem import TrainingProblem
from ...instances.training.referee import (
    ConfigurationEvaluation,
    RankMemory,
    evaluate_configuration,
    framework_faults,
    fullest_of,
    memory_of_ranks,
    shape_faults,
)
from ...instances.training.scope import Fit, Margin
from ...instances.training.words import configuration_from_words, recompute_word, words_of

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
    another_job: tuple[str, ...] = ()
    """The notes on what a script says of model, GPUs, batch or sequence unlike the problem."""

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
    refuse_empty(text)
    notes: tuple[str, ...] = ()
    another: tuple[str, ...] = ()
    plan = _stored(text.strip())
    if plan is None and looks_like_flags(text):
        from ...instances.training.flags import configuration_from_flags

        read = configuration_from_flags(problem, text)
        plan, problem = read.configuration, read.problem
        refuse_faults(problem, plan, text)
        problem, slower = _as_hidden(problem, read)
        notes, another = (*read.notes, *slower), read.contradicted
        if problem.second is not None:
            first = problem.gpu.name
            notes += (
                f"Flags do not say which GPUs have the first stages; taken are the {first}, as in --devices.",
            )
    elif plan is None:
        plan = configuration_from_words(problem, text)
    refuse_faults(problem, plan, text)
    evaluation = evaluate_configuration(problem, plan)
    change = None if evaluation.fit(memory_error) == "yes" else least_change(problem, plan, memory_error)
    return Judged(text, problem, evaluation, memory_error, change, notes, another)


def refuse_empty(text: str) -> None:
    if not text.strip():
        raise UsageError('--judge is empty; give a configuration, as in --judge "tensor=4", or a launch script.')


def _as_hidden(problem: TrainingProblem, read: Read) -> tuple[TrainingProblem, tuple[str, ...]]:
    """The problem with as much data-parallel communication hidden as these flags hide, and what that costs."""
    usual = problem.efficiencies.data_hidden
    hidden = problem.with_rates(lambda own: replace(own, data_hidden=own.data_hidden * read.hidden_share))
    times = [timing_of(own, read.configuration).seconds for own in (hidden, problem)]
    if read.why_not_hidden is None or times[0] <= times[1] * (1 + PROVEN_TOLERANCE):
        return hidden, ()
    cost = f"an iteration takes {times[0]:.4g} s, and {times[1]:.4g} s with {usual:.0%} hidden"
    return hidden, (f"{read.why_not_hidden}: {cost}.",)


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
    return {**plan, "words": words_of(evaluation.plan), **facts, "fits": evaluation.fit(memory_error)}


# The keys that change, in words, and the configuration with that change.
Candidate = tuple[str, Configuration]

# Factors by which a degree grows at the expense of data parallelism.
FACTORS = (2, 4, 8)
# The most units that another layout moves.
MOST_MOVES = 12


# ---- the least change that makes it fit -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Change:
    """What to write instead, and the configuration that this gives."""

    words: str
    """The keys that change, as `--judge` reads them."""
    plan: Configuration
    fits: Fit
    bytes: float
    """Bytes that the fullest rank holds then."""
    seconds: float
    """Seconds of an iteration then."""

    def to_json(self) -> dict[str, Any]:
        return {
            "change": self.words,
            "words": words_of(self.plan),
            "configuration": self.plan.to_json(),
            "fits": self.fits,
            "bytes": self.bytes,
            "seconds": self.seconds,
        }


def least_change(problem: TrainingProblem, plan: Configuration, memory_error: float | Margin) -> Change | None:
    """The fastest change that fits for sure, or else that may fit; None where nothing that was tried helps.

    Degrees stay as they are where anything else suffices.
    """
    trial = _Trial(problem, plan, memory_error)
    for fits in ("yes", "maybe") if trial.fit(plan) == "no" else ("yes",):
        for groups in (SAME_DEGREES, (_more_model_parallelism,), (_with_whole_layers,)):
            changes = [trial.change(*candidate, fits) for group in groups for candidate in group(trial)]
            fitting = [change for change in changes if change is not None]
            if fitting:
                return min(fitting, key=lambda change: change.seconds)
    return None


class _Trial:
    """Measures candidates on as few micro-batches as fill the pipeline; a change is judged on all micro-batches."""

    def __init__(self, problem: TrainingProblem, plan: Configuration, memory_error: float | Margin) -> None:
        self.problem, self.plan, self.memory_error = problem, plan, memory_error
        self.weighed: dict[Configuration, RankMemory] = {}

    def fullest(self, plan: Configuration) -> RankMemory:
        """The fullest rank on few micro-batches."""
        if plan not in self.weighed:
            self.weighed[plan] = fullest_of(memory_of_few(self.problem, plan))
        return self.weighed[plan]

    def held(self, plan: Configuration) -> float:
        """What the fullest rank holds, as a share of its GPU."""
        return self.fullest(plan).full

    def fit(self, plan: Configuration) -> Fit:
        return self.fullest(plan).fit(self.memory_error)

    def can_run(self, plan: Configuration) -> bool:
        return not any((*shape_faults(self.problem, plan), *framework_faults(self.problem, plan)))

    def change(self, words: str, plan: Configuration, fit: Fit) -> Change | None:
        """The change by the referee's numbers; None where the plan cannot be run, or its fit is another than `fit`."""
        if not self.can_run(plan) or self.fit(plan) == "no":
            return None
        fullest = fullest_of(memory_of_ranks(self.problem, plan))
        if fullest.fit(self.memory_error) != fit:
            return None
        return Change(words, plan, fit, fullest.bytes, Iteration(self.problem, plan).seconds())


def memory_of_few(problem: TrainingProblem, plan: Configuration) -> tuple[RankMemory, ...]:
    """Memory of all ranks on so few micro-batches that it takes no time: these reach the fullest moment of every order
    but GPipe's, which gets all micro-batches."""
    few = min(plan.micro_batches(problem.batch), 4 * plan.degrees.pipeline)
    if plan.rule.all_first:
        return memory_of_ranks(problem, plan)
    return memory_of_ranks(problem.replace(batch=few * plan.degrees.data * plan.micro_batch), plan)


# ---- what is tried -------------------------------------------------------------------------------------


def _modules(trial: _Trial) -> Iterator[Candidate]:
    """Recompute one more module, or further ones up to the first number of them that suffices."""
    free = _free_modules(trial)
    yield from (_with_modules(trial, (name,)) for name in free)
    for count in range(2, len(free) + 1):
        candidate = _with_modules(trial, free[:count])
        yield candidate
        if trial.can_run(candidate[1]) and trial.fit(candidate[1]) == "yes":
            return


def _free_modules(trial: _Trial) -> tuple[str, ...]:
    """Modules of this model that are not recomputed yet, and whose recomputation saves memory."""
    taken = {name for own in trial.plan.recompute for name in own.modules if own.layers is None}
    if FULL in taken:
        return ()
    model, known = trial.problem.model, trial.problem.rules.modules
    free = (name for name in model.modules if name in known and name not in taken)
    held = trial.held(trial.plan)
    return tuple(name for name in free if trial.held(_with_modules(trial, (name,))[1]) < held)


def _with_modules(trial: _Trial, names: Sequence[str]) -> Candidate:
    recompute = tuple(
        effective(trial.problem.model, Recompute((*own.modules, *names))) if FULL not in own.modules else own
        for own in trial.plan.recompute
    )
    return _recomputed(trial.plan, recompute)


def _recomputed(plan: Configuration, recompute: tuple[Recompute, ...]) -> Candidate:
    changed = replace(plan, recompute=recompute)
    return f"recompute={recompute_word(changed)}", changed


def _whole_layers(trial: _Trial) -> Iterator[Candidate]:
    """Recompute whole layers, as few in each chunk as suffice, by bisection: more layers never hold more. Some
    frameworks know all of them alone."""
    plan, chunks = trial.plan, len(trial.plan.recompute)
    most = max(plan.layout) if trial.problem.rules.counted_layers else 1

    def of(count: int) -> Candidate:
        return _recomputed(plan, (Recompute((FULL,), None if count >= most else count),) * chunks)

    for wanted in ("yes", "maybe"):
        low, high = 1, most
        while low < high:
            middle = (low + high) // 2
            if trial.fit(of(middle)[1]) in ("yes", wanted):
                high = middle
            else:
                low = middle + 1
        if trial.fit(of(low)[1]) in ("yes", wanted):
            yield of(low)
            return


def _smaller_micro_batches(trial: _Trial) -> Iterator[Candidate]:
    size = trial.plan.micro_batch
    while size % 2 == 0:
        size //= 2
        yield f"micro-batch={size}", replace(trial.plan, micro_batch=size)


def _more_sharding(trial: _Trial) -> Iterator[Candidate]:
    for zero in range(trial.plan.zero + 1, 4):
        yield f"zero={zero}", replace(trial.plan, zero=zero)


def _other_layout(trial: _Trial) -> Iterator[Candidate]:
    plan = _emptied(trial)
    if plan != trial.plan:
        yield f"layout={layout_word(plan.layout)}", plan


def emptied(problem: TrainingProblem, plan: Configuration) -> Configuration:
    """The configuration with a layout whose fullest stage holds less, where moving units helps."""
    return _emptied(_Trial(problem, plan, 0.0))


def _emptied(trial: _Trial) -> Configuration:
    """Move units from the fullest stage over the next boundary, one after the other, as long as that helps."""
    plan = trial.plan
    for _ in range(MOST_MOVES):
        moved = min(_moved(trial, plan), key=trial.held, default=plan)
        if trial.fit(plan) == "yes" or trial.held(moved) >= trial.held(plan):
            break
        plan = moved
    return plan


def _moved(trial: _Trial, plan: Configuration) -> Iterator[Configuration]:
    """The plan with one unit moved from a chunk of the fullest rank to a neighbouring chunk of another rank."""
    ranks = memory_of_few(trial.problem, plan)
    fullest = fullest_of(ranks).rank
    own = set(plan.chunks_of_ranks[fullest])
    for chunk in own:
        for other in (chunk - 1, chunk + 1):
            if 0 <= other < len(plan.layout) and other not in own and plan.layout[chunk] > 1:
                layout = list(plan.layout)
                layout[chunk] -= 1
                layout[other] += 1
                yield replace(plan, layout=tuple(layout))


def _more_model_parallelism(trial: _Trial, again: str | None = None) -> Iterator[Candidate]:
    """Raise one degree at the expense of data parallelism, with the framework's own layout; tensor parallelism, which
    sends most, stays inside a node. `again` is what is computed again; None: as it was."""
    degrees, node = trial.plan.degrees, trial.problem.levels[0].count
    kept = {"virtual": degrees.virtual, "expert": degrees.expert, "expert-tensor": degrees.expert_tensor}
    words = {own.word for own in trial.plan.recompute}
    for name in ("tensor", "context", "pipeline", "expert"):
        for factor in FACTORS:
            raised = {name: factor * getattr(degrees, name)}
            if name == "tensor" and raised[name] > node:
                break
            keys = {
                "tensor": degrees.tensor,
                "context": degrees.context,
                "pipeline": degrees.pipeline,
                **kept,
                "micro-batch": trial.plan.micro_batch,
                "zero": trial.plan.zero,
                "recompute": again or (next(iter(words)) if len(words) == 1 else "none"),
                "first-pool": trial.plan.first_pool,
                **raised,
            }
            try:
                plan = configuration_from_words(
                    trial.problem, " ".join(f"{key}={value}" for key, value in keys.items())
                )
            except InputError:  # degrees that do not go together
                continue
            more = "" if again is None else f" recompute={again}"
            yield f"{name}={raised[name]} data={plan.degrees.data}{more}", plan


def _with_whole_layers(trial: _Trial) -> Iterator[Candidate]:
    """The same, with all layers computed again, unless they are."""
    if {own.word for own in trial.plan.recompute} == {FULL}:
        return iter(())
    return _more_model_parallelism(trial, FULL)


# What is tried first; each keeps the degrees.
SAME_DEGREES: tuple[Callable[[_Trial], Iterator[Candidate]], ...] = (
    _modules,
    _whole_layers,
    _smaller_micro_batches,
    _more_sharding,
    _other_layout,
)
