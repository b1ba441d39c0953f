"""Staging problems as files: our own ``pipeplan.staging/1`` and the JSON that was published with Piper."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import partial
from typing import Any

from ..base.checks import NodeId, check_id
from ..base.errors import InputError, show
from ..base.fields import (
    as_entries,
    as_list,
    as_object,
    as_own_format,
    join,
    read_entries,
    refuse_unknown,
    require,
    require_list,
    require_object,
)
from ..base.records import read_record, to_record
from .problem import Configuration, DeviceType, Edge, Layer, StagingLevel, StagingProblem

STAGING_SCHEMA = "pipeplan.staging/1"

# ---- our own format --------------------------------------------------------------------------------------

_PROBLEM_KEYS = (
    "schema", "name", "time_unit", "devices", "memory_bytes", "bandwidth", "micro_batches", "exact_batches", "levels",
    "device_types", "replication", "layers", "edges",
)  # fmt: skip
_LAYER_KEYS = ("id", "name", "configurations")


def staging_to_json(problem: StagingProblem) -> dict[str, Any]:
    """The problem as JSON data; what equals its default is left out of configurations."""
    return {
        "schema": STAGING_SCHEMA,
        "name": problem.name,
        "time_unit": problem.time_unit,
        "devices": problem.devices,
        "memory_bytes": problem.memory_bytes,
        "bandwidth": problem.bandwidth,
        "micro_batches": problem.micro_batches,
        "exact_batches": problem.exact_batches,
        "levels": [asdict(level) for level in problem.levels],
        **({"device_types": [asdict(kind) for kind in problem.device_types]} if problem.device_types else {}),
        **({} if problem.replication else {"replication": False}),
        "layers": [_layer_to_json(layer) for layer in problem.layers],
        "edges": [[edge.source, edge.target, edge.bytes] for edge in problem.edges],
    }


def _layer_to_json(layer: Layer) -> dict[str, Any]:
    ways = {str(t): [to_record(way) for way in ways] for t, ways in layer.configurations.items()}
    name = {} if layer.name is None else {"name": layer.name}
    return {"id": layer.id, **name, "configurations": ways}


def staging_from_json(data: object) -> StagingProblem:
    """The problem in JSON data, or an `InputError` that names the field."""
    top = as_own_format(data, STAGING_SCHEMA, _PROBLEM_KEYS)
    optional = {
        "name": "staging",
        "time_unit": "s",
        "memory_bytes": None,
        "exact_batches": False,
        "replication": True,
    }
    return StagingProblem(
        layers=read_entries("", top, "layers", _layer_from_json),
        edges=read_entries("", top, "edges", _edge_from_json),
        devices=require("", top, "devices"),
        bandwidth=require("", top, "bandwidth"),
        micro_batches=require("", top, "micro_batches"),
        levels=read_entries("", top, "levels", partial(read_record, StagingLevel), optional=True),
        device_types=read_entries("", top, "device_types", partial(read_record, DeviceType), optional=True),
        **{key: top.get(key, default) for key, default in optional.items()},
    )


def _layer_from_json(where: str, value: object) -> Layer:
    data = as_object(where, value, '{"id": ..., "configurations": {"1": [...]}}')
    refuse_unknown(where, data, _LAYER_KEYS)
    ways = _by_degree(where, data, "configurations", _way_from_json)
    return Layer(require(where, data, "id"), ways, data.get("name"))


def _by_degree(
    where: str, data: Mapping[str, Any], key: str, read: Callable[[str, Any], Configuration]
) -> dict[int, tuple[Configuration, ...]]:
    place, lists = join(where, key), require_object(where, data, key)
    return {_degree(place, t): read_entries(place, lists, t, read) for t in lists}


def _degree(where: str, text: str) -> int:
    # Without leading zeros, so that no two keys are the same degree.
    if not (text.isascii() and text.isdigit() and len(text) < 10 and text == str(int(text))):
        raise InputError(where, f"has the key {show(text)}", "give tensor-parallel degrees as keys: whole numbers")
    return int(text)


def _way_from_json(where: str, value: object) -> Configuration:
    example = '{"id": ..., "time": ...}'
    return read_record(Configuration, where, value, example, gather_in=_pairs, gather_out=_pairs)


def _pairs(where: str, value: object) -> dict[NodeId, float]:
    """Bytes by neighbour; the problem checks who is one and what is an amount."""
    amounts: dict[NodeId, float] = {}
    for j, entry in enumerate(as_list(where, value)):
        node_id, amount = as_entries(f"{where}[{j}]", entry, 2, "give two: [layer, bytes]")
        check_id(f"{where}[{j}][0]", node_id)
        if node_id in amounts:
            raise InputError(f"{where}[{j}]", f"repeats {show(node_id)}", "name each layer once")
        amounts[node_id] = amount
    return amounts


def _edge_from_json(where: str, value: object) -> Edge:
    return Edge(*as_entries(where, value, 3, "give three: [source, target, bytes]"))


# ---- the published format --------------------------------------------------------------------------------


def staging_from_published(data: object, name: str = "staging", time_unit: str | None = None) -> StagingProblem:
    """The problem in Piper's JSON. Units are the file's own: it does not say whether times are seconds.

    `syncTimeFw` is keyed by the tail of an incoming edge, `syncTimeBw` by the head of an outgoing one.
    """
    top = as_object("", data, '{"maxDevices": ..., "nodes": [...], "edges": [...]}')
    batches = top.get("mbsInBatch", top.get("maxBatchSize"))
    if batches is None:
        raise InputError("mbsInBatch", "is missing", 'add the key "mbsInBatch": micro-batches in a batch')
    nodes = require_list("", top, "nodes")
    ids = {str(node["id"]): node["id"] for node in nodes if isinstance(node, Mapping) and "id" in node}
    facts: dict[str, Any] = {
        "layers": read_entries("", top, "nodes", partial(_published_layer, ids)),
        "edges": read_entries("", top, "edges", _published_edge),
        "devices": require("", top, "maxDevices"),
        "bandwidth": require("", top, "bandwidth"),
        "micro_batches": int(batches) if isinstance(batches, float) and batches.is_integer() else batches,
        "memory_bytes": require("", top, "maxMemoryPerDevice"),
        "name": name,
        "time_unit": time_unit,
    }
    try:
        return StagingProblem(**facts)
    except InputError as error:
        place = re.sub("[a-z_]+", lambda word: _PUBLISHED_NAMES.get(word[0], word[0]), error.field)
        raise InputError(place, error.problem, error.remedy) from None


_PUBLISHED_NAMES = {
    "layers": "nodes",
    "configurations": "TMPCs",
    "time": "timePerSample",
    "weight_bytes": "parameterSize",
    "memory_per_batch": "memoryUsageA",
    "memory_fixed": "memoryUsageB",
    "gather_in": "syncTimeFw",
    "gather_out": "syncTimeBw",
    "source": "sourceId",
    "target": "destId",
    "bytes": "communicationCost",
    "devices": "maxDevices",
    "memory_bytes": "maxMemoryPerDevice",
    "micro_batches": "mbsInBatch",
}
"""Ours and theirs: a message names a field as it stands in the file."""


def _published_layer(ids: Mapping[str, NodeId], where: str, value: object) -> Layer:
    data = as_object(where, value, '{"id": ..., "TMPCs": {"1": [...]}}')
    ways = _by_degree(where, data, "TMPCs", partial(_published_way, ids))
    return Layer(require(where, data, "id"), ways, data.get("name"))


def _published_way(ids: Mapping[str, NodeId], where: str, value: object) -> Configuration:
    data = as_object(where, value, '{"id": ..., "timePerSample": ...}')
    sides = [
        {ids.get(key, key): amount for key, amount in as_object(f"{where}.{side}", data.get(side, {})).items()}
        for side in ("syncTimeFw", "syncTimeBw")
    ]
    amounts = [
        require(where, data, key) for key in ("timePerSample", "parameterSize", "memoryUsageA", "memoryUsageB")
    ]
    return Configuration(require(where, data, "id"), *amounts, *sides)


def _published_edge(where: str, value: object) -> Edge:
    data = as_object(where, value, '{"sourceId": ..., "destId": ..., "communicationCost": ...}')
    return Edge(*(require(where, data, key) for key in ("sourceId", "destId", "communicationCost")))


def staging_to_published(problem: StagingProblem) -> dict[str, Any]:
    """Piper's JSON; what it cannot say (levels, types, exactly N, no memory limit) is refused."""
    if problem.levels or problem.exact_batches or problem.memory_bytes is None:
        said = {
            "levels": problem.levels,
            "device_types": problem.device_types,
            "exact_batches": problem.exact_batches,
        }
        what = next((name for name, value in said.items() if value), "memory_bytes")
        raise InputError(what, "cannot be said in the published format", "save as our own JSON instead")
    return {
        "maxDevices": problem.devices,
        "maxMemoryPerDevice": problem.memory_bytes,
        "bandwidth": problem.bandwidth,
        "mbsInBatch": problem.micro_batches,
        "nodes": [_layer_to_published(layer) for layer in problem.layers],
        "edges": [
            {"sourceId": edge.source, "destId": edge.target, "communicationCost": edge.bytes}
            for edge in problem.edges
        ],
    }


def _layer_to_published(layer: Layer) -> dict[str, Any]:
    name = {} if layer.name is None else {"name": layer.name}
    lists = {str(t): [_way_to_published(way) for way in ways] for t, ways in layer.configurations.items()}
    return {"id": layer.id, **name, "TMPCs": lists}


def _way_to_published(way: Configuration) -> dict[str, Any]:
    amounts = {name: getattr(way, name) for name in ("time", "weight_bytes", "memory_per_batch", "memory_fixed")}
    sides = {"gather_in": way.gather_in, "gather_out": way.gather_out}
    gathered = {side: {str(key): amount for key, amount in sizes.items()} for side, sizes in sides.items()}
    return {"id": way.id, **{_PUBLISHED_NAMES[name]: value for name, value in (amounts | gathered).items()}}
