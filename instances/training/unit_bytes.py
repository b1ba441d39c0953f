"""What the passes of one type of unit keep on a rank, in columns; the text of `unit_costs.py` says it in words.

`tests/oracles/training_costs.py` computes the same one unit at a time: to change what is kept, change the text, this
file and that one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ..physics.efficiencies import HALF, SINGLE, TOKEN_COPIES
from .model import Encoder, Experts, UnitType
from .plan import FULL
from .problem import TrainingProblem
from .unit_costs import LAYERS, WITH_ATTENTION, Keys, experts_of, has_experts


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
        """All of one type of unit, for every word; what has no backward pass keeps nothing for it."""
        if name == "encoder":
            own = BytesOfUnits(self.problem.of_encoder, self.keys, self.words).trained("dense")
        else:
            own = self.trained(name)
        if not self.problem.only_forward(name):
            return own
        nothing = 0.0 * self.tokens
        kept = dict.fromkeys(self.words, nothing)
        moments = tuple((nothing, beside) for _, beside in next(iter(own.moments.values())))
        return UnitBytes(kept, dict.fromkeys(self.words, moments), kept)

    def trained(self, name: UnitType) -> UnitBytes:
        """The same where it is trained."""
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

    def formulas(self, name: UnitType) -> tuple[list[_Kept], Any, Any]:
        """What `unit` adds up: the tensors that one micro-batch leaves, and what is there besides while the last part
        of the unit and its attention run backward; keys and sizes may be letters."""
        attention = self._attention_top() if name in WITH_ATTENTION else None
        return list(self._kept(name)), self._top(name), attention

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
        if name in WITH_ATTENTION:
            kept, lost = (total(one for one in some if one.part != ended) for some in (left, again))
            moments.append((kept, self._attention_top() + lost))
        return stash, total(one for one in left if one.for_weights), tuple(moments)

    def _kept(self, name: UnitType) -> Iterator[_Kept]:
        """The tensors that one micro-batch leaves in a unit, where nothing is computed again."""
        if name in ("embedding", "prediction"):
            yield _Kept(self.mask)  # both read the table, and drop of what they read
        if name == "patches":
            yield _Kept(HALF * self.patches * self.vision.patch, for_weights=True)
        if name == "embedding" and self.model.encoder is not None and self.problem.adapter_rank is None:
            inner, rows = self.vision.inner(self.model.hidden), HALF * self.image_tokens
            yield _Kept(rows * self.vision.joined, for_weights=True)
            yield _Kept(rows * inner / self.keys.tensor)
            yield _Kept(rows * inner / self.keys.tensor, for_weights=True)
        if name == "prediction":
            # Two norms lead to the product of two hidden states; a head of its own reads what follows.
            yield _Kept(2 * self.hidden)
            yield _Kept(2 * self.hidden, for_weights=True)
        if name in WITH_ATTENTION:
            for own in self._kept_by_layer(has_experts(self.model, name)):
                yield own if own.layer_input else replace(own, bytes=self.problem.rules.kept * own.bytes)
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
        if self.problem.rules.keeps_gathered:
            more = HALF * self.tokens * model.hidden - u
            yield _Kept(more, part="attention", for_weights=True)
            yield _Kept(more, ("mlp",), "feed-forward", for_weights=True)
        if self.problem.efficiencies.norm_traffic > 1:
            yield _Kept(self.problem.rules.norm_bytes / HALF * model.norms * u, part="attention")
        yield from self._kept_by_latents() if latent else self._kept_by_queries()
        yield from self._kept_by_core()
        yield _Kept(self.mask, part="attention")
        # A parallel block has one norm; further norms, after attention and MLP, keep their inputs.
        if model.norms >= 2:
            yield _Kept(u, part="attention")
            yield _Kept(u, ("layernorm" if with_experts else "mlp",), "feed-forward", for_weights=True)
            yield _Kept((model.norms - 2) * u, part="feed-forward")
        if with_experts:
            yield from self._kept_by_experts(experts_of(model))
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
        copies = self.tokens / self.keys.tensor * experts_of(self.model).per_token * self.keys.expert_tensor
        return copies * self.problem.efficiencies.expert_imbalance

    # ---- a vision encoder ---------------------------------------------------------------------------------

    @property
    def vision(self) -> Encoder:
        assert self.model.encoder is not None, "the model has an encoder"
        return self.model.encoder

    @property
    def patches(self) -> Any:
        """Patches of a micro-batch."""
        return self.vision.patches * self.keys.micro_batch

    @property
    def image_tokens(self) -> Any:
        """Tokens of the text that a micro-batch's images become."""
        return self.vision.text_tokens * self.keys.micro_batch

    # ---- what is there for a moment -------------------------------------------------------------------------

    def _top(self, name: UnitType) -> Any:
        """Bytes that are there besides while the head, what follows attention, or the embedding runs backward."""
        import numpy as np

        model, t, whole = self.model, self.keys.tensor, HALF * self.tokens * self.model.hidden
        top = 0.0 * self.tokens
        if name == "patches":
            return top + HALF * self.patches * self.vision.hidden
        if name == "embedding":
            is_trained = self.problem.adapter_rank is None
            top = top + is_trained * HALF * model.vocabulary / t * (model.embedding_size or model.hidden)
            if model.encoder is None or not is_trained:
                return top
            # The gradients of the projector's output and of its first product.
            width = model.hidden + self.vision.inner(model.hidden) / t
            return np.maximum(top, HALF * self.image_tokens * width)
        if name in ("head", "prediction"):
            # The gradient of the head's input; among tensor ranks the input gathered anew, and its share of the
            # gradient.
            gathered = np.where((t > 1) & self.problem.sequence_parallel, whole + self.hidden, 0.0)
            top = whole + gathered + self._loss_top()
        if has_experts(model, name):
            return np.maximum(top, self.hidden + TOKEN_COPIES * HALF * self._routed() * model.hidden)
        if name in WITH_ATTENTION:
            assert model.mlp is not None, "a dense layer has an MLP"
            # The gradient of the output, and of the first product; that of the second one takes the place of its input.
            inner = HALF * (1 + model.mlp.gated) * self.tokens * model.mlp.hidden / t
            return np.maximum(top, self.hidden + inner)
        return top

    def _loss_top(self) -> Any:
        """In fp32 the gradient of each logit; of a loss of single steps what these make besides what is kept."""
        logits, rules = self.tokens * self.model.vocabulary, self.problem.rules
        logits = logits if rules.gathers_logits else logits / self.keys.tensor
        if rules.logit_bytes is not None:
            return rules.logit_bytes * logits
        return 0.0 if self.problem.fused_loss else SINGLE * logits

    def _attention_top(self) -> Any:
        """Gradients of queries, keys, values and output; those of queries are added up in fp32 as well."""
        own = self.attention
        size = own.head_size + own.rope_size
        pairs = self.heads if own.latent else self.pairs
        columns = HALF * (self.heads + pairs) * (size + own.values) + SINGLE * self.heads * size
        return self.hidden + columns * self.tokens
