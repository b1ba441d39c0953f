"""Staging problems as files: our own ``pipeplan.staging/1`` and the JSON that was published with Piper."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from ..checks import NodeId, check_id
from ..errors import InputError, show
from ..fields import as_list, as_object, check_schema, refuse_unknown, require, require_list, require_object
from .problem import Configuration, DeviceType, Edge, Layer, StagingLevel, StagingProblem

STAGING_SCHEMA = "pipeplan.staging/1"
PUBLISHED_STAGING_MARKS = ("maxDevices", "mbsInBatch", "maxBatchSize", "maxMemoryPerDevice")
"""Keys by which the published format is told from others."""

# ---- our own format --------------------------------------------------------------------------------------

_PROBLEM_KEYS = (
    "schema", "name", "time_unit", "devices", "memory_bytes", "bandwidth", "micro_batches", "exact_batches", "levels",
    "device_types", "replication", "layers", "edges",
)  # fmt: skip
_LAYER_KEYS = ("id", "name", "configurations")
_WAY_KEYS = ("id", "time", "weight_bytes", "memory_per_batch", "memory_fixed", "gather_in", "gather_out")
_AMOUNTS = ("weight_bytes", "memory_per_batch", "memory_fixed")


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
        "levels": [{"devices": level.devices, "bandwidth": level.bandwidth} for level in problem.levels],
        **({"device_types": [asdict(kind) for kind in problem.device_types]} if problem.device_types else {}),
        **({} if problem.replication else {"replication": False}),
        "layers": [_layer_to_json(layer) for layer in problem.layers],
        "edges": [[edge.source, edge.target, edge.bytes] for edge in problem.edges],
    }


def _layer_to_json(layer: Layer) -> dict[str, Any]:
    ways = {str(t): [_way_to_json(way) for way in ways] for t, ways in layer.configurations.items()}
    name = {} if layer.name is None else {"name": layer.name}
    return {"id": layer.id, **name, "configurations": ways}


def _way_to_json(way: Configuration) -> dict[str, Any]:
    """Bytes by neighbour are pairs: JSON keys could not tell the ids 1 and "1" apart."""
    data: dict[str, Any] = {"id": way.id, "time": way.time}
    data |= {name: getattr(way, name) for name in _AMOUNTS if getattr(way, name)}
    for side in ("gather_in", "gather_out"):
        if getattr(way, side):
            data[side] = [[node_id, amount] for node_id, amount in getattr(way, side).items()]
    return data


def staging_from_json(data: object) -> StagingProblem:
    """The problem in JSON data, or an `InputError` that names the field."""
    top = as_object("", data, f'{{"schema": "{STAGING_SCHEMA}", ...}}')
    check_schema(top, (STAGING_SCHEMA,))
    refuse_unknown("", top, _PROBLEM_KEYS)
    optional = {"name": "staging", "time_unit": "s", "memory_bytes": None, "exact_batches": False, "replication": True}
    return StagingProblem(
        layers=tuple(_layer_from_json(f"layers[{i}]", x) for i, x in enumerate(require_list("", top, "layers"))),
        edges=tuple(_edge_from_json(f"edges[{i}]", x) for i, x in enumerate(require_list("", top, "edges"))),
        devices=require("", top, "devices"),
        bandwidth=require("", top, "bandwidth"),
        micro_batches=require("", top, "micro_batches"),
        levels=tuple(
            _level_from_json(f"levels[{i}]", x) for i, x in enumerate(as_list("levels", top.get("levels", [])))
        ),
        device_types=tuple(
            _type_from_json(f"device_types[{i}]", x)
            for i, x in enumerate(as_list("device_types", top.get("device_types", [])))
        ),
        **{key: top.get(key, default) for key, default in optional.items()},
    )


def _level_from_json(where: str, value: object) -> StagingLevel:
    data = as_object(where, value, '{"devices": ..., "bandwidth": ...}')
    refuse_unknown(where, data, ("devices", "bandwidth"))
    return StagingLevel(require(where, data, "devices"), require(where, data, "bandwidth"))


def _type_from_json(where: str, value: object) -> DeviceType:
    data = as_object(where, value, '{"name": ..., "devices": ..., "speed": ..., "memory_bytes": ...}')
    refuse_unknown(where, data, ("name", "devices", "speed", "memory_bytes"))
    return DeviceType(
        require(where, data, "name"),
        require(where, data, "devices"),
        data.get("speed", 1.0),
        data.get("memory_bytes"),
    )


def _layer_from_json(where: str, value: object) -> Layer:
    data = as_object(where, value, '{"id": ..., "configurations": {"1": [...]}}')
    refuse_unknown(where, data, _LAYER_KEYS)
    ways = {
        _degree(f"{where}.configurations", t): tuple(
            _way_from_json(f"{where}.configurations.{t}[{j}]", way)
            for j, way in enumerate(as_list(f"{where}.configurations.{t}", entries))
        )
        for t, entries in require_object(where, data, "configurations").items()
    }
    return Layer(require(where, data, "id"), ways, data.get("name"))


def _degree(where: str, text: str) -> int:
    # Without leading zeros, so that no two keys are the same degree.
    if not (text.isascii() and text.isdigit() and len(text) < 10 and text == str(int(text))):
        raise InputError(where, f"has the key {show(text)}", "give tensor-parallel degrees as keys: whole numbers")
    return int(text)


def _way_from_json(where: str, value: object) -> Configuration:
    data = as_object(where, value, '{"id": ..., "time": ...}')
    refuse_unknown(where, data, _WAY_KEYS)
    sides: dict[str, Any] = {
        side: _pairs(f"{where}.{side}", as_list(f"{where}.{side}", data.get(side, [])))
        for side in ("gather_in", "gather_out")
    }
    amounts = {name: data.get(name, 0.0) for name in _AMOUNTS}
    return Configuration(require(where, data, "id"), require(where, data, "time"), **amounts, **sides)


def _pairs(where: str, entries: list[Any]) -> dict[NodeId, float]:
    """Bytes by neighbour; the problem checks who is one and what is an amount."""
    amounts: dict[NodeId, float] = {}
    for j, entry in enumerate(entries):
        pair = as_list(f"{where}[{j}]", entry)
        if len(pair) != 2:
            raise InputError(f"{where}[{j}]", f"has {len(pair)} entries", "give two: [layer, bytes]")
        check_id(f"{where}[{j}][0]", pair[0])
        if pair[0] in amounts:
            raise InputError(f"{where}[{j}]", f"repeats {show(pair[0])}", "name each layer once")
        amounts[pair[0]] = pair[1]
    return amounts


def _edge_from_json(where: str, value: object) -> Edge:
    entry = as_list(where, value)
    if len(entry) != 3:
        raise InputError(where, f"has {len(entry)} entries", "give three: [source, target, bytes]")
    return Edge(*entry)


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
        "layers": tuple(_published_layer(f"nodes[{i}]", node, ids) for i, node in enumerate(nodes)),
        "edges": tuple(_published_edge(f"edges[{i}]", x) for i, x in enumerate(require_list("", top, "edges"))),
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


def _published_layer(where: str, value: object, ids: Mapping[str, NodeId]) -> Layer:
    data = as_object(where, value, '{"id": ..., "TMPCs": {"1": [...]}}')
    lists = require_object(where, data, "TMPCs")
    ways = {
        _degree(f"{where}.TMPCs", t): tuple(
            _published_way(f"{where}.TMPCs.{t}[{j}]", way, ids)
            for j, way in enumerate(as_list(f"{where}.TMPCs.{t}", entries))
        )
        for t, entries in lists.items()
    }
    return Layer(require(where, data, "id"), ways, data.get("name"))


def _published_way(where: str, value: object, ids: Mapping[str, NodeId]) -> Configuration:
    data = as_object(where, value, '{"id": ..., "timePerSample": ...}')
    sides = [
        {ids.get(key, key): amount for key, amount in as_object(f"{where}.{side}", data.get(side, {})).items()}
        for side in ("syncTimeFw", "syncTimeBw")
    ]
    amounts = [require(where, data, key) for key in ("timePerSample", "parameterSize", "memoryUsageA", "memoryUsageB")]
    return Configuration(require(where, data, "id"), *amounts, *sides)


def _published_edge(where: str, value: object) -> Edge:
    data = as_object(where, value, '{"sourceId": ..., "destId": ..., "communicationCost": ...}')
    return Edge(*(require(where, data, key) for key in ("sourceId", "destId", "communicationCost")))


def staging_to_published(problem: StagingProblem) -> dict[str, Any]:
    """Piper's JSON; what it cannot say (levels, types, exactly N, no memory limit) is refused."""
    if problem.levels or problem.exact_batches or problem.memory_bytes is None:
        said = {"levels": problem.levels, "device_types": problem.device_types, "exact_batches": problem.exact_batches}
        what = next((name for name, value in said.items() if value), "memory_bytes")
        raise InputError(what, "cannot be said in the published format", "save as our own JSON instead")
    return {
        "maxDevices": problem.devices,
        "maxMemoryPerDevice": problem.memory_bytes,
        "bandwidth": problem.bandwidth,
        "mbsInBatch": problem.micro_batches,
        "nodes": [_layer_to_published(layer) for layer in problem.layers],
        "edges": [
            {"sourceId": edge.source, "destId": edge.target, "communicationCost": edge.bytes} for edge in problem.edges
        ],
    }


def _layer_to_published(layer: Layer) -> dict[str, Any]:
    name = {} if layer.name is None else {"name": layer.name}
    lists = {
        str(t): [
            {
                "id": way.id,
                "timePerSample": way.time,
                "parameterSize": way.weight_bytes,
                "memoryUsageA": way.memory_per_batch,
                "memoryUsageB": way.memory_fixed,
                "syncTimeFw": {str(key): amount for key, amount in way.gather_in.items()},
                "syncTimeBw": {str(key): amount for key, amount in way.gather_out.items()},
            }
            for way in ways
        ]
        for t, ways in layer.configurations.items()
    }
    return {"id": layer.id, **name, "TMPCs": lists}
