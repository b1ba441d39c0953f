"""Schedules of the usual shapes, each with a plan of its own: what is written for PyTorch and read back."""

from __future__ import annotations

from typing import Any

from pipeplan import SchedulePlan, ScheduleProblem
from pipeplan.instances.physics.schedules import V_SHAPE
from pipeplan.instances.schedule.generators import divided_pipeline, equal_stages
from pipeplan.instances.schedule.order import Deadlock, earliest_starts
from pipeplan.instances.timeline.model import kfkb_order
from pipeplan.planners.schedule.list_schedule import better_and_better

MICRO_BATCHES = 6

WHOLE = {
    "1f1b": divided_pipeline(equal_stages(4, 1, 2, None), MICRO_BATCHES, 8),
    "interleaved": divided_pipeline(equal_stages(8, 1, 2, None), MICRO_BATCHES, 16, virtual=2),
}
DIVIDED = {
    "zero-bubble": divided_pipeline(equal_stages(4, 5, 6, 4), MICRO_BATCHES, 10),
    "interleaved zero-bubble": divided_pipeline(equal_stages(8, 5, 6, 4), MICRO_BATCHES, 24, virtual=2),
    "v": divided_pipeline(equal_stages(8, 1, 1, 1), MICRO_BATCHES, 16, virtual=2, layout=V_SHAPE),
}
SHAPES = {**WHOLE, **DIVIDED}


def list_schedule(problem: ScheduleProblem, *how: Any, **options: Any) -> SchedulePlan | None:
    """The best list schedule that was found; None: not even one micro-batch was found to fit."""
    best = None
    for best in better_and_better(problem, *how, **options):  # noqa: B007
        pass
    return best


def planned(name: str) -> tuple[ScheduleProblem, SchedulePlan]:
    """1F1B by its rule, all others by a list schedule."""
    problem = SHAPES[name]
    plan = one_forward_one_backward(problem) if name == "1f1b" else list_schedule(problem)
    assert plan is not None
    return problem, plan


def one_forward_one_backward(problem: ScheduleProblem) -> SchedulePlan:
    """One stage on each device, with whole backward passes."""
    count = len(problem.devices)
    orders = {}
    for stage, device in enumerate(problem.devices):
        signed = kfkb_order(range(1, (problem.micro_batches or 0) + 1), count - stage)
        at = problem.block_index
        orders[device.name] = [(at[f"F{stage}" if j > 0 else f"B{stage}"], abs(j) - 1) for j in signed]
    found = earliest_starts(problem, orders)
    assert not isinstance(found, Deadlock)
    return found
