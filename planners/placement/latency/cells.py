"""A start for graphs that are rows of cells: the plan that the bound by cells has in mind, as far as it can be had."""

from __future__ import annotations

from collections.abc import Iterator

from ....formulations.tarnawski_latency.atoms import atoms_of
from ....formulations.tarnawski_latency.cell_plan import stages_of_row
from .world import World


def cell_places(world: World) -> Iterator[list[int]]:
    """With one piece per accelerator, and with as many as there may be, where they find a place."""
    for pieces in sorted({1, world.pieces}):
        stages = stages_of_row(atoms_of(world.problem, pieces))
        place = None if stages is None else _placed(world, stages)
        if place is not None:
            yield place


def _placed(world: World, stages: list[int | None]) -> list[int] | None:
    """Each piece on the fullest accelerator that has room for it."""
    sizes = [0.0] * (1 + max((stage for stage in stages if stage is not None), default=-1))
    for v, stage in enumerate(stages):
        if stage is not None:
            sizes[stage] += world.node_sizes[v]
    used, count = [0.0] * world.accelerators, [0] * world.accelerators
    slots = []
    for size in sizes:
        fitting = [
            d for d in range(world.accelerators) if count[d] < world.pieces and used[d] + size <= world.capacity
        ]
        if not fitting:
            return None
        d = max(fitting, key=lambda d: used[d])
        slots.append(1 + d * world.pieces + count[d])
        used[d] += size
        count[d] += 1
    return [0 if stage is None else slots[stage] for stage in stages]
