"""Families of schedule problems, as `plan generate` offers them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from ..base.checks import MAX_DEVICES, check_whole
from ..base.kind import Generator, Parameter
from ..physics.schedules import LOOP, V_SHAPE
from .pipelines import divided_pipeline, equal_stages
from .problem import ScheduleProblem
from .random_schedules import random_pipeline, random_schedule
from .shapes import SHAPES, shape

STAGES = Parameter("stages", "int", 4, "for pipelines: how many stages, each on a device of its own")
MICRO_BATCHES = Parameter("micro_batches", "int", 12, "for pipelines: micro-batches in an iteration")
LIMIT = Parameter("limit", "float", 10, "for schedules: memory of a device, in halves of a stage's activations")
LAG = Parameter("lag", "float", 0, "for pipelines: from the end of a pass to the next stage")
PASSES = (
    Parameter("forward", "float", 5, "time of a forward pass"),
    Parameter("inputs", "float", 6, "time of a backward pass for inputs"),
    Parameter("weights", "float", 4, "time of a backward pass for weights"),
)
DEVICES = Parameter("accelerators", "int", 4, "number of devices")
SEED = Parameter("seed", "int", 0, "seed of all random numbers")
UNITS = Parameter("limit", "float", None, "for shapes: activations that a device holds; default: twice the devices")


def _pipeline(
    stages: int, micro_batches: int, forward: float, inputs: float, weights: float, lag: float, limit: float
) -> ScheduleProblem:
    name = f"pipeline-{stages}x{micro_batches}"
    return divided_pipeline(equal_stages(stages, forward, inputs, weights), micro_batches, limit, lag, name)


def _virtual(
    layout: str,
    accelerators: int,
    virtual: int,
    micro_batches: int,
    forward: float,
    inputs: float,
    weights: float,
    undivided: bool,
    lag: float,
    limit: float | None,
) -> ScheduleProblem:
    """A pipeline with several stages on each device. `limit` counts halves of one stage's activations; None: as much as
    the rule for such stages holds, which is interleaved 1F1B for a loop and DualPipe's V for a V."""
    check_whole("accelerators", accelerators, MAX_DEVICES)
    check_whole("virtual", virtual, MAX_DEVICES)
    passes = (inputs + weights, None) if undivided else (inputs, weights)
    stages = equal_stages(accelerators * virtual, forward, *passes)
    warm_up = (virtual - 1) * accelerators
    rule_holds = 2 * (warm_up + (2 * accelerators - 1 if layout == LOOP else accelerators + 1))
    name = f"{'interleaved' if layout == LOOP else layout}-{accelerators}x{virtual}x{micro_batches}"
    memory = rule_holds if limit is None else limit
    return divided_pipeline(stages, micro_batches, memory, lag, name, virtual=virtual, layout=layout)


def _uneven(stages: int, micro_batches: int, limit: float, lag: float, seed: int) -> ScheduleProblem:
    return random_pipeline(stages, micro_batches, limit, lag, seed)


def _random(accelerators: int, blocks: int, micro_batches: int | None, seed: int) -> ScheduleProblem:
    return random_schedule(accelerators, blocks, micro_batches, seed)


def _shape(name: str, accelerators: int, limit: float | None, micro_batches: int | None) -> ScheduleProblem:
    return shape(name, accelerators, limit, micro_batches=micro_batches)


def _family(
    name: str, title: str, build: Callable[..., ScheduleProblem], *parameters: Parameter
) -> tuple[str, Generator[Any]]:
    return name, Generator(name, title, build, parameters)


SHAPE_TITLES = {
    "v": "a chain of stages, down and back up",
    "x": "two chains of stages in opposite directions",
    "k": "two branches of stages into a trunk over all devices",
    "m": "a chain of stages between blocks over all devices",
    "nn": "two chains of stages between blocks over all devices",
}

GENERATORS: dict[str, Generator[Any]] = dict(
    (
        _family(
            "pipeline",
            "equal stages with a divided backward pass",
            _pipeline,
            STAGES,
            MICRO_BATCHES,
            *PASSES,
            LAG,
            LIMIT,
        ),
        *(
            _family(
                name,
                title,
                partial(_virtual, layout),
                DEVICES,
                Parameter("virtual", "int", 2, "for pipelines: stages on each device"),
                MICRO_BATCHES,
                *PASSES,
                Parameter("undivided", "flag", False, "for pipelines: the backward pass is one block"),
                LAG,
                Parameter(
                    "limit", "float", None, "for pipelines: memory of a device; default: what the rule holds"
                ),
            )
            for name, title, layout in (
                ("interleaved-pipeline", "equal stages, several on each device, around in a loop", LOOP),
                ("v-pipeline", "equal stages, several on each device, there and back", V_SHAPE),
            )
        ),
        _family(
            "uneven-pipeline",
            "random stages with a divided backward pass",
            _uneven,
            *(STAGES, MICRO_BATCHES, LAG, LIMIT, SEED),
        ),
        *(
            _family(
                f"{name}-shape",
                SHAPE_TITLES[name],
                partial(_shape, name),
                *(DEVICES, UNITS, Parameter("micro_batches", "int", None, "none: the steady state alone")),
            )
            for name in SHAPES
        ),
        _family(
            "random-schedule",
            "a random graph of blocks, some of them on several devices",
            _random,
            DEVICES,
            Parameter("blocks", "int", 12, "blocks of a micro-batch"),
            Parameter("micro_batches", "int", None, "none: the steady state alone"),
            SEED,
        ),
    )
)
