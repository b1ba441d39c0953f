"""Our own format for graph pipelines, ``pipeplan.graph-pipeline/1``: versioned, strict, with every field.

What equals its default may be omitted; an unknown key is an error.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from ..base.curve import curve_from_json, curve_to_json
from ..base.fields import as_entries, as_object, as_own_format, read_entries, refuse_unknown, require
from ..base.records import read_record
from .problem import GraphPipelineProblem, Link, Operator

GRAPH_PIPELINE_SCHEMA = "pipeplan.graph-pipeline/1"

PROBLEM_DEFAULTS: dict[str, Any] = {
    "memory_bytes": None,
    "devices_per_node": None,
    "weight_copies": 2.0,
    "workspace_bytes": 0.0,
    "name": "graph-pipeline",
    "time_unit": "s",
}
PROBLEM_KEYS = ("schema", "operators", "edges", "mini_batch", "devices", "link", "node_link", *PROBLEM_DEFAULTS)
AMOUNTS = ("weight_bytes", "stash_bytes", "output_bytes")
OPERATOR_KEYS = ("id", "name", "forward", "backward", *AMOUNTS)


def graph_pipeline_to_json(problem: GraphPipelineProblem) -> dict[str, Any]:
    """The problem as JSON data, with every default of the problem written out."""
    return {
        "schema": GRAPH_PIPELINE_SCHEMA,
        "name": problem.name,
        "time_unit": problem.time_unit,
        "mini_batch": problem.mini_batch,
        "devices": problem.devices,
        "memory_bytes": problem.memory_bytes,
        "link": asdict(problem.link),
        "node_link": None if problem.node_link is None else asdict(problem.node_link),
        "devices_per_node": problem.devices_per_node,
        "weight_copies": problem.weight_copies,
        "workspace_bytes": problem.workspace_bytes,
        "operators": [_operator_to_json(operator) for operator in problem.operators],
        "edges": [list(edge) for edge in problem.edges],
    }


def _operator_to_json(operator: Operator) -> dict[str, Any]:
    data: dict[str, Any] = {"id": operator.id}
    if operator.name is not None:
        data["name"] = operator.name
    data |= {side: curve_to_json(getattr(operator, side)) for side in ("forward", "backward")}
    return data | {key: getattr(operator, key) for key in AMOUNTS if getattr(operator, key)}


def graph_pipeline_from_json(data: object) -> GraphPipelineProblem:
    """The problem in JSON data, or an `InputError` that names the field."""
    top = as_own_format(data, GRAPH_PIPELINE_SCHEMA, PROBLEM_KEYS)
    node_link = top.get("node_link")
    return GraphPipelineProblem(
        operators=read_entries("", top, "operators", _operator_from_json),
        edges=read_entries("", top, "edges", _edge_from_json),
        mini_batch=require("", top, "mini_batch"),
        devices=require("", top, "devices"),
        link=read_record(Link, "link", top.get("link", {})),
        node_link=None if node_link is None else read_record(Link, "node_link", node_link),
        **{key: top.get(key, default) for key, default in PROBLEM_DEFAULTS.items()},
    )


def _operator_from_json(where: str, value: object) -> Operator:
    data = as_object(where, value, '{"id": ..., "forward": {...}, "backward": {...}}')
    refuse_unknown(where, data, OPERATOR_KEYS)
    return Operator(
        id=require(where, data, "id"),
        forward=curve_from_json(f"{where}.forward", require(where, data, "forward")),
        backward=curve_from_json(f"{where}.backward", require(where, data, "backward")),
        name=data.get("name"),
        **{key: data.get(key, 0.0) for key in AMOUNTS},
    )


def _edge_from_json(where: str, value: object) -> tuple[Any, Any]:
    source, target = as_entries(where, value, 2, "give two operator ids: [source, target]")
    return source, target
