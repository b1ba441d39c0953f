"""Families of schedule problems, as `plan generate` offers them."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from ..base.checks import MAX_DEVICES, check_whole
from ..base.generator import Generator, Parameter
from .pipelines import LOOP, V_SHAPE, StagePasses, divided_pipeline, equal_stages
from .problem import Block, BlockEdge, ScheduleDevice, ScheduleProblem
from .shapes import SHAPES, shape

# ---- random schedules ------------------------------------------------------------------------------------
# Seeded random schedule problems, with everything that a problem can have.


def random_pipeline(stages: int, micro_batches: int, memory: float, lag: float, seed: int) -> ScheduleProblem:
    """Uneven stages: passes between 5 and 15 units each, activations of 2 units."""
    chosen = random.Random(seed)
    rows = [StagePasses(*(chosen.randint(5, 15) for _ in range(3))) for _ in range(stages)]
    return divided_pipeline(rows, micro_batches, memory, lag, f"uneven-{stages}x{micro_batches}-{seed}")


@dataclass(frozen=True, slots=True)
class Ingredients:
    """What random problems may have beside blocks in a graph; all of it by default."""

    groups: bool = True
    """Blocks on several devices."""
    offsets: bool = True
    lags: bool = True
    workspace: bool = True
    zero_times: bool = True
    longest: int = 4
    """The longest time of a block."""


def random_schedule(
    devices: int = 3,
    blocks: int = 8,
    micro_batches: int | None = None,
    seed: int = 0,
    ingredients: Ingredients = Ingredients(),
) -> ScheduleProblem:
    """A random graph of blocks that take memory and give it back later, each on one to three devices."""
    check_whole("devices", devices, 1_000)
    check_whole("blocks", blocks, 10_000)
    chosen = random.Random(seed)
    names = [f"d{i}" for i in range(devices)]
    edges = [
        BlockEdge(f"b{i}", f"b{j}", chosen.randint(0, 2) * ingredients.lags)
        for j in range(blocks)
        for i in range(j)
        if chosen.random() < 1.5 / blocks
    ]
    if ingredients.offsets:
        for _ in range(chosen.randint(0, 2)):
            source, target = chosen.choices(range(blocks), k=2)
            edges.append(BlockEdge(f"b{source}", f"b{target}", 0, chosen.randint(1, 2)))
    changes: list[dict[str, float]] = [{} for _ in range(blocks)]
    drafts = [_block(i, names, chosen, ingredients) for i in range(blocks)]
    for i, block in enumerate(drafts):
        _take(i, block, drafts, changes, chosen)
    made = tuple(
        Block(block.id, "X", block.devices, block.time, i, changes[i], block.workspace)
        for i, block in enumerate(drafts)
    )
    limit = chosen.choice([None, *(sum(max(c.get(names[0], 0), 0) for c in changes) + n for n in (1, 3, 6))])
    # A link is a device without memory; of three devices, one in three problems has one.
    limits = [None if d and chosen.random() < 0.2 else limit for d in range(devices)]
    placed = tuple(ScheduleDevice(name, most) for name, most in zip(names, limits, strict=True))
    return ScheduleProblem(placed, made, tuple(edges), micro_batches, name=f"random-{devices}x{blocks}-{seed}")


def _block(i: int, names: list[str], chosen: random.Random, ingredients: Ingredients) -> Block:
    count = chosen.randint(1, min(len(names), 3)) if ingredients.groups and chosen.random() < 0.4 else 1
    devices = tuple(chosen.sample(names, count))
    time = chosen.randint(0 if ingredients.zero_times and chosen.random() < 0.3 else 1, ingredients.longest)
    has_workspace = ingredients.workspace and chosen.random() < 0.3
    return Block(f"b{i}", "X", devices, time, i, {}, {devices[0]: chosen.randint(1, 3)} if has_workspace else {})


def _take(
    i: int, block: Block, drafts: list[Block], changes: list[dict[str, float]], chosen: random.Random
) -> None:
    """Let the block take memory on one of its devices, to be given back by a later block there, if there is one."""
    device = chosen.choice(block.devices)
    later = [j for j in range(i + 1, len(drafts)) if device in drafts[j].devices]
    if not later or chosen.random() < 0.3:
        return
    amount, other = chosen.randint(1, 3), chosen.choice(later)
    changes[i][device] = changes[i].get(device, 0) + amount
    changes[other][device] = changes[other].get(device, 0) - amount


# ---- generators ------------------------------------------------------------

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
