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
    """The same on every device whose memory any block changes or uses; links have none."""
    held = {name for block in problem.blocks for name in (*block.memory, *block.workspace)}
    devices = tuple(
        replace(device, memory=memory) if device.name in held or device.memory is not None else device
        for device in problem.devices
    )
    return problem.replace(devices=devices)


def held(problem: ScheduleProblem, plan: AnySchedule, options: Mapping[str, Any]) -> Fraction:
    """By the device with the highest peak."""
    return max(use.peak for use in evaluate_schedule(problem, plan).devices)
