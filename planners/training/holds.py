"""What a rank holds of each type of unit, in closed form, for many degrees at once.

Written from the definitions in the documentation and not from the referee, which counts the events of one
configuration. Under every schedule the fullest moment of a rank is a sum: what stands all the time, what is kept for
the micro-batches in flight, and for one of them, instead, the fullest moment of its way back.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...instances.physics.kernels import HALF, SINGLE, TOKEN_COPIES
from ...instances.training.model import Mlp, UnitType
from ...instances.training.plan import FULL
from ...instances.training.problem import TrainingProblem
from .keys import Keys

# Types of units to which a word for recomputation applies.
WITH_WORDS = ("dense", "experts", "own")


@dataclass(frozen=True)
class UnitBytes:
    """Parameters of one type of unit, and bytes that it keeps for one micro-batch, in columns."""

    usual: Any
    """Parameters, those of experts apart."""
    experts: Any
    stash: Mapping[tuple[str, ...], Any]
    """Bytes that are kept, by the modules that are computed again."""
    moment: Mapping[tuple[str, ...], Any]
    """The most that the unit has on the way back, what it keeps included."""
    for_weights: Mapping[tuple[str, ...], Any]
    """Bytes of the stash that the gradients of weights need."""
    shapes: Sequence[tuple[Any, Any]]
    """Rows and columns of the weights that are multiplied."""


@dataclass
class _Sum:
    """Tensors that a unit keeps: by whom each is dropped when it is computed again, its part of the unit (attention or
    feed-forward), its bytes, and whether gradients of weights need it."""

    layer_input: Any = 0.0
    tensors: tuple[tuple[tuple[str, ...], str, Any, bool], ...] = ()

    def add(self, size: Any, *dropped_by: str, part: str = "other", for_weights: bool = False) -> None:
        self.tensors = (*self.tensors, (dropped_by, part, size, for_weights))


class Bytes:
    """Bytes that the units of a model with shapes keep, for many degrees at once."""

    def __init__(self, problem: TrainingProblem, keys: Keys, words: Iterable[tuple[str, ...]]) -> None:
        self.problem, self.model, self.keys = problem, problem.model, keys
        self.words = tuple(words)
        self.tokens, self.between = keys.tokens(problem), keys.tokens_between(problem)
        self.hidden = HALF * self.between * self.model.hidden
        """The hidden states of a micro-batch on one rank."""

    def unit(self, name: UnitType) -> UnitBytes:
        """All of one type of unit, for every word."""
        kept = self._kept(name)
        tops = self._tops(name)
        stash, moment, for_weights = {}, {}, {}
        # Most words say the same of a unit: what they drop in it is worked out and kept once.
        modules = {module for dropped_by, *_ in kept.tensors for module in dropped_by} | {FULL}
        by_modules: dict[tuple[str, ...], tuple[Any, Any, Any]] = {}
        for word in self.words:
            dropped = tuple(module for module in word if module in modules) if name in WITH_WORDS else ()
            if dropped not in by_modules:
                left, for_weight = self._left(kept, dropped), self._left(kept, dropped, for_weights=True)
                by_modules[dropped] = left, for_weight, self._fullest(name, kept, tops, dropped)
            stash[word], for_weights[word], moment[word] = by_modules[dropped]
        usual, experts, shapes = self._weights(name)
        return UnitBytes(usual, experts, stash, moment, for_weights, shapes)

    def _columns(self, value: Any) -> Any:
        import numpy as np

        return np.zeros(len(self.keys.tensor)) + value

    # ---- what passes keep -----------------------------------------------------------------------------------

    def _left(self, kept: _Sum, word: tuple[str, ...], part: str = "", *, for_weights: bool = False) -> Any:
        """What is kept of all parts but `part`."""
        if FULL in word:
            return self._columns(0.0 if for_weights else kept.layer_input)
        total = self._columns(0.0 if for_weights else kept.layer_input)
        for dropped_by, own, size, needed in kept.tensors:
            if not set(dropped_by) & set(word) and own != part and (needed or not for_weights):
                total = total + size
        return total

    def _lost(self, kept: _Sum, word: tuple[str, ...], *parts: str) -> Any:
        """What is computed again of these parts."""
        total = self._columns(0.0)
        for dropped_by, own, size, _ in kept.tensors:
            if own in parts and (FULL in word or set(dropped_by) & set(word)):
                total = total + size
        return total

    def _fullest(self, name: UnitType, kept: _Sum, tops: Any, word: tuple[str, ...]) -> Any:
        """The most bytes at any moment of the way back."""
        import numpy as np

        again = self._lost(
            kept, word, *(("attention", "feed-forward", "other") if FULL in word else ("feed-forward",))
        )
        fullest = self._left(kept, word) + tops + again
        if name in ("dense", "experts", "prediction"):
            # While attention runs backward what follows it is gone.
            before = self._left(kept, word, "feed-forward") + self._attention_top()
            fullest = np.maximum(fullest, before + self._lost(kept, word, "attention", "other"))
        return fullest

    def _kept(self, name: UnitType) -> _Sum:
        kept = _Sum()
        if name in ("embedding", "prediction") and self.problem.dropout:
            kept.add(self.hidden / HALF)  # the mask of what is read from the table
        if name in ("dense", "experts"):
            self._kept_by_layer(kept, name == "experts")
        if name == "prediction":
            kept.add(2 * self.hidden)
            kept.add(2 * self.hidden, for_weights=True)
            self._kept_by_layer(kept, self.model.experts is not None)
        if name in ("head", "prediction"):
            logits = self.tokens * self.model.vocabulary / self.keys.tensor
            kept.add(self.hidden)
            kept.add(self.hidden, for_weights=True)
            kept.add(logits * (HALF if self.problem.fused_loss else SINGLE), for_weights=True)
        return kept

    def _kept_by_layer(self, kept: _Sum, with_experts: bool) -> None:
        model, u = self.model, self.hidden
        after: dict[str, Any] = {"part": "feed-forward"}
        kept.layer_input = kept.layer_input + u
        latent = model.attention is not None and model.attention.latent
        kept.add(u, *(("layernorm",) if latent else ()), part="attention", for_weights=True)
        self._kept_by_attention(kept)
        if self.problem.dropout:
            kept.add(u / HALF, part="attention")
            kept.add(u / HALF, **after)
        if model.norms >= 2:
            kept.add(u, part="attention")
            kept.add(u, "layernorm" if with_experts else "mlp", for_weights=True, **after)
            kept.add((model.norms - 2) * u, **after)
        if not with_experts:
            assert model.mlp is not None, "a dense layer has an MLP"
            self._kept_by_mlp(kept, model.mlp, "mlp")
            return
        experts, routed = model.experts, self._routed()
        assert experts is not None, "a layer with experts has them"
        inner = HALF * routed * experts.hidden / self.keys.expert_tensor
        kept.add(HALF * routed * model.hidden, "moe", for_weights=True, **after)
        kept.add((1 + experts.gated) * inner, "moe", **after)
        kept.add(inner, "moe", "moe_act", for_weights=True, **after)
        if experts.shared_hidden:
            self._kept_by_mlp(kept, Mlp(experts.shared_hidden, experts.gated), "moe", "shared_experts")

    def _kept_by_mlp(self, kept: _Sum, mlp: Mlp, *dropped_by: str) -> None:
        inner = HALF * self.tokens * mlp.hidden / self.keys.tensor
        kept.add((1 + mlp.gated) * inner, *dropped_by, part="feed-forward")
        kept.add(inner, *dropped_by, part="feed-forward", for_weights=True)

    def _routed(self) -> Any:
        """Copies of tokens that the experts of a rank compute."""
        experts = self.model.experts
        assert experts is not None, "asked of experts alone"
        copies = self.tokens / self.keys.tensor * experts.per_token * self.keys.expert_tensor
        return copies * self.problem.efficiencies.expert_imbalance

    def _kept_by_attention(self, kept: _Sum) -> None:
        attention, heads = self.model.attention, self._heads()
        assert attention is not None, "a model of shapes has attention"
        pairs, rank = self.keys.key_value_heads(self.problem), attention.key_value_rank or 0
        if attention.latent:
            both = (attention.query_rank or 0) + rank
            kept.add(HALF * self.between * (both + attention.rope_size), part="attention")
            kept.add(HALF * self.between * both, part="attention", for_weights=True)
            columns = heads * (2 * (attention.head_size + attention.rope_size) + attention.values)
            kept.add(HALF * self.tokens * columns, "mla_up_proj", part="attention")
        else:
            normed = HALF * self.tokens * (heads + pairs) * attention.head_size
            kept.add(
                (1 + attention.query_key_norm) * normed + HALF * self.tokens * pairs * attention.values,
                part="attention",
            )
        output = HALF * self.tokens * heads * attention.values
        kept.add(output, part="attention", for_weights=True)
        each = SINGLE if self.problem.flash_attention else self._each_probability() * self.problem.sequence
        kept.add(each * self.tokens * heads, "core_attn", part="attention")
        kept.add(output * (self.keys.context > 1), "core_attn", part="attention")

    def _each_probability(self) -> int:
        return HALF + (HALF + 1) * self.problem.dropout

    def _heads(self) -> Any:
        assert self.model.attention is not None, "as above"
        return self.model.attention.heads / self.keys.tensor

    # ---- what is there for a moment -------------------------------------------------------------------------

    def _tops(self, name: UnitType) -> Any:
        """Bytes that are there besides while the head, what follows attention, or the embedding runs backward."""
        import numpy as np

        model, whole = self.model, HALF * self.tokens * self.model.hidden
        top: Any = self._columns(0.0)
        if name == "embedding":
            width = model.embedding_size or model.hidden
            top = top + HALF * model.vocabulary / self.keys.tensor * width
        if name in ("head", "prediction"):
            gathers = (self.keys.tensor > 1) & self.problem.sequence_parallel
            fresh = 0.0 if self.problem.fused_loss else SINGLE * self.tokens * model.vocabulary / self.keys.tensor
            top = top + whole + np.where(gathers, whole + self.hidden, 0) + fresh
        if name == "experts" or (name == "prediction" and model.experts is not None):
            return np.maximum(top, self.hidden + TOKEN_COPIES * HALF * self._routed() * model.hidden)
        if name in ("dense", "prediction"):
            assert model.mlp is not None, "a dense layer has an MLP"
            inner = HALF * (1 + model.mlp.gated) * self.tokens * model.mlp.hidden / self.keys.tensor
            return np.maximum(top, self.hidden + inner)
        return top

    def _attention_top(self) -> Any:
        attention, heads = self.model.attention, self._heads()
        assert attention is not None, "a model of shapes has attention"
        size = attention.head_size + attention.rope_size
        pairs = heads if attention.latent else self.keys.key_value_heads(self.problem)
        columns = HALF * (heads + pairs) * (size + attention.values) + SINGLE * heads * size
        return self.hidden + columns * self.tokens

    # ---- weights --------------------------------------------------------------------------------------------

    def _weights(self, name: UnitType) -> tuple[Any, Any, list[tuple[Any, Any]]]:
        """Parameters, parameters of experts, and the shapes that are multiplied."""
        model, t = self.model, self.keys.tensor
        width, h = model.embedding_size or model.hidden, model.hidden
        shapes: list[tuple[Any, Any]] = []
        usual: Any = 0.0
        experts: Any = 0.0
        if name in ("embedding", "head") and width != h:
            shapes.append((width, h))
        norm = (2 if model.norm == "layer" else 1) * h
        if name == "embedding":
            usual = usual + model.vocabulary / t * width + model.positions * h
        elif name == "head":
            usual = usual + norm * model.final_norm + model.head_bias * model.vocabulary / t
            if not model.tied:
                shapes.append((model.vocabulary / t, width))
        else:
            if name == "prediction":
                usual = usual + 3 * norm
                shapes.append((h / t, 2 * h))
            usual = usual + model.norms * norm + self._attention_weights(shapes)
            if name == "experts" or (name == "prediction" and model.experts is not None):
                more, experts, grouped = self._expert_weights(shapes)
                usual = usual + more + sum(rows * columns for rows, columns in shapes)
                return self._columns(usual), self._columns(experts), [*shapes, *grouped]
            assert model.mlp is not None, "a dense layer has an MLP"
            usual = usual + self._mlp_weights(model.mlp, shapes)
        usual = usual + sum(rows * columns for rows, columns in shapes)
        return self._columns(usual), self._columns(experts), shapes

    def _attention_weights(self, shapes: list[tuple[Any, Any]]) -> Any:
        """Add the shapes of attention; returns how many parameters are in none."""
        attention, heads, h = self.model.attention, self._heads(), self.model.hidden
        assert attention is not None, "a model of shapes has attention"
        shapes.append((h, heads * attention.values))
        if attention.latent:
            rank = attention.key_value_rank or 0
            queries = heads * (attention.head_size + attention.rope_size)
            shapes.append((rank + attention.rope_size, h))
            shapes.append((heads * (attention.head_size + attention.values), rank))
            if attention.query_rank is None:
                shapes.append((queries, h))
                return rank
            shapes.extend(((attention.query_rank, h), (queries, attention.query_rank)))
            return rank + attention.query_rank
        pairs = self.keys.key_value_heads(self.problem)
        rows = (heads + pairs) * attention.head_size + pairs * attention.values
        shapes.append((rows, h))
        return (
            rows * attention.bias
            + h * attention.output_bias
            + 2 * attention.head_size * attention.query_key_norm
            + heads * attention.sinks
        )

    def _mlp_weights(self, mlp: Mlp, shapes: list[tuple[Any, Any]]) -> Any:
        inner = mlp.hidden / self.keys.tensor
        rows = (1 + mlp.gated) * inner
        shapes.extend(((rows, self.model.hidden), (self.model.hidden, inner)))
        return (rows + self.model.hidden) * mlp.bias

    def _expert_weights(self, shapes: list[tuple[Any, Any]]) -> tuple[Any, Any, list[tuple[Any, Any]]]:
        own, h = self.model.experts, self.model.hidden
        assert own is not None, "a layer with experts has them"
        local, inner = own.count / self.keys.expert, own.hidden / self.keys.expert_tensor
        rows = (1 + own.gated) * inner
        experts = local * (rows * h + h * inner + (rows + h) * own.bias)
        more = own.count * h + own.count * own.router_bias + h * own.shared_gate
        if own.shared_hidden:
            more = more + self._mlp_weights(Mlp(own.shared_hidden, own.gated, own.bias), shapes)
        return more, experts, [(rows, h), (h, inner)]


def cached_gradients(shapes: Sequence[tuple[Any, Any]]) -> Any:
    """Bytes of one buffer for each different shape."""
    total: Any = 0.0
    for i, (rows, columns) in enumerate(shapes):
        new: Any = 1
        for other_rows, other_columns in shapes[:i]:
            new = new * (1 - (rows == other_rows) * (columns == other_columns))
        total = total + HALF * rows * columns * new
    return total
