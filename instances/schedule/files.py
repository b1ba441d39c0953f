"""Our own format for schedule problems, ``pipeplan.schedule/1``: versioned, with every field of the problem.

What equals its default may be omitted. Further keys are welcome, for what other programs know of a block; one that
looks like a misspelt key of ours is an error.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from ..base.errors import InputError, nearest
from ..base.fields import as_object, check_schema, join, read_entries, require, require_list, shorten
from .problem import Block, BlockEdge, ScheduleDevice, ScheduleProblem

SCHEMA = "pipeplan.schedule/1"

KEYS = ("schema", "name", "time_unit", "memory_unit", "micro_batches", "leaks", "devices", "blocks", "edges")
DEVICE_KEYS = ("name", "memory", "standing")
BLOCK_KEYS = ("id", "kind", "stage", "devices", "time", "memory", "workspace")
EDGE_KEYS = ("from", "to", "lag", "offset")
ALIKE = 0.75
"""Of a key and one of ours: then it is a slip."""


def schedule_to_json(problem: ScheduleProblem) -> dict[str, Any]:
    """The problem as JSON data."""
    return {
        "schema": SCHEMA,
        "name": problem.name,
        "time_unit": problem.time_unit,
        "memory_unit": problem.memory_unit,
        "micro_batches": problem.micro_batches,
        **({"leaks": True} if problem.leaks else {}),
        "devices": [
            {"name": device.name, "memory": device.memory, "standing": device.standing}
            for device in problem.devices
        ],
        "blocks": [_block_to_json(block) for block in problem.blocks],
        "edges": [_edge_to_json(edge) for edge in problem.edges],
    }


def _block_to_json(block: Block) -> dict[str, Any]:
    data: dict[str, Any] = {"id": block.id, "kind": block.kind}
    if block.stage is not None:
        data["stage"] = block.stage
    data |= {"devices": list(block.devices), "time": block.time}
    amounts = {"memory": dict(block.memory), "workspace": dict(block.workspace)}
    return data | {key: value for key, value in amounts.items() if value}


def _edge_to_json(edge: BlockEdge) -> dict[str, Any]:
    data = {"from": edge.source, "to": edge.target, "lag": edge.lag, "offset": edge.offset}
    return {key: value for key, value in data.items() if value != 0}


def schedule_from_json(data: object) -> ScheduleProblem:
    """The problem in JSON data, or an `InputError` that names the field."""
    top = as_object("", data, f'{{"schema": "{SCHEMA}", ...}}')
    check_schema(top, (SCHEMA,))
    _refuse_slips("", top, KEYS)
    return ScheduleProblem(
        devices=read_entries("", top, "devices", _device),
        blocks=read_entries("", top, "blocks", _block),
        edges=read_entries("", top, "edges", _edge, optional=True),
        micro_batches=top.get("micro_batches"),
        leaks=top.get("leaks", False),
        name=top.get("name", "schedule"),
        time_unit=top.get("time_unit"),
        memory_unit=top.get("memory_unit"),
    )


def _refuse_slips(where: str, data: Mapping[str, Any], known: Collection[str]) -> None:
    for key in data:
        close = None if key in known else nearest(key, known, cutoff=ALIKE)
        if close is not None and close not in data:
            raise InputError(join(where, shorten(key)), "is an unknown key", f'write "{close}" or remove it')


def _device(where: str, value: object) -> ScheduleDevice:
    entry = as_object(where, value, '{"name": "d0", "memory": 10, "standing": 0}')
    _refuse_slips(where, entry, DEVICE_KEYS)
    return ScheduleDevice(require(where, entry, "name"), entry.get("memory"), entry.get("standing", 0))


def _block(where: str, value: object) -> Block:
    entry = as_object(where, value, '{"id": "F0", "kind": "F", "devices": ["d0"], "time": 5, "memory": {"d0": 2}}')
    _refuse_slips(where, entry, BLOCK_KEYS)
    amounts = {
        key: as_object(join(where, key), entry.get(key) or {}, '{"d0": 2}') for key in ("memory", "workspace")
    }
    return Block(
        require(where, entry, "id"),
        require(where, entry, "kind"),
        tuple(require_list(where, entry, "devices")),
        require(where, entry, "time"),
        entry.get("stage"),
        **{key: dict(value) for key, value in amounts.items()},
    )


def _edge(where: str, value: object) -> BlockEdge:
    entry = as_object(where, value, '{"from": "F0", "to": "F1", "lag": 0}')
    _refuse_slips(where, entry, EDGE_KEYS)
    source, target = require(where, entry, "from"), require(where, entry, "to")
    return BlockEdge(source, target, entry.get("lag", 0), entry.get("offset", 0))
