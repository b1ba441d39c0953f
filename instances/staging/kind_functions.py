"""Functions of the kind `staging`: how its problems are read, changed, described, simulated and held in memory."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Any

from ..base.checks import NodeId
from ..base.cluster import SECONDS, Cluster, per_unit, refuse_others
from ..base.errors import InputError, UsageError, refuse_broken, show, unknown_choice
from ..base.fields import (
    as_entries,
    as_object,
    each,
    facts_of,
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
from ..base.quantities import several, whole_number
from ..registry import STAGING
from ..timeline.model import Pipeline, check_tasks
from .plan import LeveledPlan, PlannedStage, StagedPlan
from .problem import Configuration, DeviceType, Edge, Layer, StagingLevel, StagingProblem
from .referee import evaluate_leveled, evaluate_stages, held_bytes, verify_leveled, verify_stages, ways_of
from .simulated import leveled_pipeline, staged_pipeline

# ---- files -----------------------------------------------------------------------------------------------
# Staging problems as files: our own ``pipeplan.staging/1`` and the JSON that was published with Piper.

STAGING_SCHEMA = "pipeplan.staging/1"

# Fields that are written even where they equal their defaults.
ALWAYS = (
    "name", "time_unit", "devices", "memory_bytes", "bandwidth", "micro_batches", "levels",
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
    """The problem in JSON data, or an `InputError` that names the field. `exact_batches` once was a field that every
    file had."""
    if isinstance(data, Mapping) and data.get("exact_batches") is False:
        data = {name: value for name, value in data.items() if name != "exact_batches"}
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


def staging_from_published(data: object, name: str = "staging") -> StagingProblem:
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
        "time_unit": None,
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


# ---- what every problem type is asked -----------------------------------------------------------------


def read(data: Mapping[str, Any], cluster: Cluster, name: str) -> StagingProblem:
    return adjusted(staging_from_json(data), cluster)


def read_published(data: Mapping[str, Any], cluster: Cluster, name: str) -> StagingProblem:
    return adjusted(staging_from_published(data, name), cluster)


def adjusted(problem: StagingProblem, cluster: Cluster) -> StagingProblem:
    """The problem on the caller's cluster; rates per second become rates per time unit of the problem."""
    refuse_others(STAGING, cluster)
    if cluster.time_unit is not None:
        problem = _in_unit(problem, cluster.time_unit)
    changes: dict[str, Any] = {}
    if cluster.memory_bytes is not None:
        changes["memory_bytes"] = None if cluster.memory_bytes == math.inf else cluster.memory_bytes
    counts = {"devices": cluster.devices, "micro_batches": cluster.batch}
    changes |= {field: value for field, value in counts.items() if value is not None}
    if cluster.levels is not None:
        changes |= _levels(problem, cluster)
    elif cluster.bandwidth is not None and problem.levels:
        raise UsageError("--bandwidth is for flat networks and this problem has levels; give --levels.")
    if cluster.bandwidth is not None:
        changes["bandwidth"] = _per_unit(problem, cluster.bandwidth, "--bandwidth")
    return problem.replace(**changes) if changes else problem


def _levels(problem: StagingProblem, cluster: Cluster) -> dict[str, Any]:
    assert cluster.levels is not None
    if cluster.bandwidth is not None and cluster.levels:
        raise UsageError(
            "--bandwidth is for flat networks and --levels have bandwidths of their own; drop one of them."
        )
    levels = tuple(StagingLevel(count, _per_unit(problem, rate, "--levels")) for count, rate in cluster.levels)
    devices = math.prod(level.devices for level in levels)
    if levels and cluster.devices not in (None, devices):
        raise InputError(
            "levels", f"make {several(devices, 'device')}, not {cluster.devices}", _fitting_levels(cluster)
        )
    return {"levels": levels, **({"devices": devices} if levels and cluster.devices is None else {})}


def _in_unit(problem: StagingProblem, unit: str) -> StagingProblem:
    """The problem in a unit of time that its file does not name; the bandwidth of such a file is per second."""
    if problem.time_unit is not None and problem.time_unit != unit:
        raise UsageError(
            f"--option time-unit is for files that name no unit of time, and this problem is in {problem.time_unit}; "
            "drop --option time-unit."
        )
    if unit not in SECONDS:
        raise unknown_choice("--option time-unit", unit, SECONDS)
    if problem.time_unit is not None:
        return problem
    return problem.replace(time_unit=unit, bandwidth=per_unit(problem.bandwidth, unit))


def _fitting_levels(cluster: Cluster) -> str:
    """The remedy, with the number of devices on the outermost level that would fit where it is a whole one."""
    assert cluster.levels is not None
    assert cluster.devices is not None
    *inner, (_, rate) = cluster.levels
    outermost, rest = divmod(cluster.devices, math.prod(count for count, _ in inner))
    remedy = "let the numbers of all levels multiply to --devices"
    if rest or not outermost:
        return remedy
    return f"{remedy}: --levels {replace(cluster, levels=[*inner, (outermost, rate)]).to_json()['levels']}"


def _per_unit(problem: StagingProblem, rate: float, option: str) -> float:
    """A rate in bytes per time unit of the problem; where that is not named, the rate is taken to be in it already."""
    if problem.time_unit is None:
        return rate
    if problem.time_unit not in SECONDS:
        raise UsageError(
            f"{option} is in bytes per second, but the problem's times are in {show(problem.time_unit)}; write the "
            "bandwidth into the file."
        )
    return per_unit(rate, problem.time_unit)


def facts(problem: StagingProblem) -> dict[str, Any]:
    told = ("devices", "memory_bytes", "bandwidth", "micro_batches")
    return facts_of(problem, ("layers", "edges"), told, ("levels", "device_types"))


def size(problem: StagingProblem) -> str:
    return f"{several(len(problem.layers), 'layer')}, {several(len(problem.edges), 'edge')}"


def pipeline(
    problem: StagingProblem, plan: StagedPlan | LeveledPlan, micro_batches: int | None, schedule: str
) -> Pipeline:
    """The pipeline of a plan, with as many micro-batches as the problem says, unless a number is given."""
    count = problem.micro_batches if micro_batches is None else micro_batches
    if isinstance(plan, LeveledPlan):
        refuse_broken(verify_leveled(problem, plan))
        check_tasks([count] * len(list(plan.leaves())))
        return leveled_pipeline(problem, plan, micro_batches, schedule)
    refuse_broken(verify_stages(problem, plan))
    check_tasks([count] * len(plan.stages))
    return staged_pipeline(problem, plan, micro_batches, schedule)


# ---- memory of each device ----------------------------------------------------------------------------


def with_memory(problem: StagingProblem, memory_bytes: float | None) -> StagingProblem:
    """The problem with so much memory on devices of every type."""
    if not problem.device_types:
        return problem.replace(memory_bytes=memory_bytes)
    return problem.replace(
        device_types=tuple(replace(kind, memory_bytes=memory_bytes) for kind in problem.device_types)
    )


def held(problem: StagingProblem, plan: StagedPlan | LeveledPlan, options: Mapping[str, Any]) -> Fraction:
    """What a device of the fullest stage holds, in bytes."""
    if isinstance(plan, StagedPlan):
        costs = evaluate_stages(problem, plan).stages
        counts = [(stage.data_parallel, cost.in_flight) for stage, cost in zip(plan.stages, costs, strict=True)]
        return _largest(problem, plan.stages, counts)
    leaves = evaluate_leveled(problem, plan).leaves
    stages = [PlannedStage(x.nodes, x.data_parallel, x.tensor_parallel, x.configurations) for x in plan.leaves()]
    return _largest(problem, stages, [(leaf.copies, leaf.in_flight) for leaf in leaves])


def _largest(
    problem: StagingProblem, stages: Sequence[PlannedStage], counts: Sequence[tuple[int, int]]
) -> Fraction:
    """The most bytes of a device; `counts`: copies of each stage, and micro-batches that each copy holds."""
    return max(
        held_bytes(problem, ways_of(problem, stage).values(), stage.tensor_parallel, copies, count)
        for stage, (copies, count) in zip(stages, counts, strict=True)
    )
