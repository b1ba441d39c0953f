"""Staging problems as files: our own ``pipeplan.staging/1`` and the JSON that was published with Piper."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from ..base.checks import NodeId
from ..base.errors import InputError, show
from ..base.fields import (
    as_entries,
    as_object,
    each,
    join,
    read_entries,
    read_pairs,
    read_problem,
    read_record,
    require,
    require_list,
    to_record,
    write_problem,
)
from ..base.quantities import whole_number
from .problem import Configuration, DeviceType, Edge, Layer, StagingLevel, StagingProblem

STAGING_SCHEMA = "pipeplan.staging/1"

# ---- our own format --------------------------------------------------------------------------------------

# Fields that are written even where they equal their defaults.
ALWAYS = (
    "name", "time_unit", "devices", "memory_bytes", "bandwidth", "micro_batches", "exact_batches", "levels",
)  # fmt: skip


def staging_to_json(problem: StagingProblem) -> dict[str, Any]:
    """The problem as JSON data; what equals its default is left out of configurations."""
    edges = [[edge.source, edge.target, edge.bytes] for edge in problem.edges]
    layers = [_layer_to_json(layer) for layer in problem.layers]
    return write_problem(problem, STAGING_SCHEMA, ALWAYS, layers=layers, edges=edges)


def _layer_to_json(layer: Layer) -> dict[str, Any]:
    ways = {str(t): [_way_to_json(way) for way in ways] for t, ways in layer.configurations.items()}
    return to_record(layer, configurations=ways)


def _way_to_json(way: Configuration) -> dict[str, Any]:
    """Pairs for what is gathered, since keys of JSON objects could not tell the ids 1 and "1" apart."""
    return to_record(
        way, gather_in=list(map(list, way.gather_in.items())), gather_out=list(map(list, way.gather_out.items()))
    )


def staging_from_json(data: object) -> StagingProblem:
    """The problem in JSON data, or an `InputError` that names the field."""
    return read_problem(
        StagingProblem,
        STAGING_SCHEMA,
        data,
        layers=each(_layer_from_json),
        edges=each(_edge_from_json),
        levels=each(partial(read_record, StagingLevel)),
        device_types=each(partial(read_record, DeviceType)),
    )


def _layer_from_json(where: str, value: object) -> Layer:
    example = '{"id": ..., "configurations": {"1": [...]}}'
    return read_record(Layer, where, value, example, configurations=partial(_by_degree, read=_way_from_json))


def _by_degree(
    where: str, value: object, read: Callable[[str, Any], Configuration]
) -> dict[int, tuple[Configuration, ...]]:
    lists = as_object(where, value)
    return {_degree(where, t): read_entries(where, lists, t, read) for t in lists}


def _degree(where: str, text: str) -> int:
    degree = whole_number(text)
    if degree is None or text != str(degree):  # without leading zeros, so that no two keys are the same degree
        raise InputError(where, f"has the key {show(text)}", "give tensor-parallel degrees as keys: whole numbers")
    return degree


def _way_from_json(where: str, value: object) -> Configuration:
    example = '{"id": ..., "time": ...}'
    return read_record(Configuration, where, value, example, gather_in=_pairs, gather_out=_pairs)


def _pairs(where: str, value: object) -> dict[NodeId, float]:
    """Bytes by neighbour; the problem checks that they are amounts of neighbours."""
    return read_pairs(where, value, "[layer, bytes]", lambda place, amount: None)


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


# Our names of fields and the published ones: a message names a field as it stands in the file.
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


def _published_layer(ids: Mapping[str, NodeId], where: str, value: object) -> Layer:
    data = as_object(where, value, '{"id": ..., "TMPCs": {"1": [...]}}')
    ways = _by_degree(join(where, "TMPCs"), require(where, data, "TMPCs"), partial(_published_way, ids))
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
    if problem.levels or problem.exact_batches or problem.zero or problem.memory_bytes is None:
        said = {
            "levels": problem.levels,
            "device_types": problem.device_types,
            "exact_batches": problem.exact_batches,
            "zero": problem.zero,
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
