"""A staging on a slightly better cluster."""

from __future__ import annotations

import math

from ..base.step import Found, Step, with_changed
from .problem import StagingLevel, StagingProblem


def upgrades(problem: StagingProblem, step: Step) -> Found:
    """One more device, more memory and faster links, each on its own."""
    yield from _more_devices(problem)
    if problem.memory_bytes is not None:
        yield step.more, problem.replace(memory_bytes=problem.memory_bytes + step.memory_bytes)
    for number, kind in enumerate(problem.device_types):
        if kind.memory_bytes is not None:
            types = with_changed(problem.device_types, number, memory_bytes=kind.memory_bytes + step.memory_bytes)
            yield f"{step.more} in {kind.name}", problem.replace(device_types=types)
    if not problem.levels:
        yield step.faster, problem.replace(bandwidth=problem.bandwidth * step.factor)
    for number, level in enumerate(problem.levels):
        yield (
            f"{step.faster} on level {number + 1}",
            problem.replace(levels=with_changed(problem.levels, number, bandwidth=level.bandwidth * step.factor)),
        )


def _more_devices(problem: StagingProblem) -> Found:
    for number, level in enumerate(problem.levels):
        levels: tuple[StagingLevel, ...] = with_changed(problem.levels, number, devices=level.devices + 1)
        count = math.prod(level.devices for level in levels)
        yield f"one more device on level {number + 1}", problem.replace(levels=levels, devices=count)
    for number, kind in enumerate(problem.device_types):
        types = with_changed(problem.device_types, number, devices=kind.devices + 1)
        yield f"one more {kind.name}", problem.replace(device_types=types, devices=problem.devices + 1)
    if not problem.levels and not problem.device_types:
        yield "one more device", problem.replace(devices=problem.devices + 1)
