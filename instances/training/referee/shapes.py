"""What one rank has of a unit of the model: its weights, and the tensors that a forward pass keeps.

Numbers are those of one rank. `S` is the tokens of a micro-batch on one context rank, t the tensor degree. Where
sequence parallelism divides the tokens between products, such tensors count `S / t` tokens, else `S`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from ...physics.kernels import HALF, SINGLE
from ..model import Attention, Experts, Mlp, Model
from ..plan import Configuration
from ..problem import TrainingProblem


@dataclass(frozen=True, slots=True)
class Weight:
    """A matrix or a vector of parameters on one rank, and how many of the kind it has."""

    rows: float
    columns: float
    experts: bool = False
    """Is it divided among the data-parallel ranks of experts?"""
    copies: float = 1
    product: bool = False
    """Is it multiplied with activations, so that its gradient has a shape of its own?"""

    @property
    def numbers(self) -> float:
        return self.rows * self.columns * self.copies


@dataclass(frozen=True, slots=True)
class Kept:
    """Bytes that a forward pass leaves for its backward pass."""

    bytes: float
    dropped_by: tuple[str, ...] = ()
    """Modules whose recomputation makes it anew, so that it need not be kept."""
    part: Literal["attention", "feed-forward", "other"] = "other"
    for_weights: bool = False
    """Does a divided backward pass need it until the gradients of the weights are there?"""
    layer_input: bool = False
    """Is it all that remains where the whole layer is computed again?"""


@dataclass(frozen=True, slots=True)
class Sizes:
    """Sizes of a micro-batch on one rank, of which those of tensors are made."""

    problem: TrainingProblem
    plan: Configuration

    @property
    def model(self) -> Model:
        return self.problem.model

    @property
    def tensor(self) -> int:
        return self.plan.degrees.tensor

    @property
    def tokens(self) -> float:
        """S: tokens of a micro-batch on one context rank."""
        return self.problem.sequence * self.plan.micro_batch / self.plan.degrees.context

    @property
    def tokens_between(self) -> float:
        """Tokens on one tensor rank between products."""
        return self.tokens / self.tensor if self.problem.sequence_parallel else self.tokens

    @property
    def hidden_bytes(self) -> float:
        """Bytes of the hidden states of a micro-batch on one rank between products."""
        return HALF * self.tokens_between * self.model.hidden

    @property
    def dropout_mask(self) -> float:
        """Bytes of the mask of one dropout between products: one for each number; none without dropout."""
        return self.hidden_bytes / HALF if self.problem.dropout else 0.0

    @property
    def key_value_heads(self) -> float:
        """Key-value heads on one rank; where tensor ranks outnumber them, each rank has a copy of one."""
        attention = self.model.attention
        assert attention is not None, "asked of layers with shapes alone"
        return max(1.0, attention.key_value_heads / self.tensor)

    @property
    def routed_tokens(self) -> float:
        """Copies of tokens that the experts of one rank compute, where routing is balanced up to `expert_imbalance`."""
        experts = self.model.experts
        assert experts is not None, "asked of layers with experts alone"
        each = self.tokens / self.tensor * experts.per_token * self.plan.degrees.expert_tensor
        return each * self.problem.efficiencies.expert_imbalance


# ---- weights -------------------------------------------------------------------------------------------


def weights_of(sizes: Sizes, unit: str) -> Iterator[Weight]:
    """The weights of a unit on one rank; the head of a tied model has no table of words of its own."""
    model, t = sizes.model, sizes.tensor
    width = model.embedding_size or model.hidden
    if unit == "embedding":
        yield Weight(model.vocabulary / t, width)
        yield Weight(model.positions, model.hidden)
        yield from _projection(model)
    elif unit == "head":
        yield from _norms(model, int(model.final_norm))
        yield from _projection(model)
        if not model.tied:
            yield Weight(model.vocabulary / t, width, product=True)
        if model.head_bias:
            yield Weight(model.vocabulary / t, 1)
    elif unit == "prediction":
        yield from _norms(model, 3)
        yield Weight(model.hidden / t, 2 * model.hidden, product=True)
        yield from _layer(sizes, "dense" if model.experts is None else "experts")
    else:
        yield from _layer(sizes, unit)


def _projection(model: Model) -> Iterator[Weight]:
    if model.embedding_size is not None and model.embedding_size != model.hidden:
        yield Weight(model.embedding_size, model.hidden, product=True)


def _norms(model: Model, count: int) -> Iterator[Weight]:
    yield Weight(model.hidden, 2 if model.norm == "layer" else 1, copies=count)


def _layer(sizes: Sizes, unit: str) -> Iterator[Weight]:
    model = sizes.model
    yield from _norms(model, model.norms)
    assert model.attention is not None, "layers with shapes have attention"
    yield from (_latent if model.attention.latent else _grouped)(sizes, model.attention)
    if unit == "experts":
        assert model.experts is not None, "a layer of experts has them"
        yield from _experts(sizes, model.experts)
    else:
        assert model.mlp is not None, "a dense layer has an MLP"
        yield from _mlp(sizes, model.mlp)


def _grouped(sizes: Sizes, own: Attention) -> Iterator[Weight]:
    h, heads = sizes.model.hidden, own.heads / sizes.tensor
    rows = (heads + sizes.key_value_heads) * own.head_size + sizes.key_value_heads * own.values
    yield Weight(rows, h, product=True)
    yield Weight(h, heads * own.values, product=True)
    if own.bias:
        yield Weight(rows, 1)
    if own.output_bias:
        yield Weight(h, 1)
    if own.query_key_norm:
        yield Weight(own.head_size, 2)
    if own.sinks:
        yield Weight(heads, 1)


def _latent(sizes: Sizes, own: Attention) -> Iterator[Weight]:
    """Products that lead down to a rank are whole on every tensor rank; those that lead up are divided by heads."""
    h, heads, rank = sizes.model.hidden, own.heads / sizes.tensor, own.key_value_rank or 0
    queries = heads * (own.head_size + own.rope_size)
    if own.query_rank is None:
        yield Weight(queries, h, product=True)
    else:
        yield Weight(own.query_rank, h, product=True)
        yield Weight(own.query_rank, 1)
        yield Weight(queries, own.query_rank, product=True)
    yield Weight(rank + own.rope_size, h, product=True)
    yield Weight(rank, 1)
    yield Weight(heads * (own.head_size + own.values), rank, product=True)
    yield Weight(h, heads * own.values, product=True)


def _mlp(sizes: Sizes, own: Mlp) -> Iterator[Weight]:
    h, f = sizes.model.hidden, own.hidden / sizes.tensor
    rows = 2 * f if own.gated else f
    yield Weight(rows, h, product=True)
    yield Weight(h, f, product=True)
    if own.bias:
        yield Weight(rows, 1)
        yield Weight(h, 1)


def _experts(sizes: Sizes, own: Experts) -> Iterator[Weight]:
    degrees, h = sizes.plan.degrees, sizes.model.hidden
    local, f = own.count / degrees.expert, own.hidden / degrees.expert_tensor
    rows = 2 * f if own.gated else f
    yield Weight(rows, h, experts=True, copies=local, product=True)
    yield Weight(h, f, experts=True, copies=local, product=True)
    if own.bias:
        yield Weight(rows + h, 1, experts=True, copies=local)
    yield Weight(own.count, h)
    if own.router_bias:
        yield Weight(own.count, 1)
    if own.shared_hidden:
        yield from _mlp(sizes, Mlp(own.shared_hidden, own.gated, own.bias))
    if own.shared_gate:
        yield Weight(h, 1)


# ---- what a forward pass keeps ---------------------------------------------------------------------------


def kept_by(sizes: Sizes, unit: str) -> Iterator[Kept]:
    """The tensors that one micro-batch leaves in a unit, where nothing is computed again."""
    if unit in ("embedding", "prediction"):
        yield Kept(sizes.dropout_mask)  # both read the table, and drop of what they read
    if unit in ("dense", "experts"):
        yield from _kept_by_layer(sizes, unit)
    elif unit == "head":
        yield from _kept_by_head(sizes)
    elif unit == "prediction":
        # Two norms lead to the product of two hidden states; a head of its own reads what follows.
        yield Kept(2 * sizes.hidden_bytes)
        yield Kept(2 * sizes.hidden_bytes, for_weights=True)
        yield from _kept_by_layer(sizes, "dense" if sizes.model.experts is None else "experts")
        yield from _kept_by_head(sizes)


def _kept_by_head(sizes: Sizes) -> Iterator[Kept]:
    """Inputs of the norm and of the product, and what the loss keeps of the logits: their gradient, or in fp32 their
    probabilities."""
    logits = sizes.tokens * sizes.model.vocabulary / sizes.tensor
    yield Kept(sizes.hidden_bytes)
    yield Kept(sizes.hidden_bytes, for_weights=True)
    yield Kept(logits * (HALF if sizes.problem.fused_loss else SINGLE), for_weights=True)


def _kept_by_layer(sizes: Sizes, unit: str) -> Iterator[Kept]:
    """The tensors that attention and the feed-forward part of a layer keep, with their norms and masks."""
    model, own = sizes.model, sizes.model.attention
    assert own is not None, "layers with shapes have attention"
    u = sizes.hidden_bytes
    yield Kept(u, layer_input=True)
    # A norm before one product is one kernel with it, which keeps its output; only a norm that several products read
    # stands alone and can be computed again.
    yield Kept(u, ("layernorm",) if own.latent else (), "attention", for_weights=True)
    yield from (_kept_by_latent if own.latent else _kept_by_grouped)(sizes, own)
    yield from _kept_by_core(sizes, own)
    yield Kept(sizes.dropout_mask, part="attention")
    # A parallel block has one norm; further norms, after attention and MLP, keep their inputs.
    if model.norms >= 2:
        drops = ("layernorm",) if unit == "experts" else ("mlp",)
        yield Kept(u, part="attention")
        yield Kept(u, drops, "feed-forward", for_weights=True)
    for _ in range(model.norms - 2):
        yield Kept(u, part="feed-forward")
    if unit == "experts":
        assert model.experts is not None, "a layer of experts has them"
        yield from _kept_by_experts(sizes, model.experts)
    else:
        assert model.mlp is not None, "a dense layer has an MLP"
        yield from _kept_by_mlp(sizes, model.mlp, ("mlp",))
    yield Kept(sizes.dropout_mask, part="feed-forward")


def _kept_by_grouped(sizes: Sizes, own: Attention) -> Iterator[Kept]:
    """Queries, keys and values as the core of the attention reads them; before norms of their own a second time."""
    queries = HALF * sizes.tokens * own.heads / sizes.tensor * own.head_size
    keys = HALF * sizes.tokens * sizes.key_value_heads * own.head_size
    values = HALF * sizes.tokens * sizes.key_value_heads * own.values
    yield Kept(queries + keys + values, part="attention")
    if own.query_key_norm:
        yield Kept(queries + keys, part="attention")


def _kept_by_latent(sizes: Sizes, own: Attention) -> Iterator[Kept]:
    """Latent parts, before and after their norms, stand between products; queries, keys and values are by heads."""
    between, rank = HALF * sizes.tokens_between, own.key_value_rank or 0
    yield Kept(between * ((own.query_rank or 0) + rank + own.rope_size), part="attention")
    yield Kept(between * ((own.query_rank or 0) + rank), part="attention", for_weights=True)
    by_head = 2 * (own.head_size + own.rope_size) + own.values
    heads = own.heads / sizes.tensor
    yield Kept(HALF * sizes.tokens * heads * by_head, ("mla_up_proj",), "attention")


def _kept_by_core(sizes: Sizes, own: Attention) -> Iterator[Kept]:
    """The output of attention, and what its softmax leaves: a number for each query, or whole matrices."""
    problem, heads = sizes.problem, own.heads / sizes.tensor
    output = HALF * sizes.tokens * heads * own.values
    yield Kept(output, part="attention", for_weights=True)
    if problem.flash_attention:
        yield Kept(SINGLE * sizes.tokens * heads, ("core_attn",), "attention")
    else:
        # Probabilities; with dropout a mask of one byte, and what it leaves.
        each = HALF + (1 + HALF if problem.dropout else 0)
        yield Kept(each * heads * sizes.tokens * problem.sequence, ("core_attn",), "attention")
    if sizes.plan.degrees.context > 1:
        # The ring keeps its own copy of its output, as measured with 4 and 8 context ranks.
        yield Kept(output, ("core_attn",), "attention")


def _kept_by_mlp(sizes: Sizes, own: Mlp, drops: tuple[str, ...]) -> Iterator[Kept]:
    inner = HALF * sizes.tokens * own.hidden / sizes.tensor
    yield Kept(inner * (2 if own.gated else 1), drops, "feed-forward")
    yield Kept(inner, drops, "feed-forward", for_weights=True)


def _kept_by_experts(sizes: Sizes, own: Experts) -> Iterator[Kept]:
    """One copy of each routed token, and the products inside; weights of routing enter at the activation, so that
    nothing is kept behind the experts."""
    f = own.hidden / sizes.plan.degrees.expert_tensor
    inner = HALF * sizes.routed_tokens * f
    yield Kept(HALF * sizes.routed_tokens * sizes.model.hidden, ("moe",), "feed-forward", for_weights=True)
    yield Kept(inner * (2 if own.gated else 1), ("moe",), "feed-forward")
    yield Kept(inner, ("moe", "moe_act"), "feed-forward", for_weights=True)
    if own.shared_hidden:
        yield from _kept_by_mlp(sizes, Mlp(own.shared_hidden, own.gated), ("moe", "shared_experts"))
