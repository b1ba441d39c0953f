"""Functions of the kind `schedule`: how its problems are read, changed and described, and what they hold in memory."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any

from ..base.cluster import Cluster, refuse_others
from ..base.fields import facts_of
from ..base.kind import Found, Step
from ..base.quantities import BYTE_NAMES, several
from ..registry import SCHEDULE
from .files import schedule_from_json
from .plan import AnySchedule
from .problem import ScheduleDevice, ScheduleProblem
from .referee.evaluate import evaluate_schedule


def read(data: Mapping[str, Any], cluster: Cluster, name: str) -> ScheduleProblem:
    return adjusted(schedule_from_json({"name": name, **data}), cluster)


def adjusted(problem: ScheduleProblem, cluster: Cluster) -> ScheduleProblem:
    """The problem with other micro-batches, or another memory on every device that is no link."""
    refuse_others(SCHEDULE, cluster)
    if cluster.batch is not None:
        problem = problem.replace(micro_batches=cluster.batch)
    if cluster.memory_bytes is not None:
        memory = cluster.memory_bytes
        problem = with_memory(problem, None if memory == math.inf else memory)
    return problem


def facts(problem: ScheduleProblem) -> dict[str, Any]:
    return facts_of(problem, ("devices", "blocks", "edges"), ("micro_batches",))


def size(problem: ScheduleProblem) -> str:
    if problem.micro_batches in (None, 1):
        return f"{several(len(problem.blocks), 'block')} of one micro-batch"
    return f"{several(len(problem.blocks), 'block')} of {several(problem.micro_batches, 'micro-batch')}"


# ---- memory of each device ----------------------------------------------------------------------------


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


# ---- slightly better clusters -------------------------------------------------------------------------


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
