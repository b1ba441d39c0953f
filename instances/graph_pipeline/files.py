"""Our own format for graph pipelines, ``pipeplan.graph-pipeline/1``: versioned, strict, with every field.

What equals its default may be omitted; an unknown key is an error.
"""

from __future__ import annotations

from typing import Any

from ..curve import curve_from_json, curve_to_json
from ..errors import InputError
from ..fields import as_list, as_object, check_schema, refuse_unknown, require, require_list
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
LINK_KEYS = ("bandwidth", "latency_s")


def graph_pipeline_to_json(problem: GraphPipelineProblem) -> dict[str, Any]:
    """The problem as JSON data, with every default of the problem written out."""
    return {
        "schema": GRAPH_PIPELINE_SCHEMA,
        "name": problem.name,
        "time_unit": problem.time_unit,
        "mini_batch": problem.mini_batch,
        "devices": problem.devices,
        "memory_bytes": problem.memory_bytes,
        "link": _link_to_json(problem.link),
        "node_link": None if problem.node_link is None else _link_to_json(problem.node_link),
        "devices_per_node": problem.devices_per_node,
        "weight_copies": problem.weight_copies,
        "workspace_bytes": problem.workspace_bytes,
        "operators": [_operator_to_json(operator) for operator in problem.operators],
        "edges": [list(edge) for edge in problem.edges],
    }


def _link_to_json(link: Link) -> dict[str, Any]:
    return {key: getattr(link, key) for key in LINK_KEYS}


def _operator_to_json(operator: Operator) -> dict[str, Any]:
    data: dict[str, Any] = {"id": operator.id}
    if operator.name is not None:
        data["name"] = operator.name
    data |= {side: curve_to_json(getattr(operator, side)) for side in ("forward", "backward")}
    return data | {key: getattr(operator, key) for key in AMOUNTS if getattr(operator, key)}


def graph_pipeline_from_json(data: object) -> GraphPipelineProblem:
    """The problem in JSON data, or an `InputError` that names the field."""
    top = as_object("", data, f'{{"schema": "{GRAPH_PIPELINE_SCHEMA}", ...}}')
    check_schema(top, (GRAPH_PIPELINE_SCHEMA,))
    refuse_unknown("", top, PROBLEM_KEYS)
    operators = require_list("", top, "operators")
    edges = require_list("", top, "edges")
    node_link = top.get("node_link")
    return GraphPipelineProblem(
        operators=tuple(_operator_from_json(f"operators[{i}]", entry) for i, entry in enumerate(operators)),
        edges=tuple(_edge_from_json(f"edges[{i}]", entry) for i, entry in enumerate(edges)),
        mini_batch=require("", top, "mini_batch"),
        devices=require("", top, "devices"),
        link=_link_from_json("link", top.get("link", {})),
        node_link=None if node_link is None else _link_from_json("node_link", node_link),
        **{key: top.get(key, default) for key, default in PROBLEM_DEFAULTS.items()},
    )


def _link_from_json(where: str, value: object) -> Link:
    data = as_object(where, value, '{"bandwidth": ..., "latency_s": ...}')
    refuse_unknown(where, data, LINK_KEYS)
    return Link(data.get("bandwidth"), data.get("latency_s", 0.0))


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
    pair = as_list(where, value)
    if len(pair) != 2:
        raise InputError(where, f"has {len(pair)} entries", "give two operator ids: [source, target]")
    return pair[0], pair[1]
