"""Trainings of measured layers on a few GPUs, whose memory is met exactly; shapes alone would leave no amount free.

Times are those of a palette. Sizes are whole bytes, as everywhere in trainings: the search adds up floats, which keep
them exactly, and promises nothing where a fraction of a byte decides.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction

from oracles.training import configurations

from pipeplan.instances.base.amounts import as_written
from pipeplan.instances.training.model import MeasuredTime, Model, OwnLayer
from pipeplan.instances.training.problem import Gpu, Level, TrainingProblem
from pipeplan.instances.training.referee import evaluate_configuration

from .amounts import SIZES, TIMES, Numbers, limit_at

FRAMEWORKS = ("megatron", "torchtitan", "deepspeed")
BYTES = {name: SIZES[name] for name in ("whole", "ties", "bytes")}
LOOKED_AT = 30
"""Configurations of which one fills the memory."""


def training(rng: random.Random) -> TrainingProblem:
    """Two or three layers on one or two GPUs."""
    devices = rng.choice((1, 2, 2))
    seconds, palette = Numbers(rng, TIMES), BYTES[rng.choice((*BYTES,))]

    def sizes() -> float:
        return rng.choice((0, *palette))

    degrees = (1, 2) if devices == 2 and rng.random() < 0.3 else (1,)
    layers = tuple(
        OwnLayer(
            f"layer {i}", rng.choice((0, 1, 7, 1000, 10**6 + 1)), sizes(), sizes(), _times(rng, seconds, degrees)
        )
        for i in range(rng.choice((1, 2, 2, 3)))
    )
    problem = TrainingProblem(
        model=Model("own", own=layers),
        gpu=Gpu("nasty", None, {"bf16": rng.choice((1.0, 1e12))}, rng.choice((0.1, 1e12))),
        devices=devices,
        levels=(Level(devices, rng.choice((0.1, 1.0, 1e9)), rng.choice((0.0, 1e-9, 0.1))),),
        batch=devices * rng.choice((1, 2, 2)),
        sequence=1,
        framework=rng.choice(FRAMEWORKS),
        reserve_bytes=sizes(),
        sequence_parallel=False,
    )
    limit = limit_at(rng, _fullest(rng, problem))
    return problem.replace(gpu=replace(problem.gpu, memory_bytes=limit))


def _times(rng: random.Random, seconds: Numbers, degrees: tuple[int, ...]) -> tuple[MeasuredTime, ...]:
    """Forward passes always take a time."""
    return tuple(
        MeasuredTime(t, b, seconds() or rng.choice((1e-9, 0.1)), seconds(), seconds())
        for t in degrees
        for b in (1, 2)
    )


def _fullest(rng: random.Random, problem: TrainingProblem) -> Iterator[Fraction]:
    """What the fullest ranks of some configurations hold, and a little less than the least of them."""
    plans = list(configurations(problem))
    held = [
        as_written(max(rank.bytes for rank in evaluate_configuration(problem, plan).memory))
        for plan in rng.sample(plans, min(len(plans), LOOKED_AT))
    ]
    yield from held
    if held:
        yield min(held) * Fraction(9, 10)
