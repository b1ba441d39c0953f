"""Our own format, ``pipeplan.placement/1``: versioned, strict, with every field of the problem.

What equals its default may be omitted; an unknown key is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from ..errors import InputError
from ..fields import as_list, as_object, check_schema, refuse_unknown, require, require_list
from .cluster import AcceleratorType, Level
from .problem import Node, PlacementProblem

SCHEMA = "pipeplan.placement/1"
KNOWN_SCHEMAS = (SCHEMA,)

Entry = TypeVar("Entry")

NODE_KEYS = (
    "id",
    "accelerator_time",
    "cpu_time",
    "size_bytes",
    "transfer_time",
    "supported",
    "backward",
    "color",
    "name",
    "weight_bytes",
    "other_times",
)
NODE_DEFAULTS: dict[str, Any] = {
    "size_bytes": 0.0,
    "transfer_time": 0.0,
    "supported": True,
    "backward": False,
    "color": None,
    "name": None,
    "weight_bytes": 0.0,
    "other_times": (),
}
PROBLEM_KEYS = (
    "schema",
    "name",
    "time_unit",
    "accelerators",
    "cpus",
    "memory_bytes",
    "other_types",
    "levels",
    "nodes",
    "edges",
)
PROBLEM_DEFAULTS: dict[str, Any] = {"name": "placement", "time_unit": "s", "memory_bytes": None}
TYPE_KEYS = ("name", "count", "memory_bytes")
LEVEL_KEYS = ("devices", "transfer_factor", "sync_bandwidth")


def placement_to_json(problem: PlacementProblem) -> dict[str, Any]:
    """The problem as JSON data; defaults of nodes are left out, those of the problem are written.

    Keys that came later, other types and levels, stand there only where they say something.
    """
    cluster = {
        "other_types": [{key: getattr(other, key) for key in TYPE_KEYS} for other in problem.other_types],
        "levels": [{key: getattr(level, key) for key in LEVEL_KEYS} for level in problem.levels],
    }
    return {
        "schema": SCHEMA,
        "name": problem.name,
        "time_unit": problem.time_unit,
        "accelerators": problem.accelerators,
        "cpus": problem.cpus,
        "memory_bytes": problem.memory_bytes,
        **{key: entries for key, entries in cluster.items() if entries},
        "nodes": [_node_to_json(node) for node in problem.nodes],
        "edges": [list(edge) for edge in problem.edges],
    }


def _node_to_json(node: Node) -> dict[str, Any]:
    values = {key: getattr(node, key) for key in NODE_KEYS}
    entry = {key: value for key, value in values.items() if key not in NODE_DEFAULTS or value != NODE_DEFAULTS[key]}
    if node.other_times:
        entry["other_times"] = list(node.other_times)
    return entry


def placement_from_json(data: object) -> PlacementProblem:
    """The problem in JSON data, or an `InputError` that names the field."""
    top = as_object("", data, f'{{"schema": "{SCHEMA}", ...}}')
    check_schema(top, KNOWN_SCHEMAS)
    refuse_unknown("", top, PROBLEM_KEYS)
    nodes = require_list("", top, "nodes")
    edges = require_list("", top, "edges")
    return PlacementProblem(
        nodes=tuple(_node_from_json(f"nodes[{i}]", entry) for i, entry in enumerate(nodes)),
        edges=tuple(_edge_from_json(f"edges[{i}]", entry) for i, entry in enumerate(edges)),
        accelerators=require("", top, "accelerators"),
        cpus=require("", top, "cpus"),
        other_types=_entries(top, "other_types", _type_from_json),
        levels=_entries(top, "levels", _level_from_json),
        **{key: top.get(key, default) for key, default in PROBLEM_DEFAULTS.items()},
    )


def _node_from_json(where: str, entry: object) -> Node:
    data = as_object(where, entry, '{"id": ..., "accelerator_time": ..., "cpu_time": ...}')
    refuse_unknown(where, data, NODE_KEYS)
    required = [require(where, data, key) for key in NODE_KEYS if key not in NODE_DEFAULTS]
    values = {key: data.get(key, default) for key, default in NODE_DEFAULTS.items()}
    if "other_times" in data:
        values["other_times"] = tuple(as_list(f"{where}.other_times", data["other_times"]))
    return Node(*required, **values)


def _entries(top: Mapping[str, Any], key: str, read: Callable[[str, object], Entry]) -> tuple[Entry, ...]:
    return tuple(read(f"{key}[{i}]", entry) for i, entry in enumerate(as_list(key, top.get(key, []))))


def _type_from_json(where: str, entry: object) -> AcceleratorType:
    data = as_object(where, entry, '{"name": ..., "count": ..., "memory_bytes": ...}')
    refuse_unknown(where, data, TYPE_KEYS)
    return AcceleratorType(require(where, data, "name"), require(where, data, "count"), data.get("memory_bytes"))


def _level_from_json(where: str, entry: object) -> Level:
    data = as_object(where, entry, '{"devices": ..., "transfer_factor": ..., "sync_bandwidth": ...}')
    refuse_unknown(where, data, LEVEL_KEYS)
    return Level(require(where, data, "devices"), data.get("transfer_factor", 1.0), data.get("sync_bandwidth"))


def _edge_from_json(where: str, entry: object) -> tuple[Any, Any]:
    pair = as_list(where, entry)
    if len(pair) != 2:
        raise InputError(where, f"has {len(pair)} entries", "give two node ids: [source, target]")
    return pair[0], pair[1]
