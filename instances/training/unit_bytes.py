"""What a rank has of each type of unit: its parameters, and the bytes that passes keep. The one place where both are
counted.

Everything is in columns, with a row for each choice of degrees: the search asks for thousands of rows at once, and the
referee for one. `tests/oracles/training_costs.py` counts the same from `docs/training-memory.md` in plain Python, and a
test holds both together. To change what a unit keeps, change that page, this file and that one.

Numbers are those of one rank. `S` is the tokens of a micro-batch on one context rank, t the tensor degree. Where
sequence parallelism divides the tokens between products, tensors there have `S / t` tokens, else `S`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ..physics.kernels import HALF, SINGLE, TOKEN_COPIES
from .model import Attention, Experts, Mlp, Model, UnitType
from .plan import FULL
from .problem import TrainingProblem
from .unit_seconds import LAYERS, Keys

# Units whose passes run attention and what follows it.
_WITH_ATTENTION = ("dense", "experts", "prediction")


# ---- parameters ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class UnitParameters:
    """Parameters of one type of unit on a rank, in columns."""

    shapes: tuple[tuple[Any, Any], ...]
    """Rows and columns of the weights that are multiplied with activations, those of experts apart."""
    expert_shapes: tuple[tuple[Any, Any], ...]
    """The same of one expert."""
    others: Any
    """Parameters of vectors and tables and of the router."""
    expert_others: Any
    """Parameters of one expert that are in none of its shapes."""
    local: Any
    """Experts of the rank."""
    sent: Any
    """Parameters that data-parallel ranks send each other: of products and tables, without norms and biases."""

    @property
    def usual(self) -> Any:
        """All parameters but those of experts."""
        return self.others + _numbers(self.shapes)

    @property
    def experts(self) -> Any:
        return self.local * (_numbers(self.expert_shapes) + self.expert_others)

    @property
    def sent_experts(self) -> Any:
        return self.local * _numbers(self.expert_shapes)


def _numbers(shapes: Iterable[tuple[Any, Any]]) -> Any:
    return sum(rows * columns for rows, columns in shapes)


def unit_parameters(model: Model, keys: Keys, name: UnitType) -> UnitParameters:
    """Parameters of a type of unit; the head of a tied model has no table of words of its own."""
    t, h, width = keys.tensor, model.hidden, model.embedding_size or model.hidden
    projection = [(width, h)] if width != h else []
    table = model.vocabulary / t * width
    if name == "embedding":
        positions = model.positions * h
        return UnitParameters(tuple(projection), (), table + positions, 0.0, 0.0, table + positions)
    if name == "head":
        head = [] if model.tied else [(model.vocabulary / t, width)]
        others = norm_parameters(model, h) * model.final_norm + model.head_bias * model.vocabulary / t
        return UnitParameters((*projection, *head), (), others, 0.0, 0.0, model.vocabulary / t * h)
    assert model.attention is not None, "a model of shapes has attention"
    shapes, others = _attention(model, model.attention, keys)
    others = others + model.norms * norm_parameters(model, h)
    if name == "prediction":
        shapes.append((h / t, 2 * h))
        others = others + 3 * norm_parameters(model, h)
    if not _has_experts(model, name):
        assert model.mlp is not None, "a dense layer has an MLP"
        more, biases = _mlp(h, model.mlp, t)
        shapes += more
        return UnitParameters(tuple(shapes), (), others + biases, 0.0, 0.0, _numbers(shapes))
    own = _experts_of(model)
    expert_shapes, biases = _mlp(h, Mlp(own.hidden, own.gated, own.bias), keys.expert_tensor)
    router = own.count * h
    others = others + router + own.count * own.router_bias + h * own.shared_gate
    if own.shared_hidden:
        shapes += _mlp(h, Mlp(own.shared_hidden, own.gated), t)[0]
    sent = router + _numbers(shapes)
    return UnitParameters(tuple(shapes), tuple(expert_shapes), others, biases, own.count / keys.expert, sent)


def _has_experts(model: Model, name: UnitType) -> bool:
    return name == "experts" or (name == "prediction" and model.experts is not None)


def _experts_of(model: Model) -> Experts:
    assert model.experts is not None, "a layer with experts has them"
    return model.experts


def norm_parameters(model: Model, size: int) -> int:
    """A norm has a factor for each number; a norm that centres also has a shift for each."""
    return size if model.norm == "rms" else 2 * size


def _attention(model: Model, own: Attention, keys: Keys) -> tuple[list[tuple[Any, Any]], Any]:
    """Shapes, and parameters that are in none. Latent attention: products that lead down to a rank are whole on every
    tensor rank, those that lead up are divided by heads."""
    h, heads = model.hidden, own.heads / keys.tensor
    output, bias = (h, heads * own.values), h * own.output_bias
    if own.key_value_rank is None:
        pairs = keys.key_value_heads(own.key_value_heads)
        rows = (heads + pairs) * own.head_size + pairs * own.values
        norms = 2 * norm_parameters(model, own.head_size) * own.query_key_norm
        return [(rows, h), output], rows * own.bias + bias + norms + heads * own.sinks
    queries, width = heads * (own.head_size + own.rope_size), own.key_value_rank + own.rope_size
    shapes = [(width, h), (heads * (own.head_size + own.values), own.key_value_rank), output]
    others = width * own.bias + norm_parameters(model, own.key_value_rank) + bias
    if own.query_rank is None:
        return [(queries, h), *shapes], others
    others += own.query_rank * own.bias + norm_parameters(model, own.query_rank)
    return [(own.query_rank, h), (queries, own.query_rank), *shapes], others


def _mlp(h: int, mlp: Mlp, shards: Any) -> tuple[list[tuple[Any, Any]], Any]:
    """Shapes and biases."""
    inner = mlp.hidden / shards
    rows = (1 + mlp.gated) * inner
    return [(rows, h), (h, inner)], (rows + h) * mlp.bias


@dataclass(frozen=True, slots=True)
class UnitCount:
    """Parameters of one unit of the row, whole."""

    total: int
    active: int
    """Parameters that one token meets: of the experts only as many as it is sent to."""


@dataclass(frozen=True, slots=True)
class Counts:
    """Parameters of a model; one table of words that serves the embedding and the head is counted once."""

    units: Mapping[UnitType, UnitCount]
    """Parameters of one unit of each type."""
    embedding: int
    prediction: int
    """Parameters of all layers for multi-token prediction, which published numbers leave out."""
    total: int
    """All parameters but those of multi-token prediction."""
    active: int
    """Those of them that one token meets; the table of words and the head count whole."""


def count_of(model: Model, unit: UnitType) -> UnitCount:
    """Parameters of one unit of that type."""
    import numpy as np

    own = unit_parameters(model, Keys.of([(1, 1, 1, 1, 1)]), unit)
    usual, experts = float(np.sum(own.usual)), float(np.sum(own.experts))
    share = model.experts.per_token / model.experts.count if model.experts is not None else 0.0
    return UnitCount(round(usual + experts), round(usual + experts * share))


def parameters_of(model: Model) -> Counts:
    """Parameters of a model, counted by its shapes or by its measured layers."""
    if model.own:
        total = sum(layer.parameters for layer in model.own)
        return Counts({}, 0, 0, total, total)
    units = {unit: count_of(model, unit) for unit in model.counted}
    totals = {unit: units[unit].total * count for unit, count in model.counted.items()}
    prediction = totals.pop("prediction", 0)
    active = sum(units[unit].active * model.counted[unit] for unit in totals)
    return Counts(units, totals["embedding"], prediction, sum(totals.values()), active)


# ---- what passes keep ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Kept:
    """Bytes that a forward pass leaves for its backward pass, in columns."""

    bytes: Any
    dropped_by: tuple[str, ...] = ()
    """Modules whose recomputation makes it anew, so that it need not be kept."""
    part: str = "other"
    """`attention`, `feed-forward` or `other`: while attention runs backward, what follows it is gone."""
    for_weights: bool = False
    """Does a divided backward pass need it until the gradients of the weights are there?"""
    layer_input: bool = False
    """Is it all that remains where the whole layer is computed again?"""

    def is_left(self, word: tuple[str, ...]) -> bool:
        return self.layer_input if FULL in word else not set(self.dropped_by) & set(word)


@dataclass(frozen=True)
class UnitBytes:
    """What one type of unit keeps for one micro-batch, by the modules that are computed again; in columns."""

    stash: Mapping[tuple[str, ...], Any]
    """Bytes that are kept until the backward pass."""
    moments: Mapping[tuple[str, ...], tuple[tuple[Any, Any], ...]]
    """For each moment of the way back: bytes of the stash that are still kept, and bytes that are there besides."""
    for_weights: Mapping[tuple[str, ...], Any]
    """Bytes of the stash that the gradients of weights need."""


class BytesOfUnits:
    """Bytes that the units of a model with shapes keep."""

    def __init__(self, problem: TrainingProblem, keys: Keys, words: Iterable[tuple[str, ...]]) -> None:
        assert problem.model.attention is not None, "a model of shapes has attention"
        self.problem, self.model, self.attention, self.keys = problem, problem.model, problem.model.attention, keys
        self.words, self.heads = tuple(words), self.attention.heads / keys.tensor
        self.pairs = keys.key_value_heads(self.attention.key_value_heads)
        self.tokens, self.between = keys.tokens(problem), keys.tokens_between(problem)
        self.hidden = HALF * self.between * self.model.hidden
        """Bytes of the hidden states of a micro-batch on one rank between products."""
        self.mask = self.hidden / HALF if problem.dropout else 0.0
        """Bytes of the mask of one dropout: one for each number; none without dropout."""

    def unit(self, name: UnitType) -> UnitBytes:
        """All of one type of unit, for every word."""
        tensors, top = tuple(self._kept(name)), self._top(name)
        stash, moments, for_weights = {}, {}, {}
        # Most words say the same of a unit: what they drop in it is worked out and kept once.
        modules = {module for tensor in tensors for module in tensor.dropped_by} | {FULL}
        known: dict[tuple[str, ...], tuple[Any, Any, Any]] = {}
        for word in self.words:
            dropped = tuple(module for module in word if module in modules) if name in LAYERS else ()
            if dropped not in known:
                known[dropped] = self._with_word(name, tensors, top, dropped)
            stash[word], for_weights[word], moments[word] = known[dropped]
        return UnitBytes(stash, moments, for_weights)

    def _with_word(
        self, name: UnitType, tensors: Iterable[_Kept], top: Any, word: tuple[str, ...]
    ) -> tuple[Any, Any, Any]:
        """Stash, its part for gradients of weights, and moments, where these modules are computed again."""

        def total(which: Iterable[_Kept]) -> Any:
            return 0.0 * self.tokens + sum(tensor.bytes for tensor in which)

        left = [tensor for tensor in tensors if tensor.is_left(word)]
        again = [tensor for tensor in tensors if not tensor.is_left(word)]
        stash, ended = total(left), "feed-forward"
        # A whole layer is there again when its last part runs backward; else that part alone has run again.
        moments = [(stash, top + total(one for one in again if FULL in word or one.part == ended))]
        if name in _WITH_ATTENTION:
            kept, lost = (total(one for one in some if one.part != ended) for some in (left, again))
            moments.append((kept, self._attention_top() + lost))
        return stash, total(one for one in left if one.for_weights), tuple(moments)

    def _kept(self, name: UnitType) -> Iterator[_Kept]:
        """The tensors that one micro-batch leaves in a unit, where nothing is computed again."""
        if name in ("embedding", "prediction"):
            yield _Kept(self.mask)  # both read the table, and drop of what they read
        if name == "prediction":
            # Two norms lead to the product of two hidden states; a head of its own reads what follows.
            yield _Kept(2 * self.hidden)
            yield _Kept(2 * self.hidden, for_weights=True)
        if name in _WITH_ATTENTION:
            yield from self._kept_by_layer(_has_experts(self.model, name))
        if name in ("head", "prediction"):
            # Inputs of the norm and of the product, and what the loss keeps of the logits: their gradient, or in fp32
            # their probabilities.
            logits = self.tokens * self.model.vocabulary / self.keys.tensor
            yield _Kept(self.hidden)
            yield _Kept(self.hidden, for_weights=True)
            yield _Kept(logits * (HALF if self.problem.fused_loss else SINGLE), for_weights=True)

    def _kept_by_layer(self, with_experts: bool) -> Iterator[_Kept]:
        model, u, latent = self.model, self.hidden, self.attention.latent
        yield _Kept(u, layer_input=True)
        # A norm before one product is one kernel with it, which keeps its output; only a norm that several products
        # read stands alone and can be computed again.
        yield _Kept(u, ("layernorm",) if latent else (), "attention", for_weights=True)
        yield from self._kept_by_latents() if latent else self._kept_by_queries()
        yield from self._kept_by_core()
        yield _Kept(self.mask, part="attention")
        # A parallel block has one norm; further norms, after attention and MLP, keep their inputs.
        if model.norms >= 2:
            yield _Kept(u, part="attention")
            yield _Kept(u, ("layernorm" if with_experts else "mlp",), "feed-forward", for_weights=True)
            yield _Kept((model.norms - 2) * u, part="feed-forward")
        if with_experts:
            yield from self._kept_by_experts(_experts_of(model))
        else:
            assert model.mlp is not None, "a dense layer has an MLP"
            yield from self._kept_by_mlp(model.mlp.hidden, model.mlp.gated, "mlp")
        yield _Kept(self.mask, part="feed-forward")

    def _kept_by_queries(self) -> Iterator[_Kept]:
        """Queries, keys and values as the core of the attention reads them; before norms of their own a second time."""
        own = self.attention
        normed = HALF * self.tokens * (self.heads + self.pairs) * own.head_size
        yield _Kept(normed + HALF * self.tokens * self.pairs * own.values, part="attention")
        if own.query_key_norm:
            yield _Kept(normed, part="attention")

    def _kept_by_latents(self) -> Iterator[_Kept]:
        """Latent parts, before and after their norms, are between products; queries, keys and values are by heads."""
        own = self.attention
        ranks = (own.query_rank or 0) + (own.key_value_rank or 0)
        yield _Kept(HALF * self.between * (ranks + own.rope_size), part="attention")
        yield _Kept(HALF * self.between * ranks, part="attention", for_weights=True)
        by_head = 2 * (own.head_size + own.rope_size) + own.values
        yield _Kept(HALF * self.tokens * self.heads * by_head, ("mla_up_proj",), "attention")

    def _kept_by_core(self) -> Iterator[_Kept]:
        """The output of attention, and what its softmax leaves: a number for each query, or whole matrices."""
        output = HALF * self.tokens * self.heads * self.attention.values
        yield _Kept(output, part="attention", for_weights=True)
        # Probabilities; with dropout a mask of one byte, and what it leaves.
        matrix = (HALF + (HALF + 1) * self.problem.dropout) * self.problem.sequence
        each = SINGLE if self.problem.flash_attention else matrix
        yield _Kept(each * self.heads * self.tokens, ("core_attn",), "attention")
        # The ring keeps its own copy of its output, as measured with 4 and 8 context ranks.
        yield _Kept(output * (self.keys.context > 1), ("core_attn",), "attention")

    def _kept_by_mlp(self, hidden: int, gated: bool, *dropped_by: str) -> Iterator[_Kept]:
        inner = HALF * self.tokens * hidden / self.keys.tensor
        yield _Kept((1 + gated) * inner, dropped_by, "feed-forward")
        yield _Kept(inner, dropped_by, "feed-forward", for_weights=True)

    def _kept_by_experts(self, own: Experts) -> Iterator[_Kept]:
        """One copy of each routed token, and the products inside; weights of routing enter at the activation, so that
        nothing is kept behind the experts."""
        inner = HALF * self._routed() * own.hidden / self.keys.expert_tensor
        yield _Kept(HALF * self._routed() * self.model.hidden, ("moe",), "feed-forward", for_weights=True)
        yield _Kept((1 + own.gated) * inner, ("moe",), "feed-forward")
        yield _Kept(inner, ("moe", "moe_act"), "feed-forward", for_weights=True)
        if own.shared_hidden:
            yield from self._kept_by_mlp(own.shared_hidden, own.gated, "moe", "shared_experts")

    def _routed(self) -> Any:
        """Copies of tokens that the experts of one rank compute, where routing is even up to `expert_imbalance`."""
        copies = self.tokens / self.keys.tensor * _experts_of(self.model).per_token * self.keys.expert_tensor
        return copies * self.problem.efficiencies.expert_imbalance

    # ---- what is there for a moment -------------------------------------------------------------------------

    def _top(self, name: UnitType) -> Any:
        """Bytes that are there besides while the head, what follows attention, or the embedding runs backward."""
        import numpy as np

        model, t, whole = self.model, self.keys.tensor, HALF * self.tokens * self.model.hidden
        top = 0.0 * self.tokens
        if name == "embedding":
            return HALF * model.vocabulary / t * (model.embedding_size or model.hidden)
        if name in ("head", "prediction"):
            # The gradient of the head's input; among tensor ranks the input gathered anew, and its share of the
            # gradient.
            gathered = np.where((t > 1) & self.problem.sequence_parallel, whole + self.hidden, 0.0)
            top = (
                whole + gathered + (0.0 if self.problem.fused_loss else SINGLE * self.tokens * model.vocabulary / t)
            )
        if _has_experts(model, name):
            return np.maximum(top, self.hidden + TOKEN_COPIES * HALF * self._routed() * model.hidden)
        if name in _WITH_ATTENTION:
            assert model.mlp is not None, "a dense layer has an MLP"
            # The gradient of the output, and of the first product; that of the second one takes the place of its input.
            inner = HALF * (1 + model.mlp.gated) * self.tokens * model.mlp.hidden / t
            return np.maximum(top, self.hidden + inner)
        return top

    def _attention_top(self) -> Any:
        """Gradients of queries, keys, values and output; those of queries are added up in fp32 as well."""
        own = self.attention
        size = own.head_size + own.rope_size
        pairs = self.heads if own.latent else self.pairs
        columns = HALF * (self.heads + pairs) * (size + own.values) + SINGLE * self.heads * size
        return self.hidden + columns * self.tokens
