"""What a configuration holds, what follows from it, and every rule that it breaks, counted anew from shapes.

Seconds are those of `iteration`; what one unit costs and holds is counted in `unit_costs`, for the search as well. To
change what a rank holds, change `docs/training-memory.md` and `tests/oracles/training_costs.py` as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate
from typing import Any

from ..base.amounts import fits
from ..base.errors import UsageError, Violation, refuse_broken
from ..base.fields import plain_fields
from ..base.kind import Rules
from ..base.quantities import GIB
from ..physics.efficiencies import HALF, WORKSPACE_BYTES
from ..physics.optimizers import GATHERED_UNITS
from ..physics.schedules import LOOP, V_SHAPE
from .cases import NONE, CaseMaker, ParallelismChoice, words_of_chunk
from .frameworks import ends_of, even_layout, fault_of_word, uncut
from .iteration import Timing, listed_for_memory, timing_of
from .plan import Configuration, Recompute
from .problem import TrainingProblem
from .scope import Fit, Margin, fit_of
from .unit_costs import LAYERS

# ---- memory -------------------------------------------------------------------------------------------
#
# A rank holds weights, gradients and the optimizer's state all the time. A forward pass adds what it keeps; during a
# backward pass, layer by layer from the last one, what this layer needs besides is there for a moment.

PARTS = ("weights", "gradients", "optimizer", "activations", "transient", "reserve")


@dataclass(frozen=True, slots=True)
class RankMemory:
    """The fullest moment of the ranks of one pipeline stage."""

    rank: int
    """Number of the pipeline rank, from 0."""
    parts: Mapping[str, float]
    """Bytes by what they are for, as `PARTS` has them."""
    limit: float | None = None
    """Bytes of its GPU."""

    @property
    def bytes(self) -> float:
        return sum(self.parts.values())

    @property
    def full(self) -> float:
        """Bytes as a share of the limit; bytes where there is none."""
        return self.bytes if self.limit is None else self.bytes / self.limit

    def fit(self, error: float | Margin) -> Fit:
        """Whether it fits, where its bytes may be misjudged by the share or margin `error`."""
        return fit_of(self.bytes, self.limit, error)


def fullest_of(ranks: Iterable[RankMemory]) -> RankMemory:
    """The rank that fills most of its GPU."""
    return max(ranks, key=lambda rank: rank.full)


def memory_of_ranks(problem: TrainingProblem, plan: Configuration) -> tuple[RankMemory, ...]:
    """The memory of each pipeline rank at its fullest moment; all ranks of one stage are alike."""
    ranks = [Ranks(pool, plan) for pool in problem.pools]
    sorts = problem.sorts(plan.degrees.pipeline, plan.first_pool)
    return tuple(ranks[i].memory(rank) for rank, i in enumerate(sorts))


@dataclass(frozen=True, slots=True)
class Stash:
    """What one micro-batch keeps in a chunk, and the fullest moment of its backward pass."""

    bytes: float
    for_weights: float
    """The part that a divided backward pass needs until the gradients of the weights are there."""
    kept_then: float
    """Bytes of these that are left at the fullest moment of the chunk's backward pass."""
    moment: float
    """Bytes that are there besides at that moment."""


class Ranks:
    """What the ranks of a configuration hold."""

    def __init__(self, problem: TrainingProblem, plan: Configuration) -> None:
        self.problem, self.plan, self.gamma = problem, plan, ParallelismChoice.of(plan)
        words = sorted({NONE, *(own.modules for own in plan.recompute)})
        self.costs = CaseMaker(problem, [self.gamma.key], words)
        self.kept = {word: self.costs.kept_of(self.gamma, word) for word in words}
        self.trained, self.frozen, *_ = self.costs.numbers_of(self.gamma)

    def memory(self, rank: int) -> RankMemory:
        """The fullest moment of a pipeline rank."""
        activations, moment = max(self._moments(rank), key=sum)
        transient = moment + self._always_there(rank)
        parts = {**self._standing(rank), "activations": activations, "transient": transient}
        return RankMemory(rank, {**parts, "reserve": self.problem.reserve_bytes}, self.problem.memory_bytes)

    def most_kept(self, rank: int) -> float:
        """What the micro-batches in flight keep on a rank at most, whatever else is there at that moment."""
        return max(live for live, _ in self._moments(rank, backward=False))

    # ---- what is there all the time ---------------------------------------------------------------------

    def units(self, rank: int) -> list[int]:
        """Positions of the units that a pipeline rank has."""
        return [unit for chunk in self.plan.chunks_of_ranks[rank] for unit in self.plan.intervals[chunk]]

    def _together(self, rank: int) -> tuple[float, float]:
        """Bytes of cached gradients, and parameters of a copy of the table of words."""
        names = [self.problem.model.units[unit] for unit in self.units(rank)]
        return (0.0, 0.0) if self.problem.model.own else self.costs.together(list(dict.fromkeys(names)), 0)

    def numbers(self, rank: int) -> tuple[tuple[float, float], tuple[float, float]]:
        """Parameters of a pipeline rank that are trained, and that are frozen; those of experts are counted apart, in
        the second place."""
        types = [self.costs.positions[unit] for unit in self.units(rank)]
        trained, frozen = (tuple(map(float, own[types].sum(axis=0))) for own in (self.trained, self.frozen))
        copied, is_trained = self._together(rank)[1], self.problem.adapter_rank is None
        return (trained[0] + copied * is_trained, trained[1]), (frozen[0] + copied * (not is_trained), frozen[1])

    def _standing(self, rank: int) -> dict[str, float]:
        ((usual, experts), frozen), (shards, expert_shards) = self.numbers(rank), self.gamma.shards
        states = self.problem.states[self.plan.zero]
        parts = {
            name: usual * state.on(shards) + experts * state.on(expert_shards)
            for name, state in zip(PARTS[:3], (states.weights, states.gradients, states.optimizer), strict=True)
        }
        parts["weights"] += frozen[0] * states.weights.on(shards) + frozen[1] * states.weights.on(expert_shards)
        if self.problem.fp8_weight_copy and self.problem.precision == "fp8":
            parts["weights"] += usual + experts + sum(frozen)
        return parts

    def _always_there(self, rank: int) -> float:
        """Bytes of workspace, buffers for gradients and for what stages send each other, and gathered weights."""
        model, numbers = self.problem.model, (self.trained + self.frozen).sum(axis=1)
        between = float(self.costs.keys.tokens_between(self.problem)[0]) * model.hidden
        if model.encoder is not None:  # all messages are as large as the largest
            shards = self.plan.degrees.tensor if self.problem.sequence_parallel else 1
            patches = self.plan.micro_batch * model.encoder.patches
            between = max(between, patches / shards * model.encoder.hidden)
        largest = max(float(numbers[self.costs.positions[unit]]) for unit in self.units(rank))
        gathered = GATHERED_UNITS * self.problem.states[self.plan.zero].gathered * largest
        received = HALF * between if rank and not model.own else 0.0
        return WORKSPACE_BYTES + received + self._together(rank)[0] + gathered

    # ---- what passes keep -------------------------------------------------------------------------------

    @cached_property
    def stashes(self) -> list[Stash]:
        """For each chunk. Backward passes begin with the last unit and free what they have passed."""
        return [self._stash(chunk) for chunk in range(self.plan.degrees.chunks)]

    def _stash(self, chunk: int) -> Stash:
        at = self.costs.positions
        units = [self.kept[word][at[unit]] for unit, word in words_of_chunk(self.problem, self.plan, chunk)]
        before = [0.0, *accumulate(stash for stash, _, _ in units)]
        moments = (
            (before[i] + kept, beside) for i, (_, _, moments) in enumerate(units) for kept, beside in moments
        )
        return Stash(before[-1], sum(part for _, part, _ in units), *max(moments, key=sum, default=(0.0, 0.0)))

    def _moments(self, rank: int, backward: bool = True) -> Iterator[tuple[float, float]]:
        """Activations and what is there besides, at the moments of a rank's passes at which most may be there; of very
        many micro-batches so many are listed as are enough to see the fullest one, and others are kept before them."""
        plan, chunks, degrees = self.plan, self.plan.chunks_of_ranks[rank], self.plan.degrees
        batches = plan.micro_batches(self.problem.batch)
        listed, kept = listed_for_memory(plan.schedule, degrees.pipeline, batches)
        live = kept * self.stashes[chunks[0]].bytes
        yield live, 0.0
        for kind, number, _ in plan.rule.order(rank, degrees.pipeline, degrees.virtual, listed):
            stash = self.stashes[chunks[number]]
            if kind == "F":
                live += stash.bytes
                yield live, 0.0
            elif kind == "W":
                live -= stash.for_weights
            else:
                if backward:
                    yield live - stash.bytes + stash.kept_then, stash.moment
                live -= stash.bytes if kind == "B" else stash.bytes - stash.for_weights


def stash_bytes(problem: TrainingProblem, plan: Configuration, unit: int, recompute: Recompute) -> float:
    """What one micro-batch keeps in one unit, by its position in the row."""
    ranks = Ranks(problem, replace(plan, recompute=(recompute,)))
    word = recompute.of_layer(0) if problem.model.units[unit] in LAYERS else NONE
    return ranks.kept[word][ranks.costs.positions[unit]][0]


# ---- evaluation ---------------------------------------------------------------------------------------
#
# What follows from a configuration: memory of every rank, the time of an iteration, and what fills the memory.


@dataclass(frozen=True)
class ConfigurationEvaluation:
    """Memory and time of a configuration, as the referee counts them."""

    plan: Configuration
    micro_batches: int
    memory: tuple[RankMemory, ...]
    """The memory of the ranks of each pipeline stage."""
    problem: TrainingProblem

    @cached_property
    def timing(self) -> Timing:
        """Simulated when it is first asked for: whoever wants bytes alone does not wait for a long pipeline."""
        return timing_of(self.problem, self.plan)

    @property
    def fullest(self) -> RankMemory:
        return fullest_of(self.memory)

    @property
    def limit_bytes(self) -> float | None:
        """Bytes of the GPUs of the fullest rank."""
        return self.fullest.limit

    def fit(self, error: float | Margin) -> Fit:
        """Whether the fullest rank fits, where its bytes may be misjudged by the share or margin `error`."""
        return self.fullest.fit(error)

    @property
    def limited_by(self) -> str:
        """The fullest stage and what most of its memory is for, in words."""
        full = self.fullest
        part = max(full.parts, key=lambda name: full.parts[name])
        return f"memory of stage {full.rank}: {full.bytes / GIB:.2f} GiB, most of it {part}"

    def to_json(self) -> dict[str, Any]:
        timing = self.timing
        return {
            "seconds": timing.seconds,
            "tokens_per_second_per_gpu": timing.tokens_per_second_per_gpu,
            "mfu": timing.mfu,
            "micro_batches": self.micro_batches,
            "ranks": [
                {
                    "rank": rank.rank * self.plan.degrees.stage_ranks,
                    "stage": rank.rank,
                    "bytes": rank.bytes,
                    "parts": dict(rank.parts),
                    "seconds": plain_fields(time),
                }
                for rank, time in zip(self.memory, timing.ranks, strict=True)
            ],
            "limited_by": self.limited_by,
        }


def evaluate_configuration(problem: TrainingProblem, plan: Configuration) -> ConfigurationEvaluation:
    """What a configuration holds and takes whose numbers go together, even if it breaks rules or does not fit.

    Raises
    ------
    UsageError
        The numbers do not go together, or the framework has no such ZeRO stage.
    """
    for fault in shape_faults(problem, plan):
        raise UsageError(f"The configuration cannot be evaluated. {fault}")
    return ConfigurationEvaluation(plan, plan.micro_batches(problem.batch), memory_of_ranks(problem, plan), problem)


# ---- broken rules -------------------------------------------------------------------------------------
#
# Every rule that a configuration breaks: those of arithmetic, of the framework, and of memory.


def verify_configuration(problem: TrainingProblem, plan: Configuration) -> tuple[Violation, ...]:
    """Every broken rule; where the numbers do not go together, nothing else can be judged."""
    shape = tuple(shape_faults(problem, plan))
    if shape:
        return shape
    return (*framework_faults(problem, plan), *_memory_faults(problem, plan))


def shape_faults(problem: TrainingProblem, plan: Configuration) -> Iterator[Violation]:
    """What does not go together in degrees, batch, layout and sharding."""
    degrees = plan.degrees
    ranks = degrees.tensor * degrees.context * degrees.pipeline * degrees.data
    if ranks != problem.devices:
        yield Violation(
            "devices",
            f"The degrees make {ranks} ranks, and there are {problem.devices} GPUs; choose degrees that multiply to "
            f"{problem.devices}.",
        )
    if degrees.stage_ranks % (degrees.expert * degrees.expert_tensor):
        yield Violation(
            "experts",
            f"Experts are divided among {degrees.expert} x {degrees.expert_tensor} ranks, which do not divide the "
            f"{degrees.stage_ranks} ranks of a stage; choose expert degrees whose product divides them.",
        )
    pools = [pool.devices for pool in problem.pools]
    if any(count % degrees.stage_ranks for count in pools) and ranks == problem.devices:
        yield Violation(
            "pools",
            f"Stages of {degrees.stage_ranks} GPUs do not divide the {' and '.join(map(str, pools))} GPUs of each "
            "sort; choose degrees by which each sort has whole stages.",
        )
    if plan.first_pool > len(pools):
        yield Violation("pools", "There is no second sort of GPUs for the first stages; drop first-pool.")
    if problem.batch % (degrees.data * plan.micro_batch):
        yield Violation(
            "batch",
            f"{problem.batch} sequences are no whole number of micro-batches of {plan.micro_batch} on "
            f"{degrees.data} data-parallel ranks; choose degrees or a micro-batch that divide them.",
        )
    units = len(problem.model.units)
    if len(plan.layout) != degrees.chunks or sum(plan.layout) != units:
        yield Violation(
            "layout",
            f"The layout has {len(plan.layout)} chunks with {sum(plan.layout)} units, and {degrees.chunks} chunks "
            f"with {units} units are wanted.",
        )
    if len(plan.recompute) != len(plan.layout):
        yield Violation(
            "recomputation",
            f"Recomputation is said of {len(plan.recompute)} chunks, and there are {len(plan.layout)}.",
        )
    yield from _schedule_faults(plan)
    framework = problem.rules
    if plan.zero not in problem.states:  # what a parameter takes there is not known
        known = " or ".join(f"zero={zero}" for zero in problem.states)
        yield Violation("zero", f"{framework.name} has no ZeRO stage {plan.zero}; choose {known}.")


def _schedule_faults(plan: Configuration) -> Iterator[Violation]:
    virtual = plan.degrees.virtual
    if plan.rule.shape == V_SHAPE:
        if virtual != 2:
            yield Violation(
                "schedule",
                f"{plan.schedule} has two chunks on each rank, and here are {virtual}; choose virtual=2.",
            )
    elif (virtual > 1) != (plan.rule.shape == LOOP):
        wanted = "several chunks" if plan.rule.shape == LOOP else "one chunk"
        yield Violation(
            "schedule",
            f"{plan.schedule} has {wanted} on each rank, and here are {virtual}; choose another schedule or number.",
        )


def _counts(problem: TrainingProblem, plan: Configuration) -> dict[str, str]:
    """Words for what reasons and remedies name in braces."""
    framework, own = problem.rules, problem.model.attention
    words = {
        "framework": framework.name,
        "precision": problem.precision,
        "precisions": " or ".join(framework.precisions),
        "tensor": str(plan.degrees.tensor),
    }
    if own is not None:
        words |= {"heads": f"{own.heads} heads", "key_value_heads": f"{own.key_value_heads} key-value heads"}
    return words


def framework_faults(problem: TrainingProblem, plan: Configuration) -> Iterator[Violation]:
    """What the framework cannot run, each in a sentence with the remedy."""
    framework = problem.rules
    name = framework.name
    if plan.schedule not in framework.schedules:
        known = " or ".join(framework.schedules)
        yield Violation("schedule", f"{name} has no schedule {plan.schedule}; choose {known}.")
    for rule in framework.rules:
        if not rule.kept(problem, plan):
            yield Violation(rule.name, f"{rule.reason}; {rule.remedy}.".format_map(_counts(problem, plan)))
    yield from _layout_faults(problem, plan)
    if len(set(plan.recompute)) > 1:
        yield Violation("recomputation", f"{name} computes the same again in every chunk; choose one word for all.")
    own = problem.model.own
    if own and (plan.degrees.context > 1 or plan.degrees.expert > 1):
        yield Violation(
            "own layers",
            "Layers with measured times have neither context nor expert parallelism; choose degrees 1.",
        )
    if not all(layer.is_measured(plan.degrees.tensor, plan.micro_batch) for layer in own):
        yield Violation(
            "own layers",
            f"The layers were not measured at tensor={plan.degrees.tensor} and micro-batch={plan.micro_batch}; choose "
            "degrees that were.",
        )
    for word in dict.fromkeys(plan.recompute):
        why = fault_of_word(problem, plan.schedule, word)
        if why is not None:
            yield Violation("recomputation", why)


def _layout_faults(problem: TrainingProblem, plan: Configuration) -> Iterator[Violation]:
    """Layouts that the framework has no words for; the rule is named as that of layouts that do not go together."""
    name = problem.rules.name
    if problem.rules.layouts == "even":
        even = even_layout(problem, plan.degrees.chunks)
        if plan.layout != even:
            own, wanted = ("/".join(map(str, layout or ())) for layout in (plan.layout, even))
            evenly = "by their weights" if problem.rules.even_by == "weights" else "evenly"
            yield Violation(
                "layout",
                f"{name} divides layers {evenly}, embedding and head included, and here they are {own}; choose "
                f"layout={wanted}.",
            )
    if {*ends_of(plan.layout)} & uncut(problem, plan.degrees):
        yield Violation(
            "layout",
            f"{name} keeps the layers of multi-token prediction together, in the last chunk of a rank after the "
            "first; move them into the chunk of the head.",
        )


def _memory_faults(problem: TrainingProblem, plan: Configuration) -> Iterator[Violation]:
    if problem.memory_bytes is None:
        return
    for rank in memory_of_ranks(problem, plan):
        if rank.limit is not None and not fits(rank.parts.values(), rank.limit):
            yield Violation(
                "memory",
                f"Stage {rank.rank} holds {rank.bytes / GIB:.2f} GiB, above the {rank.limit / GIB:.2f} GiB of a GPU.",
            )


# ---- rules --------------------------------------------------------------------------------------------
#
# By which rules configurations are judged: the time of an iteration, within memory and the framework's rules.


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
