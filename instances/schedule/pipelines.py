"""Pipelines of equal or uneven stages with a divided backward pass, as zero-bubble schedules are measured on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..errors import InputError
from .problem import Block, BlockEdge, ScheduleDevice, ScheduleProblem


@dataclass(frozen=True, slots=True)
class StagePasses:
    """What one stage of a pipeline does with a micro-batch: three passes, and the memory that they take and give."""

    forward: float
    inputs: float
    """Of the backward pass for inputs."""
    weights: float
    """Of the backward pass for weights."""
    taken: float = 2
    """By the forward pass."""
    given: float = 1
    """Back at the end of the backward pass for inputs; the rest comes back with that for weights."""


def divided_pipeline(
    stages: Sequence[StagePasses],
    micro_batches: int | None,
    memory: float | None,
    lag: float = 0,
    name: str = "pipeline",
    time_unit: str | None = None,
    memory_unit: str | None = "half-activation",
) -> ScheduleProblem:
    """F down the stages, I back up, and W at any time after its I; the last stage turns around at once."""
    if not stages:
        raise InputError("stages", "is empty", "give at least one stage")
    last = len(stages) - 1
    blocks: list[Block] = []
    edges: list[BlockEdge] = []
    for i, stage in enumerate(stages):
        device = (f"d{i}",)
        rest = stage.taken - stage.given
        blocks += [
            Block(f"F{i}", "F", device, stage.forward, i, {device[0]: stage.taken}),
            Block(f"I{i}", "I", device, stage.inputs, i, {device[0]: -stage.given}),
            Block(f"W{i}", "W", device, stage.weights, i, {device[0]: -rest}),
        ]
        edges += [BlockEdge(f"F{i}", f"I{i}"), BlockEdge(f"I{i}", f"W{i}")]
        if i < last:
            edges += [BlockEdge(f"F{i}", f"F{i + 1}", lag), BlockEdge(f"I{i + 1}", f"I{i}", lag)]
    devices = tuple(ScheduleDevice(f"d{i}", memory) for i in range(len(stages)))
    return ScheduleProblem(devices, tuple(blocks), tuple(edges), micro_batches, False, name, time_unit, memory_unit)


def equal_stages(
    count: int, forward: float, inputs: float, weights: float, taken: float = 2, given: float = 1
) -> tuple[StagePasses, ...]:
    return (StagePasses(forward, inputs, weights, taken, given),) * count


UNEVEN_FORWARD = (30715, 29233, 29106, 29078, 28850, 28919, 28924, 41678)
UNEVEN_INPUTS = (31308, 29344, 29357, 29455, 29217, 29384, 29354, 38731)
UNEVEN_WEIGHTS = (18746, 18789, 19062, 19367, 19455, 19967, 20096, 32833)
UNEVEN_TAKEN = (943, *(1240,) * 6, 1071)
UNEVEN_GIVEN = (533, *(688,) * 6, 588)


def measured_uneven(micro_batches: int = 32) -> ScheduleProblem:
    """Eight stages of a transformer with an embedding and a head, as measured: microseconds and MiB."""
    rows = zip(UNEVEN_FORWARD, UNEVEN_INPUTS, UNEVEN_WEIGHTS, UNEVEN_TAKEN, UNEVEN_GIVEN, strict=True)
    stages = tuple(StagePasses(*row) for row in rows)
    return divided_pipeline(stages, micro_batches, 19840, 473, "measured-uneven", "us", "MiB")


def measured_even(micro_batches: int = 32) -> ScheduleProblem:
    """Eight equal stages of a transformer, as measured: microseconds and MiB."""
    stages = equal_stages(8, 29850, 29767, 18868, taken=3720, given=2048)
    return divided_pipeline(stages, micro_batches, 59520, 466, "measured-even", "us", "MiB")
