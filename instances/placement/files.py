"""Our own format, ``pipeplan.placement/1``: versioned, strict, with every field of the problem.

What equals its default may be omitted; an unknown key is an error.
"""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from typing import Any

from ..base.fields import as_entries, as_list, as_own_format, read_entries, require
from ..base.records import read_record, to_record
from .cluster import AcceleratorType, Level
from .problem import Node, PlacementProblem

SCHEMA = "pipeplan.placement/1"

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


def placement_to_json(problem: PlacementProblem) -> dict[str, Any]:
    """The problem as JSON data; defaults of nodes are left out, those of the problem are written.

    Keys that came later, other types and levels, stand there only where they say something.
    """
    cluster: dict[str, tuple[Any, ...]] = {"other_types": problem.other_types, "levels": problem.levels}
    return {
        "schema": SCHEMA,
        "name": problem.name,
        "time_unit": problem.time_unit,
        "accelerators": problem.accelerators,
        "cpus": problem.cpus,
        "memory_bytes": problem.memory_bytes,
        **{key: [asdict(entry) for entry in entries] for key, entries in cluster.items() if entries},
        "nodes": [to_record(node) for node in problem.nodes],
        "edges": [list(edge) for edge in problem.edges],
    }


def placement_from_json(data: object) -> PlacementProblem:
    """The problem in JSON data, or an `InputError` that names the field."""
    top = as_own_format(data, SCHEMA, PROBLEM_KEYS)
    return PlacementProblem(
        nodes=read_entries("", top, "nodes", _node),
        edges=read_entries("", top, "edges", _edge),
        accelerators=require("", top, "accelerators"),
        cpus=require("", top, "cpus"),
        other_types=read_entries("", top, "other_types", partial(read_record, AcceleratorType), optional=True),
        levels=read_entries("", top, "levels", partial(read_record, Level), optional=True),
        **{key: top.get(key, default) for key, default in PROBLEM_DEFAULTS.items()},
    )


def _node(where: str, entry: object) -> Node:
    example = '{"id": ..., "accelerator_time": ..., "cpu_time": ...}'
    return read_record(Node, where, entry, example, other_times=lambda place, times: tuple(as_list(place, times)))


def _edge(where: str, entry: object) -> tuple[Any, Any]:
    source, target = as_entries(where, entry, 2, "give two node ids: [source, target]")
    return source, target
