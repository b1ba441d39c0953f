"""The JSON files that Tarnawski et al. published, and their expert splits.

Two keys are ours: `name` and `timeUnit` at the top say what published files do not. `maxSizePerFPGA` may be null: no
limit.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..base.checks import check_amount, check_id
from ..base.cluster import Cluster, changes
from ..base.errors import InputError, show
from ..base.fields import as_object, join, require, require_list
from ..registry import PLACEMENT
from .plan import Device, DeviceType, PlacementPlan, ids_from_json
from .problem import Node, NodeId, PlacementProblem

# Our names -> the file's.
FIELD_NAMES: Mapping[str, str] = {
    "accelerators": "maxFPGAs",
    "cpus": "maxCPUs",
    "memory_bytes": "maxSizePerFPGA",
    "time_unit": "timeUnit",
    "accelerator_time": "fpgaLatency",
    "cpu_time": "cpuLatency",
    "size_bytes": "size",
    "supported": "supportedOnFpga",
    "backward": "isBackwardNode",
    "color": "colorClass",
    "source": "sourceId",
    "target": "destId",
}


def read(data: Mapping[str, Any], cluster: Cluster, name: str) -> PlacementProblem:
    """The problem in a published file; the caller's cluster may supply what the file lacks."""
    renamed = {FIELD_NAMES[key]: value for key, value in changes(PLACEMENT, cluster).items()}
    return placement_from_published({**data, **renamed}, name=name)


def placement_from_published(data: object, *, name: str = "placement") -> PlacementProblem:
    """The problem in parsed JSON; errors carry the file's own field names. `name` serves where the file has none."""
    top = as_object("", data, '{"maxFPGAs": ..., "nodes": [...], "edges": [...]}')
    nodes = require_list("", top, "nodes")
    edges = [_edge(f"edges[{i}]", entry) for i, entry in enumerate(require_list("", top, "edges"))]
    costs = _transfer_times(edges)
    try:
        return PlacementProblem(
            nodes=tuple(_node(f"nodes[{i}]", entry, costs) for i, entry in enumerate(nodes)),
            edges=tuple((source, target) for source, target, _ in edges),
            accelerators=require("", top, "maxFPGAs"),
            cpus=require("", top, "maxCPUs"),
            memory_bytes=require("", top, "maxSizePerFPGA"),
            name=top.get("name", name),
            time_unit=top.get("timeUnit"),
        )
    except InputError as error:
        raise error.renamed(FIELD_NAMES) from None


def _edge(where: str, entry: object) -> tuple[NodeId, NodeId, float]:
    data = as_object(where, entry, '{"sourceId": ..., "destId": ..., "cost": ...}')
    source, target, cost = (require(where, data, key) for key in ("sourceId", "destId", "cost"))
    check_id(join(where, "sourceId"), source)
    check_id(join(where, "destId"), target)
    check_amount(join(where, "cost"), cost)
    return source, target, cost


def _transfer_times(edges: list[tuple[NodeId, NodeId, float]]) -> dict[NodeId, float]:
    """The one cost that all out-edges of a node carry: its output is transferred once per device."""
    first: dict[NodeId, int] = {}
    for i, (source, target, cost) in enumerate(edges):
        _, other, first_cost = edges[first.setdefault(source, i)]
        if cost != first_cost:
            raise InputError(
                f"edges[{i}].cost",
                f"is {cost!r} on {show(source)} -> {show(target)} but {first_cost!r} in edges[{first[source]}] "
                f"on {show(source)} -> {show(other)}",
                "give all out-edges of a node the same cost: its output is transferred once",
            )
    return {source: edges[i][2] for source, i in first.items()}


def _node(where: str, entry: object, costs: Mapping[NodeId, float]) -> Node:
    data = as_object(where, entry, '{"id": ..., "fpgaLatency": ..., "cpuLatency": ..., ...}')
    node_id = require(where, data, "id")
    check_id(join(where, "id"), node_id)
    return Node(
        id=node_id,
        accelerator_time=require(where, data, "fpgaLatency"),
        cpu_time=require(where, data, "cpuLatency"),
        size_bytes=data.get("size", 0.0),
        transfer_time=costs.get(node_id, 0.0),
        supported=_flag(where, data, "supportedOnFpga"),
        backward=_flag(where, data, "isBackwardNode"),
        color=data.get("colorClass"),
        name=data.get("name"),
    )


def _flag(where: str, data: Mapping[str, Any], key: str) -> bool:
    value = require(where, data, key)
    if isinstance(value, bool) or (isinstance(value, int) and value in (0, 1)):
        return bool(value)
    raise InputError(join(where, key), f"is {show(value)}, not a truth value", "give true, false, 1 or 0")


# ---- expert splits -------------------------------------------------------------------------------------


def expert_plan_from_json(data: object, problem: PlacementProblem | None = None) -> PlacementPlan:
    """The split in ``{"fpgas": [{"nodes": [...]}], "cpus": [...]}``; with a problem, its ids are checked.

    Loads that such files state are ignored: the referee computes them.
    """
    top = as_object("", data, '{"fpgas": [{"nodes": [...]}], "cpus": [...]}')
    devices = [
        *_expert_devices(top, "fpgas", "accelerator", "acc", problem),
        *_expert_devices(top, "cpus", "cpu", "cpu", problem),
    ]
    return PlacementPlan(tuple(devices))


def _expert_devices(
    top: Mapping[str, Any], key: str, kind: DeviceType, prefix: str, problem: PlacementProblem | None
) -> list[Device]:
    devices = []
    for d, entry in enumerate(require_list("", top, key)):
        where = f"{key}[{d}]"
        data = as_object(where, entry, '{"nodes": [...]}')
        nodes = ids_from_json(f"{where}.nodes", require(where, data, "nodes"))
        if problem is not None:
            _check_known(f"{where}.nodes", nodes, problem)
        devices.append(Device(f"{prefix}{d}", kind, nodes))
    return devices


def _check_known(where: str, nodes: tuple[NodeId, ...], problem: PlacementProblem) -> None:
    for i, node_id in enumerate(nodes):
        if node_id not in problem.index:
            raise InputError(
                f"{where}[{i}]", f"names the unknown node {show(node_id)}", "give a split of this problem"
            )
