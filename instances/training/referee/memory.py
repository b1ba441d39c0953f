"""What every rank holds at its fullest, counted by the events of its passes.

A rank holds weights, gradients and the optimizer's state all the time. A forward pass adds what it keeps; during a
backward pass, layer by layer from the last one, what this layer needs besides is there for a moment.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from ...physics.kernels import HALF, OWN_MOMENT, SINGLE, TOKEN_COPIES, WORKSPACE_BYTES
from ...physics.optimizers import GATHERED_UNITS, StateBytes
from ..plan import FULL as WHOLE_LAYER
from ..plan import Configuration, Recompute
from ..problem import TrainingProblem
from .shapes import Kept, Sizes, Weight, kept_by, weights_of
from .steady import listed_for_memory

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
    sizes = Sizes(problem, plan)
    stashes = [_stash_of_chunk(sizes, chunk) for chunk in range(plan.degrees.chunks)]
    return tuple(_memory_of(sizes, rank, stashes) for rank in range(plan.degrees.pipeline))


def _memory_of(sizes: Sizes, rank: int, stashes: Sequence[Stash]) -> RankMemory:
    activations, moment = _fullest(sizes, rank, stashes)
    constant = _always_there(sizes, rank)
    parts = {**_standing(sizes, rank), "activations": activations, "transient": moment + constant}
    return RankMemory(rank, {**parts, "reserve": sizes.problem.reserve_bytes})


# ---- what stands all the time ----------------------------------------------------------------------------


def units_of_rank(sizes: Sizes, rank: int) -> list[int]:
    """Positions of the units that a pipeline rank has."""
    intervals = sizes.plan.intervals
    return [unit for chunk in sizes.plan.chunks_of_ranks[rank] for unit in intervals[chunk]]


def _weights_of_rank(sizes: Sizes, rank: int) -> Iterator[Weight]:
    """The weights of a rank; a head or a prediction whose embedding lies on another rank has a copy of the table."""
    row, units = sizes.model.units, units_of_rank(sizes, rank)
    types = [row[unit] for unit in units]
    for name in types:
        yield from weights_of(sizes, name)
    reads_words = ("head" in types and sizes.model.tied) or "prediction" in types
    if reads_words and "embedding" not in types:
        yield next(weights_of(sizes, "embedding"))


def numbers_of_rank(sizes: Sizes, rank: int) -> tuple[float, float]:
    """Parameters of a pipeline rank: those of experts stand apart, in the second place."""
    if sizes.model.own:
        own = sum(sizes.model.own[unit].parameters for unit in units_of_rank(sizes, rank))
        return own / sizes.tensor, 0.0
    weights = list(_weights_of_rank(sizes, rank))
    return (
        sum(weight.numbers for weight in weights if not weight.experts),
        sum(weight.numbers for weight in weights if weight.experts),
    )


def expert_data(plan: Configuration) -> int:
    """Number of data-parallel ranks among which experts with the same weights are divided."""
    return plan.degrees.stage_ranks // (plan.degrees.expert * plan.degrees.expert_tensor)


def _standing(sizes: Sizes, rank: int) -> dict[str, float]:
    states: StateBytes = sizes.problem.states[sizes.plan.zero]
    shards = sizes.plan.degrees.data * sizes.plan.degrees.context
    usual, experts = numbers_of_rank(sizes, rank)
    parts = {
        name: usual * state.on(shards) + experts * state.on(expert_data(sizes.plan))
        for name, state in (
            ("weights", states.weights),
            ("gradients", states.gradients),
            ("optimizer", states.optimizer),
        )
    }
    if sizes.problem.fp8_weight_copy and sizes.problem.precision == "fp8":
        parts["weights"] += usual + experts
    return parts


# ---- what is there from the first backward pass on -------------------------------------------------------


def _always_there(sizes: Sizes, rank: int) -> float:
    """Bytes of workspace, buffers for gradients and for what stages send each other, and gathered weights."""
    received = sizes.hidden_bytes if rank and not sizes.model.own else 0.0
    return WORKSPACE_BYTES + received + _cached_gradients(sizes, rank) + _gathered(sizes, rank)


def _cached_gradients(sizes: Sizes, rank: int) -> float:
    """Bytes of one buffer for each shape of weights, however many layers have it."""
    if not sizes.problem.rules.cached_gradients or sizes.model.own:
        return 0.0
    shapes = {(weight.rows, weight.columns) for weight in _weights_of_rank(sizes, rank) if weight.product}
    return HALF * sum(rows * columns for rows, columns in shapes)


def _gathered(sizes: Sizes, rank: int) -> float:
    """Bytes of the largest unit's weights, gathered while it runs, where data-parallel ranks divide them."""
    each = sizes.problem.states[sizes.plan.zero].gathered
    if not each:
        return 0.0
    model, units = sizes.model, units_of_rank(sizes, rank)
    if model.own:
        largest = max(model.own[unit].parameters for unit in units) / sizes.tensor
    else:
        types = {model.units[unit] for unit in units}
        largest = max(sum(weight.numbers for weight in weights_of(sizes, name)) for name in types)
    return GATHERED_UNITS * each * largest


# ---- what passes keep --------------------------------------------------------------------------------------


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


def _stash_of_chunk(sizes: Sizes, chunk: int) -> Stash:
    """What a micro-batch keeps in a chunk. Backward passes begin with the last unit and free what they have passed."""
    model, interval, recompute = sizes.model, sizes.plan.intervals[chunk], sizes.plan.recompute[chunk]
    row, layer = model.units, 0
    stashes, weights, moments = [], 0.0, []
    for unit in interval:
        name = row[unit]
        modules: tuple[str, ...] = ()
        if name in ("dense", "experts", "own"):
            modules, layer = recompute.of_layer(layer), layer + 1
        stash, for_weights, unit_moments = _unit(sizes, unit, modules)
        stashes.append(stash)
        weights += for_weights
        moments.append(unit_moments)
    before = [0.0, *accumulate(stashes)]
    fullest = max(
        ((before[i] + kept, extra) for i, unit_moments in enumerate(moments) for kept, extra in unit_moments),
        key=lambda pair: pair[0] + pair[1],
        default=(0.0, 0.0),
    )
    return Stash(before[-1], weights, *fullest)


def _unit(sizes: Sizes, unit: int, modules: tuple[str, ...]) -> tuple[float, float, list[tuple[float, float]]]:
    """What a unit keeps, the part of it for gradients of weights, and the moments of its backward pass: what it still
    keeps, and what is there besides."""
    model = sizes.model
    if model.own:
        kept = model.own[unit].stash_bytes * sizes.plan.micro_batch / sizes.tensor
        return kept, kept / 2, [(kept, OWN_MOMENT * kept)]
    name = model.units[unit]
    tensors = list(kept_by(sizes, name))
    left = [tensor for tensor in tensors if _is_kept(tensor, modules)]
    again = [tensor for tensor in tensors if not _is_kept(tensor, modules)]
    stash = _total(left)
    moments = [(stash, more + _total(_computed_by(again, modules))) for more in _moments(sizes, name)]
    if name in ("dense", "experts", "prediction"):
        ended = "feed-forward"
        moments.append(
            (
                _total(tensor for tensor in left if tensor.part != ended),
                _attention_moment(sizes) + _total(tensor for tensor in again if tensor.part != ended),
            )
        )
    return stash, _total(tensor for tensor in left if tensor.for_weights), moments


def _computed_by(again: list[Kept], modules: tuple[str, ...]) -> list[Kept]:
    """What is there when the feed-forward part runs backward: all of a whole layer, else what that part lost."""
    return again if WHOLE_LAYER in modules else [tensor for tensor in again if tensor.part == "feed-forward"]


def _is_kept(tensor: Kept, modules: tuple[str, ...]) -> bool:
    if WHOLE_LAYER in modules:
        return tensor.layer_input
    return not set(tensor.dropped_by) & set(modules)


def _total(tensors: Sequence[Kept] | Iterator[Kept]) -> float:
    return sum(tensor.bytes for tensor in tensors)


def _moments(sizes: Sizes, unit: str) -> Iterator[float]:
    """Bytes that are there for a moment while the head, the feed-forward part or the embedding runs backward."""
    model, t = sizes.model, sizes.tensor
    u, whole = sizes.hidden_bytes, HALF * sizes.tokens * model.hidden
    if unit == "embedding":
        yield HALF * model.vocabulary / t * (model.embedding_size or model.hidden)
    if unit in ("head", "prediction"):
        # The gradient of the head's input; among tensor ranks the input gathered anew, and its share of the gradient.
        gathered = whole + u if t > 1 and sizes.problem.sequence_parallel else 0.0
        fresh = 0.0 if sizes.problem.fused_loss else SINGLE * sizes.tokens * model.vocabulary / t
        yield whole + gathered + fresh
    if unit == "experts" or (unit == "prediction" and model.experts is not None):
        yield u + TOKEN_COPIES * HALF * sizes.routed_tokens * model.hidden
    elif unit in ("dense", "prediction"):
        assert model.mlp is not None, "a dense layer has an MLP"
        # The gradient of the output, and of the first product; that of the second one takes the place of its input.
        yield u + HALF * (2 if model.mlp.gated else 1) * sizes.tokens * model.mlp.hidden / t


def _attention_moment(sizes: Sizes) -> float:
    """Gradients of queries, keys, values and output; those of queries are added up in fp32 as well."""
    attention = sizes.model.attention
    assert attention is not None, "layers with shapes have attention"
    heads, size = attention.heads / sizes.tensor, attention.head_size + attention.rope_size
    groups = heads if attention.latent else sizes.key_value_heads
    each = HALF * (heads * (size + attention.values) + groups * (size + attention.values)) + SINGLE * heads * size
    return sizes.hidden_bytes + each * sizes.tokens


# ---- the events ------------------------------------------------------------------------------------------


def passes_of(sizes: Sizes, rank: int) -> tuple[int, Iterator[tuple[str, int, int]]]:
    """What a pipeline rank runs, in its order: the sort of the pass, the chunk of the rank, the micro-batch; of very
    many micro-batches so many as are enough to see the fullest moment, and before them the number that are kept."""
    plan = sizes.plan
    degrees = plan.degrees
    listed, kept = listed_for_memory(plan.schedule, degrees.pipeline, plan.micro_batches(sizes.problem.batch))
    return kept, plan.rule.order(rank, degrees.pipeline, degrees.virtual, listed)


def _fullest(sizes: Sizes, rank: int, stashes: Sequence[Stash]) -> tuple[float, float]:
    """Activations and what is there besides, at the fullest moment of the rank's passes."""
    chunks = sizes.plan.chunks_of_ranks[rank]
    kept, passes = passes_of(sizes, rank)
    live, fullest = kept * stashes[chunks[0]].bytes, (0.0, 0.0)
    for kind, number, _ in passes:
        stash = stashes[chunks[number]]
        if kind == "F":
            live += stash.bytes
            fullest = max(fullest, (live, 0.0), key=sum)
        elif kind == "W":
            live -= stash.for_weights
        else:
            then = live - stash.bytes + stash.kept_then
            fullest = max(fullest, (then, stash.moment), key=sum)
            live -= stash.bytes if kind == "B" else stash.bytes - stash.for_weights
    return fullest


def stash_bytes(problem: TrainingProblem, plan: Configuration, unit: int, recompute: Recompute) -> float:
    """What one micro-batch keeps in one unit, by its position in the row."""
    return _unit(Sizes(problem, plan), unit, recompute.of_layer(0))[0]


def most_kept_bytes(problem: TrainingProblem, plan: Configuration, rank: int) -> float:
    """What the micro-batches in flight keep on a pipeline rank at most, whatever else is there at that moment."""
    sizes = Sizes(problem, plan)
    stashes = {chunk: _stash_of_chunk(sizes, chunk) for chunk in plan.chunks_of_ranks[rank]}
    kept, passes = passes_of(sizes, rank)
    live = most = kept * stashes[plan.chunks_of_ranks[rank][0]].bytes
    for kind, number, _ in passes:
        stash = stashes[plan.chunks_of_ranks[rank][number]]
        live += {
            "F": stash.bytes,
            "W": -stash.for_weights,
            "B": -stash.bytes,
            "I": stash.for_weights - stash.bytes,
        }[kind]
        most = max(most, live)
    return most
