"""A placement on a slightly better cluster."""

from __future__ import annotations

import math
from dataclasses import replace

from ..base.step import Found, Step, with_changed
from .problem import Level, PlacementProblem


def upgrades(problem: PlacementProblem, step: Step) -> Found:
    if problem.levels:
        for number, level in enumerate(problem.levels):
            levels = with_changed(problem.levels, number, devices=level.devices + 1)
            count = math.prod(level.devices for level in levels)
            yield f"one more device on level {number + 1}", problem.replace(levels=levels, accelerators=count)
    else:
        yield "one more accelerator", problem.replace(accelerators=problem.accelerators + 1)
    for number, other in enumerate(problem.other_types):
        types = with_changed(problem.other_types, number, count=other.count + 1)
        yield f"one more {other.name}", problem.replace(other_types=types)
    if problem.memory_bytes is not None:
        yield step.more, problem.replace(memory_bytes=problem.memory_bytes + step.memory_bytes)
    for number, other in enumerate(problem.other_types):
        if other.memory_bytes is not None:
            types = with_changed(problem.other_types, number, memory_bytes=other.memory_bytes + step.memory_bytes)
            yield f"{step.more} in {other.name}", problem.replace(other_types=types)
    if any(node.transfer_time for node in problem.nodes) or any(level.sync_bandwidth for level in problem.levels):
        yield (
            step.faster,
            problem.replace(
                nodes=tuple(
                    replace(node, transfer_time=node.transfer_time / step.factor) for node in problem.nodes
                ),
                levels=tuple(_faster(level, step.factor) for level in problem.levels),
            ),
        )


def _faster(level: Level, factor: float) -> Level:
    return level if level.sync_bandwidth is None else replace(level, sync_bandwidth=level.sync_bandwidth * factor)
