"""A schedule problem on slightly better devices."""

from __future__ import annotations

from dataclasses import replace

from ..base.quantities import BYTE_NAMES
from ..base.step import Found, Step
from .problem import ScheduleDevice, ScheduleProblem

# Digits that are kept of times and lags after a division, lest a schedule have to be counted in steps of a billionth.
TIME_DIGITS = 4
MEMORY_DIGITS = 12


def upgrades(problem: ScheduleProblem, step: Step) -> Found:
    """More memory, each device faster, and shorter lags. Memory not counted in bytes grows by a factor."""
    if any(device.memory is not None for device in problem.devices):
        in_bytes = problem.memory_unit in BYTE_NAMES
        words = step.more if in_bytes else f"{100 * (step.factor - 1):g} % more memory"
        more = tuple(_with_more(device, step, in_bytes) for device in problem.devices)
        yield words, problem.replace(devices=more)
    for d, device in enumerate(problem.devices):
        faster = {b for b in problem.on_device[d] if problem.blocks[b].time}
        if faster:
            blocks = tuple(
                replace(block, time=_shorter(block.time, step.factor)) if b in faster else block
                for b, block in enumerate(problem.blocks)
            )
            yield f"{device.name} {step.factor:g} times as fast", problem.replace(blocks=blocks)
    if any(edge.lag for edge in problem.edges):
        edges = tuple(replace(edge, lag=_shorter(edge.lag, step.factor)) for edge in problem.edges)
        yield step.faster, problem.replace(edges=edges)


def _with_more(device: ScheduleDevice, step: Step, in_bytes: bool) -> ScheduleDevice:
    if device.memory is None:
        return device
    more = device.memory + step.memory_bytes if in_bytes else _rounded(device.memory * step.factor, MEMORY_DIGITS)
    return replace(device, memory=max(device.memory, more))


def _shorter(time: float, factor: float) -> float:
    return min(time, _rounded(time / factor, TIME_DIGITS))


def _rounded(number: float, digits: int) -> float:
    return float(f"{number:.{digits}g}")
