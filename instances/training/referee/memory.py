"""What every rank holds at its fullest, counted by the events of its passes.

A rank holds weights, gradients and the optimizer's state all the time. A forward pass adds what it keeps; during a
backward pass, layer by layer from the last one, what this layer needs besides is there for a moment. What a unit has
and keeps is counted in `unit_bytes`, for the search as well.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate

from ...physics.kernels import HALF, WORKSPACE_BYTES
from ...physics.optimizers import GATHERED_UNITS
from ..cases import NONE, CaseMaker, ParallelismChoice, words_of_chunk
from ..plan import Configuration, Recompute
from ..problem import TrainingProblem
from ..unit_seconds import LAYERS
from .seconds import listed_for_memory

PARTS = ("weights", "gradients", "optimizer", "activations", "transient", "reserve")


@dataclass(frozen=True, slots=True)
class RankMemory:
    """The fullest moment of the ranks of one pipeline stage."""

    rank: int
    """Number of the pipeline rank, from 0."""
    parts: Mapping[str, float]
    """Bytes by what they are for, as `PARTS` has them."""

    @property
    def bytes(self) -> float:
        return sum(self.parts.values())


def memory_of_ranks(problem: TrainingProblem, plan: Configuration) -> tuple[RankMemory, ...]:
    """The memory of each pipeline rank at its fullest moment; all ranks of one stage are alike."""
    ranks = Ranks(problem, plan)
    return tuple(ranks.memory(rank) for rank in range(plan.degrees.pipeline))


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
        self.parameters = self.costs.numbers_of(self.gamma)[0]

    def memory(self, rank: int) -> RankMemory:
        """The fullest moment of a pipeline rank."""
        activations, moment = max(self._moments(rank), key=sum)
        transient = moment + self._always_there(rank)
        parts = {**self._standing(rank), "activations": activations, "transient": transient}
        return RankMemory(rank, {**parts, "reserve": self.problem.reserve_bytes})

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

    def numbers(self, rank: int) -> tuple[float, float]:
        """Parameters of a pipeline rank; those of experts are counted apart, in the second place."""
        types = [self.costs.positions[unit] for unit in self.units(rank)]
        usual, experts = map(float, self.parameters[types].sum(axis=0))
        return usual + self._together(rank)[1], experts

    def _standing(self, rank: int) -> dict[str, float]:
        (usual, experts), (shards, expert_shards) = self.numbers(rank), self.gamma.shards
        states = self.problem.states[self.plan.zero]
        parts = {
            name: usual * state.on(shards) + experts * state.on(expert_shards)
            for name, state in zip(PARTS[:3], (states.weights, states.gradients, states.optimizer), strict=True)
        }
        if self.problem.fp8_weight_copy and self.problem.precision == "fp8":
            parts["weights"] += usual + experts
        return parts

    def _always_there(self, rank: int) -> float:
        """Bytes of workspace, buffers for gradients and for what stages send each other, and gathered weights."""
        model, numbers = self.problem.model, self.parameters.sum(axis=1)
        largest = max(float(numbers[self.costs.positions[unit]]) for unit in self.units(rank))
        gathered = GATHERED_UNITS * self.problem.states[self.plan.zero].gathered * largest
        received = HALF * float(self.costs.keys.tokens_between(self.problem)[0]) * model.hidden
        return WORKSPACE_BYTES + (received if rank and not model.own else 0.0) + self._together(rank)[0] + gathered

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
