"""How training problems come in and go out, and what is said of them.

Files hold every field of the problem: to add a field, add it to the record, which is read and written by its types.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Any

from ..base.amounts import exact_sum
from ..base.cluster import Cluster, refuse_others
from ..base.errors import UsageError
from ..base.fields import as_number, by_key, each, read_problem, read_record, to_record, write_problem
from ..base.quantities import several
from ..physics.efficiencies import Efficiencies
from ..registry import TRAINING
from .lengths import Length
from .model import Attention, Encoder, Experts, MeasuredTime, Mlp, Model, OwnLayer
from .plan import Configuration
from .problem import Gpu, Level, Pool, TrainingProblem, check_hardware, refuse_two_sorts
from .referee import memory_of_ranks

# ---- problems in and out -------------------------------------------------------------------------------


def read(data: Mapping[str, Any], cluster: Cluster, name: str) -> TrainingProblem:
    return adjusted(training_from_json({"name": name, **data}), cluster)


def adjusted(problem: TrainingProblem, cluster: Cluster) -> TrainingProblem:
    """The problem with other GPUs of the same sort, another batch, or another memory, that hardware can have."""
    return check_hardware(_on_cluster(problem, cluster))


def _on_cluster(problem: TrainingProblem, cluster: Cluster) -> TrainingProblem:
    refuse_others(TRAINING, cluster)
    if cluster.batch is not None:
        problem = problem.replace(batch=cluster.batch)
    if cluster.memory_bytes is not None:
        problem = with_memory(problem, None if cluster.memory_bytes == math.inf else cluster.memory_bytes)
    if cluster.levels is not None:
        refuse_two_sorts(problem, "other network")
        levels = tuple(Level(count, rate) for count, rate in cluster.levels)
        devices = cluster.devices or math.prod(level.count for level in levels)
        return problem.replace(devices=devices, levels=levels)
    return problem if cluster.devices is None else with_devices(problem, cluster.devices)


def with_devices(problem: TrainingProblem, devices: int) -> TrainingProblem:
    """The problem with so many GPUs, in whole groups of every level but the outermost one."""
    refuse_two_sorts(problem, "other number")
    *inner, outer = problem.levels
    group = math.prod(level.count for level in inner)
    if devices % group == 0:
        return problem.replace(devices=devices, levels=(*inner, replace(outer, count=devices // group)))
    if inner and devices < problem.levels[0].count:
        return problem.replace(devices=devices, levels=(replace(inner[0], count=devices),))
    raise UsageError(
        f"--devices is {devices}, no multiple of the {several(group, 'GPU')} of a group; give a multiple, or --levels."
    )


def with_memory(problem: TrainingProblem, memory_bytes: float | None) -> TrainingProblem:
    """The problem with so much memory on each GPU; None: without a limit."""
    second = problem.second
    if second is not None:
        second = replace(second, gpu=replace(second.gpu, memory_bytes=memory_bytes))
    return problem.replace(gpu=replace(problem.gpu, memory_bytes=memory_bytes), second=second)


def held(problem: TrainingProblem, plan: Configuration, options: Mapping[str, Any]) -> Fraction:
    """What the fullest rank holds, the reserve included."""
    return max(exact_sum(rank.parts.values()) for rank in memory_of_ranks(problem, plan))


def facts(problem: TrainingProblem) -> dict[str, Any]:
    return {
        "model": problem.model.name,
        "units": len(problem.model.units),
        "gpu": problem.gpu.name if problem.second is None else problem.gpus,
        "devices": problem.devices,
        "batch": problem.batch,
        "sequence": problem.sequence,
        "framework": problem.framework,
        "precision": problem.precision,
    }


def size(problem: TrainingProblem) -> str:
    gpus = f"{problem.devices} {problem.gpu.name}" if problem.second is None else problem.gpus
    return f"{len(problem.model.units)} units of {problem.model.name} on {gpus}"


# ---- files --------------------------------------------------------------------------------------------
#
# Training problems as files: ``pipeplan.training/1``, with every field of the problem.


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
    parts = {name: getattr(model, name) for name in ("attention", "mlp", "experts", "encoder")}
    own = [to_record(layer, times=[to_record(time) for time in layer.times]) for layer in model.own]
    return to_record(model, own=own, **{name: to_record(part) for name, part in parts.items() if part is not None})


def training_from_json(data: object) -> TrainingProblem:
    """The problem in JSON data, or an `InputError` that names the field."""
    parts: dict[str, Any] = {
        "gpu": partial(read_record, Gpu, flops=by_key(as_number)),
        "levels": each(partial(read_record, Level)),
        "efficiencies": partial(read_record, Efficiencies),
    }
    return read_problem(
        TrainingProblem,
        SCHEMA,
        data,
        model=read_model,
        **parts,
        second=partial(read_record, Pool, **parts),
        lengths=each(partial(read_record, Length)),
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
        encoder=partial(read_record, Encoder),
        own=each(_own_layer),
    )


def _own_layer(where: str, value: object) -> OwnLayer:
    return read_record(OwnLayer, where, value, times=each(partial(read_record, MeasuredTime)))
