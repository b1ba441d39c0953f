"""Functions of the kind `schedule`: how its problems are read, changed and described, and what they hold in memory."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any

from ..base.cluster import Cluster, refuse_others
from ..base.errors import InputError, nearest
from ..base.fields import (
    as_object,
    as_tuple,
    each,
    facts_of,
    join,
    read_problem,
    read_record,
    shorten,
    to_record,
    write_problem,
)
from ..base.quantities import several
from ..registry import SCHEDULE
from .plan import AnySchedule
from .problem import Block, BlockEdge, ScheduleDevice, ScheduleProblem
from .referee import evaluate_schedule

# ---- files -----------------------------------------------------------------------------------------------
# Our own format for schedule problems, ``pipeplan.schedule/1``: versioned, with every field of the problem.
#
# What equals its default may be omitted. Further keys are welcome, for what other programs know of a block; one
# that looks like a misspelt key of ours is an error.

SCHEMA = "pipeplan.schedule/1"
# Fields of an edge that have other names in a file.
ENDS = {"source": "from", "target": "to"}


def schedule_to_json(problem: ScheduleProblem) -> dict[str, Any]:
    """The problem as JSON data."""
    always = ("name", "time_unit", "memory_unit", "micro_batches", "devices", "blocks", "edges")
    blocks = [to_record(block) for block in problem.blocks]
    return write_problem(
        problem, SCHEMA, always, blocks=blocks, edges=[to_record(edge, ENDS) for edge in problem.edges]
    )


def schedule_from_json(data: object) -> ScheduleProblem:
    """The problem in JSON data, or an `InputError` that names the field."""
    return read_problem(
        ScheduleProblem,
        SCHEMA,
        data,
        refuse=_refuse_slips,
        devices=each(_device),
        blocks=each(_block),
        edges=each(_edge),
    )


def _refuse_slips(where: str, data: Mapping[str, Any], known: Collection[str]) -> None:
    for key in data:
        close = None if key in known else nearest(key, (name for name in known if name not in data))
        if close is not None:
            raise InputError(join(where, shorten(key)), "is an unknown key", f'write "{close}" or remove it')


def _device(where: str, value: object) -> ScheduleDevice:
    example = '{"name": "d0", "memory": 10, "standing": 0}'
    return read_record(ScheduleDevice, where, value, example, refuse=_refuse_slips)


def _block(where: str, value: object) -> Block:
    example = '{"id": "F0", "kind": "F", "devices": ["d0"], "time": 5, "memory": {"d0": 2}}'
    return read_record(
        Block, where, value, example, refuse=_refuse_slips, devices=as_tuple, memory=_amounts, workspace=_amounts
    )


def _amounts(where: str, value: object) -> dict[str, Any]:
    return dict(as_object(where, {} if value is None else value, '{"d0": 2}'))


def _edge(where: str, value: object) -> BlockEdge:
    return read_record(BlockEdge, where, value, '{"from": "F0", "to": "F1", "lag": 0}', ENDS, _refuse_slips)


# ---- what every problem type is asked -----------------------------------------------------------------


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
