"""Random schedule problems with everything that one can have, and schedules of any finite one in whatever memory."""

from __future__ import annotations

import random
from dataclasses import dataclass
from fractions import Fraction

from pipeplan import Block, BlockEdge, ScheduleDevice, SchedulePlan, ScheduleProblem


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


def in_random_order(problem: ScheduleProblem, chosen: random.Random) -> SchedulePlan:
    """Blocks in a random order, each as early as its devices and its edges let it start after those before."""
    assert problem.micro_batches is not None
    count, free = len(problem.blocks), dict.fromkeys((device.name for device in problem.devices), Fraction(0))
    starts: dict[tuple[int, int], Fraction] = {}
    left = {(n, b) for n in range(problem.micro_batches) for b in range(count)}
    while left:
        ready = [copy for copy in sorted(left) if not any(source in left for source, _ in _waits(problem, *copy))]
        near = [copy for copy in ready if copy[0] <= ready[0][0] + 1]  # or memory would hardly ever do
        n, b = chosen.choice(near)
        names = problem.blocks[b].devices
        begin = max(
            [free[name] for name in names]
            + [starts[source] + problem.times[source[1]] + lag for source, lag in _waits(problem, n, b)]
        )
        starts[n, b] = begin
        for name in names:
            free[name] = begin + problem.times[b]
        left.remove((n, b))
    return SchedulePlan(
        {
            block.id: tuple(starts[n, b] for n in range(problem.micro_batches))
            for b, block in enumerate(problem.blocks)
        }
    )


def _waits(problem: ScheduleProblem, n: int, b: int) -> list[tuple[tuple[int, int], Fraction]]:
    return [
        ((n - edge.offset, source), lag)
        for edge, (source, target), lag in zip(problem.edges, problem.ends, problem.lags, strict=True)
        if target == b and n >= edge.offset
    ]
