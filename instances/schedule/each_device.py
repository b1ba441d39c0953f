"""Memory on each device of a schedule problem."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any

from .plan import AnySchedule
from .problem import ScheduleProblem
from .referee.evaluate import evaluate_schedule


def with_memory(problem: ScheduleProblem, memory: float | None) -> ScheduleProblem:
    """The problem with this memory on every device that has a limit or whose memory some block changes or uses."""
    holding = holders(problem)
    devices = tuple(
        replace(device, memory=memory) if device.name in holding else device for device in problem.devices
    )
    return problem.replace(devices=devices)


def holders(problem: ScheduleProblem) -> frozenset[str]:
    """Names of the devices that have a limit, or whose memory some block changes or uses."""
    limited = {device.name for device in problem.devices if device.memory is not None}
    return frozenset(limited.union(*((*block.memory, *block.workspace) for block in problem.blocks)))


def held(problem: ScheduleProblem, plan: AnySchedule, options: Mapping[str, Any]) -> Fraction:
    """What the fullest device holds at most; links hold nothing."""
    holding = holders(problem)
    uses = evaluate_schedule(problem, plan).devices
    return max((use.peak for use in uses if use.name in holding), default=Fraction(0))
