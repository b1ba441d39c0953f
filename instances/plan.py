"""Plans hold decisions only: no cost that is stored here would be believed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from .errors import InputError, show
from .fields import as_list, as_object, join, require, require_list
from .placement import NodeId, PlacementProblem, check_id, check_text

DeviceType = Literal["accelerator", "cpu"]


@dataclass(frozen=True, slots=True)
class Device:
    """What one device holds. `subgraphs` (latency plans only): pieces in processing order."""

    name: str
    type: DeviceType
    nodes: tuple[NodeId, ...]
    subgraphs: tuple[tuple[NodeId, ...], ...] | None = None


@dataclass(frozen=True, slots=True)
class PlacementPlan:
    """An assignment of nodes to devices. Nothing is checked here: judging plans is the referee's office."""

    devices: tuple[Device, ...]

    kind = "placement"

    def to_json(self) -> dict[str, Any]:
        return {"kind": self.kind, "devices": [_device_to_json(device) for device in self.devices]}

    @classmethod
    def from_json(cls, data: object, where: str = "plan") -> PlacementPlan:
        """Read a plan object; shape and types are checked, merits are not. `where` is its path in the file."""
        top = as_object(where, data, '{"kind": "placement", "devices": [...]}')
        kind = require(where, top, "kind")
        if kind != cls.kind:
            raise InputError(join(where, "kind"), f"is {show(kind)}", f'give "{cls.kind}"')
        devices, place = require_list(where, top, "devices"), join(where, "devices")
        return cls(tuple(_device_from_json(f"{place}[{i}]", entry) for i, entry in enumerate(devices)))

    @classmethod
    def from_assignment(cls, problem: PlacementProblem, device_of: Mapping[NodeId, int]) -> PlacementPlan:
        """Device 0..k-1: accelerators; k..k+l-1: CPUs; nodes in the problem's order; idle devices stay listed."""
        held: list[list[NodeId]] = [[] for _ in range(problem.accelerators + problem.cpus)]
        for node in problem.nodes:
            held[device_of[node.id]].append(node.id)
        k = problem.accelerators
        return cls(
            tuple(
                Device(f"acc{d}" if d < k else f"cpu{d - k}", "accelerator" if d < k else "cpu", tuple(nodes))
                for d, nodes in enumerate(held)
            )
        )


def _device_to_json(device: Device) -> dict[str, Any]:
    entry: dict[str, Any] = {"name": device.name, "type": device.type, "nodes": list(device.nodes)}
    if device.subgraphs is not None:
        entry["subgraphs"] = [list(piece) for piece in device.subgraphs]
    return entry


def _device_from_json(where: str, entry: object) -> Device:
    data = as_object(where, entry, '{"name": ..., "type": ..., "nodes": [...]}')
    name, kind = require(where, data, "name"), require(where, data, "type")
    check_text(f"{where}.name", name)
    if kind not in ("accelerator", "cpu"):
        raise InputError(f"{where}.type", f"is {show(kind)}", 'give "accelerator" or "cpu"')
    pieces = data.get("subgraphs")
    subgraphs = None
    if pieces is not None:
        place = f"{where}.subgraphs"
        subgraphs = tuple(ids_from_json(f"{place}[{i}]", piece) for i, piece in enumerate(as_list(place, pieces)))
    return Device(name, kind, ids_from_json(f"{where}.nodes", require(where, data, "nodes")), subgraphs)


def ids_from_json(where: str, value: object) -> tuple[NodeId, ...]:
    """A list of node ids."""
    ids = as_list(where, value)
    for i, node_id in enumerate(ids):
        check_id(f"{where}[{i}]", node_id)
    return tuple(ids)
