"""The schedule that a plan was made for: the passes of the simulator's stages, in their order, as blocks."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import merge

from ..timeline.model import Pipeline, Stage
from .order import Deadlock, Run, earliest_starts
from .plan import SchedulePlan
from .problem import ScheduleProblem


def own_schedule(lowered: ScheduleProblem, pipeline: Pipeline) -> SchedulePlan | Deadlock:
    """Of a problem with a block for each pass of each stage, every pass as early as the order of its stage lets it.

    Replicas are one device there, so that their orders are taken pass by pass in turn.
    """
    orders: dict[str, list[Run]] = {}
    for number, stage in enumerate(pipeline.stages):
        in_a_row = sum(block.stage == number and block.kind == "F" for block in lowered.blocks)
        device = next(block.devices[0] for block in lowered.blocks if block.stage == number)
        orders[device] = [_run(lowered, number, signed, in_a_row) for signed in _in_turn(stage)]
    return earliest_starts(lowered, orders)


def _in_turn(stage: Stage) -> Iterator[int]:
    """By the place in the replica's order, and then by replica."""
    placed = (((place, replica, j) for place, j in enumerate(order)) for replica, order in enumerate(stage.orders))
    return (j for _, _, j in merge(*placed))


def _run(lowered: ScheduleProblem, stage: int, signed: int, in_a_row: int) -> Run:
    """The block of a pass: +j is the forward pass of the stage's micro-batch j, -j its backward pass."""
    batch, turn = divmod(abs(signed) - 1, in_a_row)
    name = f"{'F' if signed > 0 else 'B'}{stage}"
    block = lowered.block_index.get(name)
    return (lowered.block_index[f"{name}.{turn}"] if block is None else block), batch
