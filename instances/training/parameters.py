"""Parameters of a model, counted exactly from its shapes: of each unit and by class, all of them and those of a token.

Profiles of shapes, generators and tests use these counts; the referee and the search count by themselves.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from .model import Attention, Experts, Mlp, Model, UnitType


@dataclass(frozen=True, slots=True)
class UnitCount:
    """Parameters of one unit of the row."""

    total: int
    active: int
    """Parameters that one token meets: of the experts only as many as it is sent to."""


@dataclass(frozen=True, slots=True)
class Counts:
    """Parameters of a model; one table of words that serves the embedding and the head is counted once."""

    units: Mapping[UnitType, UnitCount]
    """Parameters of one unit of each type."""
    embedding: int
    layers: int
    """Parameters of all layers together."""
    head: int
    """Parameters of the head with the norm before it, without its weight where that is the embedding's."""
    prediction: int
    """Parameters of all layers for multi-token prediction, which published numbers leave out."""
    active: int
    """Parameters that one token meets, without multi-token prediction; the table of words and the head count whole."""

    @property
    def total(self) -> int:
        """All parameters but those of multi-token prediction."""
        return self.embedding + self.layers + self.head


def parameters_of(model: Model) -> Counts:
    """Parameters of a model, counted by its shapes or by its measured layers."""
    if model.own:
        total = sum(layer.parameters for layer in model.own)
        return Counts({}, 0, total, 0, 0, total)
    units = {unit: unit_parameters(model, unit) for unit in model.counted}
    totals = {unit: units[unit].total * count for unit, count in model.counted.items()}
    actives = [units[unit].active * count for unit, count in model.counted.items() if unit != "prediction"]
    return Counts(
        units,
        totals["embedding"],
        totals.get("dense", 0) + totals.get("experts", 0),
        totals["head"],
        totals.get("prediction", 0),
        sum(actives),
    )


def unit_parameters(model: Model, unit: UnitType) -> UnitCount:
    """Parameters of one unit of that type."""
    if unit == "embedding":
        return _same(_embedding(model))
    if unit == "head":
        return _same(_head(model))
    if unit == "prediction":
        return _prediction(model)
    return _layer(model, with_experts=unit == "experts")


def _same(count: int) -> UnitCount:
    return UnitCount(count, count)


def _norm(model: Model, size: int) -> int:
    """A norm has a factor for each number; a norm that centres also has a shift for each."""
    return size if model.norm == "rms" else 2 * size


def _embedding(model: Model) -> int:
    size = model.embedding_size or model.hidden
    projection = size * model.hidden if model.embedding_size is not None else 0
    return model.vocabulary * size + model.positions * model.hidden + projection


def _head(model: Model) -> int:
    size = model.embedding_size or model.hidden
    projection = model.hidden * size if model.embedding_size is not None else 0
    weight = 0 if model.tied else model.vocabulary * size
    bias = model.vocabulary if model.head_bias else 0
    return _norm(model, model.hidden) * model.final_norm + projection + weight + bias


def _prediction(model: Model) -> UnitCount:
    """Two norms, a projection of two hidden states to one, a layer like the last one, and a norm before the head."""
    layer = _layer(model, with_experts=model.layers > _dense_layers(model))
    extra = 3 * _norm(model, model.hidden) + 2 * model.hidden * model.hidden
    return UnitCount(layer.total + extra, layer.active + extra)


def _dense_layers(model: Model) -> int:
    return model.layers if model.experts is None else model.experts.dense_layers


def _layer(model: Model, *, with_experts: bool) -> UnitCount:
    assert model.attention is not None, "checked by the model"
    both = model.norms * _norm(model, model.hidden) + _attention(model, model.attention)
    if not with_experts:
        assert model.mlp is not None, "checked by the model"
        return _same(both + _mlp(model.hidden, model.mlp))
    assert model.experts is not None, "a unit with experts has them"
    total, active = _experts(model.hidden, model.experts)
    return UnitCount(both + total, both + active)


def _attention(model: Model, own: Attention) -> int:
    if own.latent:
        return _latent_attention(model, own)
    queries, keys = own.heads * own.head_size, own.key_value_heads * own.head_size
    values, output = own.key_value_heads * own.values, own.heads * own.values
    weights = model.hidden * (queries + keys + values + output)
    biases = (queries + keys + values) * own.bias + model.hidden * own.output_bias
    norms = 2 * _norm(model, own.head_size) * own.query_key_norm
    return weights + biases + norms + own.heads * own.sinks


def _latent_attention(model: Model, own: Attention) -> int:
    """Products down to the ranks, a norm there, and products up to the heads; the positions' key is not compressed."""
    assert own.key_value_rank is not None, "latent attention has it"
    query_size = own.heads * (own.head_size + own.rope_size)
    if own.query_rank is None:
        queries = model.hidden * query_size
    else:
        down = model.hidden * own.query_rank + own.query_rank * own.bias
        queries = down + _norm(model, own.query_rank) + own.query_rank * query_size
    width = own.key_value_rank + own.rope_size
    down = model.hidden * width + width * own.bias + _norm(model, own.key_value_rank)
    up = own.key_value_rank * own.heads * (own.head_size + own.values)
    output = own.heads * own.values * model.hidden + model.hidden * own.output_bias
    return queries + down + up + output


def _mlp(hidden: int, mlp: Mlp) -> int:
    return _products(hidden, mlp.hidden, mlp.gated, mlp.bias)


def _products(hidden: int, inner: int, gated: bool, bias: bool) -> int:
    up = 2 if gated else 1
    return (up + 1) * hidden * inner + (up * inner + hidden) * bias


def _experts(hidden: int, experts: Experts) -> tuple[int, int]:
    """Parameters of all experts with their router, and those of them that one token meets."""
    one = _products(hidden, experts.hidden, experts.gated, experts.bias)
    router = hidden * experts.count + experts.count * experts.router_bias
    shared = _products(hidden, experts.shared_hidden, experts.gated, False) + hidden * experts.shared_gate
    always = router + (shared if experts.shared_hidden else 0)
    return experts.count * one + always, experts.per_token * one + always
