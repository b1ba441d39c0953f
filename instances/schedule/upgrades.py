"""A schedule problem on slightly better devices."""

from __future__ import annotations

from dataclasses import replace

from ..upgrade_step import Found, Step
from .problem import ScheduleProblem


def upgrades(problem: ScheduleProblem, step: Step) -> Found:
    if any(device.memory is not None for device in problem.devices):
        more = tuple(
            device if device.memory is None else replace(device, memory=device.memory + step.memory_bytes)
            for device in problem.devices
        )
        yield step.more, problem.replace(devices=more)
    for d, device in enumerate(problem.devices):
        faster = {b: problem.blocks[b] for b in problem.on_device[d] if problem.blocks[b].time}
        if faster:
            blocks = tuple(
                replace(block, time=block.time / step.factor) if b in faster else block
                for b, block in enumerate(problem.blocks)
            )
            yield f"{device.name} {step.factor:g} times as fast", problem.replace(blocks=blocks)
    if any(edge.lag for edge in problem.edges):
        edges = tuple(replace(edge, lag=edge.lag / step.factor) for edge in problem.edges)
        yield step.faster, problem.replace(edges=edges)
