"""Training problems as files: ``pipeplan.training/1``, with every field of the problem."""

from __future__ import annotations

from functools import partial
from typing import Any

from ..base.fields import as_number, by_key, each, read_problem, read_record, to_record, write_problem
from ..physics.efficiencies import Efficiencies
from .model import Attention, Experts, MeasuredTime, Mlp, Model, OwnLayer
from .problem import Gpu, Level, TrainingProblem

SCHEMA = "pipeplan.training/1"
# Fields that are written even where they equal their defaults.
ALWAYS = (
    "name",
    "model",
    "gpu",
    "devices",
    "levels",
    "batch",
    "sequence",
    "precision",
    "framework",
    "efficiencies",
)


def training_to_json(problem: TrainingProblem) -> dict[str, Any]:
    """The problem as JSON data."""
    return write_problem(problem, SCHEMA, ALWAYS, model=_model_to_json(problem.model))


def _model_to_json(model: Model) -> dict[str, Any]:
    parts = {name: getattr(model, name) for name in ("attention", "mlp", "experts")}
    own = [to_record(layer, times=[to_record(time) for time in layer.times]) for layer in model.own]
    return to_record(model, own=own, **{name: to_record(part) for name, part in parts.items() if part is not None})


def training_from_json(data: object) -> TrainingProblem:
    """The problem in JSON data, or an `InputError` that names the field."""
    return read_problem(
        TrainingProblem,
        SCHEMA,
        data,
        model=read_model,
        gpu=partial(read_record, Gpu, flops=by_key(as_number)),
        levels=each(partial(read_record, Level)),
        efficiencies=partial(read_record, Efficiencies),
    )


def read_model(where: str, value: object) -> Model:
    """The model of our own format."""
    return read_record(
        Model,
        where,
        value,
        '{"name": "llama-3-8b", "hidden": 4096, "layers": 32, ...}',
        attention=partial(read_record, Attention),
        mlp=partial(read_record, Mlp),
        experts=partial(read_record, Experts),
        own=each(_own_layer),
    )


def _own_layer(where: str, value: object) -> OwnLayer:
    return read_record(OwnLayer, where, value, times=each(partial(read_record, MeasuredTime)))
