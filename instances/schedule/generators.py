"""Families of schedule problems, as `plan generate` offers them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from ..base.checks import MAX_DEVICES, check_whole
from ..base.errors import InputError, show
from ..base.kind import Generator
from ..base.quantities import several
from ..physics.schedules import LOOP, V_SHAPE
from .problem import Block, BlockEdge, ScheduleDevice, ScheduleProblem

# ---- pipelines ---------------------------------------------------------------------------------------
# Pipelines of equal or uneven stages with a divided backward pass, as zero-bubble schedules are measured on.


@dataclass(frozen=True, slots=True)
class StagePasses:
    """What one stage of a pipeline does with a micro-batch, and the memory that its passes take and give."""

    forward: float
    inputs: float
    """Time of the backward pass for inputs; of the whole backward pass where it is not divided."""
    weights: float | None
    """Time of the backward pass for weights; None: the backward pass is not divided."""
    taken: float = 2
    """Memory that the forward pass takes."""
    given: float = 1
    """Memory that the backward pass for inputs gives back as it ends; that for weights gives back the rest."""


LAYOUTS = (LOOP, V_SHAPE)


def device_of(stage: int, devices: int, layout: str = LOOP) -> int:
    """The device of a stage in a chain of several on each device: around in a loop, or there and back again."""
    turn, place = divmod(stage, devices)
    return devices - 1 - place if layout == V_SHAPE and turn % 2 else place


def divided_pipeline(
    stages: Sequence[StagePasses],
    micro_batches: int | None,
    memory: float | None,
    lag: float = 0,
    name: str = "pipeline",
    time_unit: str | None = None,
    memory_unit: str | None = "half-activation",
    virtual: int = 1,
    layout: str = LOOP,
) -> ScheduleProblem:
    """F down the stages, I back up, and W at any time after its I; the last stage turns around at once.

    Parameters
    ----------
    stages : sequence of StagePasses
        In the order of the network. A stage whose backward pass is not divided has one block B instead of I and W.
    micro_batches : int or None
        None: the steady state alone.
    memory : float or None
        Memory of each device; None: no limit.
    lag : float
        Time from the end of a pass to the start of the next stage's, where that is on another device.
    virtual : int
        Number of stages on each device.
    layout : str
        Which stages share a device: `loop` goes through the devices again and again, `v` there and back.

    Returns
    -------
    ScheduleProblem
        Its blocks are named by pass and stage: F0, I0, W0 or B0.

    Raises
    ------
    InputError
        There are no stages, or they cannot be laid out so.
    """
    if not stages:
        raise InputError("stages", "is empty", "give at least one stage")
    check_whole("virtual", virtual, MAX_DEVICES)
    if layout not in LAYOUTS:
        raise InputError("layout", f"is {show(layout)}", f"give one of {', '.join(LAYOUTS)}")
    if len(stages) % virtual:
        raise InputError(
            "virtual", f"is {virtual} for {several(len(stages), 'stage')}", "give a divisor of their number"
        )
    count = len(stages) // virtual
    places = [device_of(i, count, layout) for i in range(len(stages))]
    blocks: list[Block] = []
    edges: list[BlockEdge] = []
    for i, (stage, place) in enumerate(zip(stages, places, strict=True)):
        blocks += _blocks_of(i, stage, f"d{place}")
        turn = _into_stage(stage)
        edges.append(BlockEdge(f"F{i}", f"{turn}{i}"))
        if stage.weights is not None:
            edges.append(BlockEdge(f"I{i}", f"W{i}"))
        if i + 1 < len(stages):
            away = lag if places[i + 1] != place else 0
            following = _into_stage(stages[i + 1])
            edges += [BlockEdge(f"F{i}", f"F{i + 1}", away), BlockEdge(f"{following}{i + 1}", f"{turn}{i}", away)]
    devices = tuple(ScheduleDevice(f"d{i}", memory) for i in range(count))
    return ScheduleProblem(devices, tuple(blocks), tuple(edges), micro_batches, False, name, time_unit, memory_unit)


def _into_stage(stage: StagePasses) -> str:
    """The kind of the backward block that waits for the next stage."""
    return "B" if stage.weights is None else "I"


def _blocks_of(i: int, stage: StagePasses, device: str) -> list[Block]:
    on = (device,)
    forward = Block(f"F{i}", "F", on, stage.forward, i, {device: stage.taken})
    if stage.weights is None:
        return [forward, Block(f"B{i}", "B", on, stage.inputs, i, {device: -stage.taken})]
    rest = stage.taken - stage.given
    return [
        forward,
        Block(f"I{i}", "I", on, stage.inputs, i, {device: -stage.given}),
        Block(f"W{i}", "W", on, stage.weights, i, {device: -rest}),
    ]


def equal_stages(
    count: int, forward: float, inputs: float, weights: float | None, taken: float = 2, given: float = 1
) -> tuple[StagePasses, ...]:
    check_whole("stages", count, MAX_DEVICES)
    return (StagePasses(forward, inputs, weights, taken, given),) * count


# ---- generators ------------------------------------------------------------


def _pipeline(
    stages: int = 4,
    micro_batches: int = 12,
    forward: float = 5,
    inputs: float = 6,
    weights: float = 4,
    lag: float = 0,
    limit: float = 10,
) -> ScheduleProblem:
    """Equal stages for `plan generate pipeline`. Arguments need a default and a line in `PARAMETERS` of studies."""
    name = f"pipeline-{stages}x{micro_batches}"
    return divided_pipeline(equal_stages(stages, forward, inputs, weights), micro_batches, limit, lag, name)


def _virtual(
    layout: str,
    devices: int = 4,
    virtual: int = 2,
    micro_batches: int = 12,
    forward: float = 5,
    inputs: float = 6,
    weights: float = 4,
    undivided: bool = False,
    lag: float = 0,
    limit: float | None = None,
) -> ScheduleProblem:
    """A pipeline with several stages on each device. `limit` counts halves of one stage's activations; None: as much as
    the rule for such stages holds, which is interleaved 1F1B for a loop and DualPipe's V for a V."""
    check_whole("devices", devices, MAX_DEVICES)
    check_whole("virtual", virtual, MAX_DEVICES)
    passes = (inputs + weights, None) if undivided else (inputs, weights)
    stages = equal_stages(devices * virtual, forward, *passes)
    warm_up = (virtual - 1) * devices
    rule_holds = 2 * (warm_up + (2 * devices - 1 if layout == LOOP else devices + 1))
    name = f"{'interleaved' if layout == LOOP else layout}-{devices}x{virtual}x{micro_batches}"
    memory = rule_holds if limit is None else limit
    return divided_pipeline(stages, micro_batches, memory, lag, name, virtual=virtual, layout=layout)


_PASSES = ("forward", "inputs", "weights")
_VIRTUAL = ("devices", "virtual", "micro_batches", *_PASSES, "undivided", "lag", "limit")
_SEVERAL = "equal stages, several on each device"

GENERATORS: Mapping[str, Generator] = {
    "pipeline": Generator(
        "equal stages with a divided backward pass",
        _pipeline,
        ("stages", "micro_batches", *_PASSES, "lag", "limit"),
    ),
    "interleaved-pipeline": Generator(f"{_SEVERAL}, around in a loop", partial(_virtual, LOOP), _VIRTUAL),
    "v-pipeline": Generator(f"{_SEVERAL}, there and back", partial(_virtual, V_SHAPE), _VIRTUAL),
}
