"""Our own format for schedule problems, ``pipeplan.schedule/1``: versioned, with every field of the problem.

What equals its default may be omitted. Further keys are welcome, for what other programs know of a block; one that
looks like a misspelt key of ours is an error.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from ..base.errors import InputError, distance
from ..base.fields import (
    as_object,
    as_tuple,
    each,
    join,
    read_problem,
    read_record,
    shorten,
    to_record,
    write_problem,
)
from .problem import Block, BlockEdge, ScheduleDevice, ScheduleProblem

SCHEMA = "pipeplan.schedule/1"
# Fields of an edge that have other names in a file.
ENDS = {"source": "from", "target": "to"}
# A key that is one of ours but for a slip in so many letters is taken for that one.
LETTERS_PER_SLIP = 4


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
        most = len(key) // LETTERS_PER_SLIP
        close = next((name for name in known if distance(key, name, most) is not None and name not in data), None)
        if key not in known and close is not None:
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
    return dict(as_object(where, value or {}, '{"d0": 2}'))


def _edge(where: str, value: object) -> BlockEdge:
    return read_record(BlockEdge, where, value, '{"from": "F0", "to": "F1", "lag": 0}', ENDS, _refuse_slips)
