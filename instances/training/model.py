"""A transformer as a row of units: a vision encoder, an embedding, layers of at most two types, multi-token prediction
and a head.

Shapes alone, as a model's own configuration states them; what they cost follows elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

from ..base.checks import check_positive, check_text
from ..base.errors import InputError, show
from ..base.fields import check_members, check_numbers

Norm = Literal["rms", "layer"]
UnitType = Literal["patches", "encoder", "embedding", "dense", "experts", "prediction", "head", "own"]
NORMS: tuple[Norm, ...] = get_args(Norm)

# Modules that can be computed again by themselves, by Megatron's names.
MODULES = ("core_attn", "mla_up_proj", "moe_act", "layernorm", "mlp", "shared_experts", "moe")
# Modules that are computed again together with another one.
INSIDE: Mapping[str, tuple[str, ...]] = {"moe": ("moe_act", "shared_experts")}

# The largest size of any one part of a model; a larger one is a mistake.
MOST = 10**9
# Searches have tables with a row and a column for each layer.
MOST_LAYERS = 1_000
MOST_PREDICTION_LAYERS = 100


@dataclass(frozen=True, slots=True)
class Attention:
    """Grouped-query attention, or latent attention where `key_value_rank` is given."""

    heads: int
    head_size: int
    """Size of a head's queries and keys; in latent attention, of the part without positions."""
    key_value_heads: int
    value_size: int | None = None
    """Size of a head's values; None: the same as `head_size`."""
    query_rank: int | None = None
    """Latent attention: the rank of the queries; None: queries are not compressed."""
    key_value_rank: int | None = None
    rope_size: int = 0
    """Latent attention: the part of queries and of the shared key that has positions."""
    bias: bool = False
    """Have the products for queries, keys and values a bias?"""
    output_bias: bool = False
    query_key_norm: bool = False
    sinks: bool = False
    """Is there a learned number for each head beside the keys?"""
    window: int | None = None
    """Tokens that a layer with a sliding window sees; None: all of them."""
    windowed_share: float = 0
    """Share of the layers that have a sliding window."""

    @property
    def latent(self) -> bool:
        return self.key_value_rank is not None

    def keys_seen(self, tokens: int) -> float:
        """The mean number of keys that a token of a document sees, over layers with a window and without."""
        keys, window, share = tokens / 2, self.window, self.windowed_share
        if window is None or window >= tokens:
            return keys
        return (1 - share) * keys + share * (window - window * window / (2 * tokens))

    @property
    def values(self) -> int:
        """The size of a head's values."""
        return self.head_size if self.value_size is None else self.value_size


@dataclass(frozen=True, slots=True)
class AttentionBothWays(Attention):
    """Attention of an encoder, in which a token sees those behind it as well."""

    def keys_seen(self, tokens: int) -> float:
        """The mean number of keys that a patch of an image sees; windows do not overlap."""
        seen = tokens if self.window is None else min(self.window, tokens)
        return (1 - self.windowed_share) * tokens + self.windowed_share * seen


@dataclass(frozen=True, slots=True)
class Mlp:
    """The products after the attention of a dense layer."""

    hidden: int
    gated: bool = True
    bias: bool = False


@dataclass(frozen=True, slots=True)
class Experts:
    """What stands in place of the MLP in a layer with experts."""

    count: int
    per_token: int
    hidden: int
    """Hidden size of one expert."""
    shared_hidden: int = 0
    """Hidden size of all shared experts together."""
    shared_gate: bool = False
    """Does a learned number say how much the shared experts count?"""
    dense_layers: int = 0
    """Layers without experts, which come first."""
    gated: bool = True
    bias: bool = False
    router_bias: bool = False


@dataclass(frozen=True, slots=True)
class Encoder:
    """A vision transformer whose output takes the place of tokens of the text, and the projector between both.

    Its layers are units, as is what makes vectors of patches; the projector belongs to the unit of the embedding.
    """

    layers: int
    hidden: int
    heads: int
    ffn: int
    """Hidden size of the MLP."""
    tokens: int
    """Patches of an image."""
    images: int = 1
    """Images of each sequence."""
    merged: int = 1
    """Patches of which the projector makes one token of the text."""
    projector: int | None = None
    """Width between the two products of the projector; None: the hidden size of the text model; 0: one product."""
    pooled: bool = False
    """Does the projector read the mean of merged patches, and not all of them?"""
    patch: int = 588
    """Numbers of a patch: 14 x 14 pixels in three colours."""
    vectors: int = 0
    """Vectors of the hidden size beside the layers: positions, class token, norms before and after, biases."""
    layer_vectors: int = 0
    """The same in each layer beside biases and norms."""
    gated: bool = False
    bias: bool = True
    norm: Norm = "layer"
    window: int | None = None
    """Patches of a window; None: each patch sees the whole image."""
    windowed_share: float = 0
    """Share of the layers that have windows."""

    @property
    def patches(self) -> int:
        """Those of a sequence."""
        return self.tokens * self.images

    @property
    def text_tokens(self) -> float:
        """Tokens of a sequence that are images."""
        return self.patches / self.merged

    @property
    def joined(self) -> int:
        """Width of what the projector reads for one token."""
        return self.hidden * (1 if self.pooled else self.merged)

    def inner(self, hidden: int) -> int:
        """Width between the projector's products before a text model of that hidden size; 0: it has one product."""
        return hidden if self.projector is None else self.projector

    @property
    def model(self) -> Model:
        """Its layers as those of a model of their own."""
        attention = AttentionBothWays(
            self.heads,
            self.hidden // self.heads,
            self.heads,
            bias=self.bias,
            output_bias=self.bias,
            window=self.window,
            windowed_share=self.windowed_share,
        )
        mlp = Mlp(self.ffn, self.gated, self.bias)
        return Model("encoder", self.hidden, self.layers, 1, attention, mlp, norm=self.norm)


@dataclass(frozen=True, slots=True)
class MeasuredTime:
    """How long one pass of a layer takes at a tensor degree and a micro-batch."""

    tensor: int
    micro_batch: int
    forward_seconds: float
    backward_seconds: float
    update_seconds: float = 0


@dataclass(frozen=True, slots=True)
class OwnLayer:
    """A layer that was measured, or that another program described, in place of shapes."""

    name: str
    parameters: int
    stash_bytes: float
    """Bytes kept for the backward pass, for one sequence, on one device."""
    output_bytes: float
    """Bytes sent to the next layer, for one sequence."""
    times: tuple[MeasuredTime, ...]

    def is_measured(self, tensor: int, micro_batch: int) -> bool:
        """Has it a time for just this tensor degree and micro-batch?"""
        return any((time.tensor, time.micro_batch) == (tensor, micro_batch) for time in self.times)


@dataclass(frozen=True, slots=True)
class Model:
    """Shapes of a transformer, or layers of its own."""

    name: str
    hidden: int = 0
    layers: int = 0
    vocabulary: int = 0
    attention: Attention | None = None
    mlp: Mlp | None = None
    """None: every layer has experts."""
    experts: Experts | None = None
    tied: bool = False
    """Is the head's weight that of the embedding?"""
    norm: Norm = "rms"
    norms: int = 2
    """Norms of a layer over the hidden size."""
    final_norm: bool = True
    positions: int = 0
    """Learned positions beside the embedding."""
    embedding_size: int | None = None
    """Size of the tables of words, where projections lead to the hidden size and back; None: the hidden size."""
    head_bias: bool = False
    prediction_layers: int = 0
    """Layers for multi-token prediction, each with a projection of two hidden states to one."""
    encoder: Encoder | None = None
    """What stands before the embedding in a model that sees images."""
    own: tuple[OwnLayer, ...] = ()
    """Layers in place of all shapes."""

    def __post_init__(self) -> None:
        check_members(self, "model")
        _check(self)

    @property
    def units(self) -> tuple[UnitType, ...]:
        """The types of the units in the row, in its order."""
        if self.own:
            return tuple("own" for _ in self.own)
        dense = self.layers if self.experts is None else self.experts.dense_layers
        counts: Mapping[UnitType, int] = {
            "patches": int(self.encoder is not None),
            "encoder": 0 if self.encoder is None else self.encoder.layers,
            "embedding": 1,
            "dense": dense,
            "experts": self.layers - dense,
            "prediction": self.prediction_layers,
            "head": 1,
        }
        return tuple(name for name, count in counts.items() for _ in range(count))

    @property
    def embedding_at(self) -> int:
        """The position of the embedding in the row: the units of an encoder come before it."""
        return 0 if self.encoder is None else self.encoder.layers + 1

    @property
    def transformer_layers(self) -> int:
        """All layers, those of an encoder included."""
        return self.layers + (0 if self.encoder is None else self.encoder.layers)

    @property
    def letters(self) -> str:
        """The row of units from the embedding on, in the letters of Megatron's layouts."""
        others = {"embedding": "E", "prediction": "m", "head": "L"}
        return "".join(others.get(unit, "t") for unit in self.units[self.embedding_at :])

    @property
    def modules(self) -> tuple[str, ...]:
        """What its layers can compute again by themselves, by Megatron's names: modules that they have, and whose
        recomputation changes something. A norm before one product is one kernel with it, so that only norms before
        latent attention and before experts stand alone."""
        if self.own or self.attention is None:
            return ()
        units, latent, experts = self.units, self.attention.latent, self.experts
        expert_layers = experts is not None and "experts" in units
        there = {
            "core_attn": True,
            "mla_up_proj": latent,
            "moe_act": expert_layers,
            "layernorm": latent or (expert_layers and self.norms >= 2),
            "mlp": "dense" in units,
            "shared_experts": experts is not None and expert_layers and experts.shared_hidden > 0,
            "moe": expert_layers,
        }
        return tuple(name for name in MODULES if there[name])

    @property
    def counted(self) -> Mapping[UnitType, int]:
        """Number of units of each type."""
        units = self.units
        return {name: units.count(name) for name in dict.fromkeys(units)}


# Its name among the public ones, where `Model` would say too little.
TrainingModel = Model


# ---- checked where it enters -----------------------------------------------------------------------------


def _check(model: Model) -> None:
    check_text("model.name", model.name, 200)
    if model.own:
        _check_own(model)
        return
    attention, experts = model.attention, model.experts
    limits = {
        "layers": (1, MOST_LAYERS),
        "prediction_layers": (0, MOST_PREDICTION_LAYERS),
        "norms": (0, 8),
        "positions": (0, MOST),
    }
    check_numbers(model, "model", MOST, limits)
    if model.norm not in NORMS:
        raise InputError("model.norm", f"is {show(model.norm)}", 'give "rms" or "layer"')
    if attention is None:
        raise InputError("model.attention", "is null", "give heads, head_size and key_value_heads")
    check_numbers(attention, "model.attention", MOST, {"rope_size": (0, MOST)})
    if attention.windowed_share > 1:
        raise InputError(
            "model.attention.windowed_share", f"is {attention.windowed_share:g}", "give a share from 0 to 1"
        )
    if attention.heads % attention.key_value_heads:
        raise InputError(
            "model.attention.key_value_heads",
            f"is {attention.key_value_heads} for {attention.heads} heads",
            "give a divisor of heads",
        )
    if model.mlp is not None:
        check_numbers(model.mlp, "model.mlp", MOST)
    elif experts is None:
        raise InputError("model.mlp", "is missing", "give the hidden size of its products, or experts")
    if experts is not None:
        _check_experts(model, experts)
    if model.encoder is not None:
        _check_encoder(model.encoder)


def _check_encoder(own: Encoder) -> None:
    limits = {"layers": (1, MOST_LAYERS), "projector": (0, MOST), "vectors": (0, MOST), "layer_vectors": (0, MOST)}
    check_numbers(own, "model.encoder", MOST, limits)
    if own.hidden % own.heads:
        raise InputError(
            "model.encoder.heads", f"is {own.heads} for a hidden size of {own.hidden}", "give a divisor"
        )
    if own.patches % own.merged:
        problem = f"is {own.merged} for {own.patches} patches of a sequence"
        raise InputError("model.encoder.merged", problem, "give a divisor")
    if own.norm not in NORMS:
        raise InputError("model.encoder.norm", f"is {show(own.norm)}", 'give "rms" or "layer"')
    if own.windowed_share > 1:
        problem = f"is {own.windowed_share:g}"
        raise InputError("model.encoder.windowed_share", problem, "give a share from 0 to 1")


def _check_experts(model: Model, experts: Experts) -> None:
    check_numbers(experts, "model.experts", MOST, {"shared_hidden": (0, MOST), "dense_layers": (0, MOST)})
    if experts.per_token > experts.count:
        raise InputError(
            "model.experts.per_token", f"is {experts.per_token} of {experts.count}", "give at most their count"
        )
    if experts.dense_layers > model.layers:
        raise InputError(
            "model.experts.dense_layers",
            f"is {experts.dense_layers} of {model.layers} layers",
            "give fewer of them",
        )
    if experts.dense_layers and model.mlp is None:
        raise InputError("model.mlp", "is missing for layers without experts", "give the size of their products")


def _check_own(model: Model) -> None:
    if model.encoder is not None:
        raise InputError("model.encoder", "stands beside layers with measured times", "measure its layers as well")
    if len(model.own) > MOST_LAYERS:
        raise InputError(
            "model.own", f"has {len(model.own)} layers", f"give at most {MOST_LAYERS}, each for several"
        )
    for i, layer in enumerate(model.own):
        where = f"model.own[{i}]"
        check_text(f"{where}.name", layer.name, 200)
        check_numbers(layer, where, MOST, {"parameters": (0, 10**15)})
        if not layer.times:
            raise InputError(f"{where}.times", "is empty", "give how long one pass takes")
        for j, time in enumerate(layer.times):
            check_numbers(time, f"{where}.times[{j}]", 100_000, {"tensor": (1, 10_000)})
            check_positive(f"{where}.times[{j}].forward_seconds", time.forward_seconds)
