"""Seeded random schedule problems, with everything that a problem can have."""

from __future__ import annotations

import random
from dataclasses import dataclass

from ..base.checks import check_whole
from .pipelines import StagePasses, divided_pipeline
from .problem import Block, BlockEdge, ScheduleDevice, ScheduleProblem


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
