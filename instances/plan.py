"""Plans hold decisions only: no cost that is stored here would be believed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from .errors import InputError
from .placement import NodeId, PlacementProblem, check_id

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
    def from_json(cls, data: object) -> PlacementPlan:
        """Read a plan object; shape and types are checked, merits are not."""
        if not isinstance(data, Mapping):
            raise InputError("plan", "is not an object", 'give {"kind": "placement", "devices": [...]}')
        if data.get("kind") != cls.kind:
            raise InputError("plan.kind", f"is {data.get('kind')!r}", f"give {cls.kind!r}")
        devices = _list("plan.devices", data.get("devices"))
        return cls(tuple(_device_from_json(f"plan.devices[{i}]", entry) for i, entry in enumerate(devices)))

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
    if not isinstance(entry, Mapping):
        raise InputError(where, "is not an object", 'give {"name": ..., "type": ..., "nodes": [...]}')
    name, kind = entry.get("name"), entry.get("type")
    if not isinstance(name, str):
        raise InputError(f"{where}.name", f"is {name!r}, not a text", "name the device")
    if kind not in ("accelerator", "cpu"):
        raise InputError(f"{where}.type", f"is {kind!r}", "give 'accelerator' or 'cpu'")
    pieces = entry.get("subgraphs")
    subgraphs = None
    if pieces is not None:
        subgraphs = tuple(
            _ids(f"{where}.subgraphs[{i}]", piece) for i, piece in enumerate(_list(f"{where}.subgraphs", pieces))
        )
    return Device(name, kind, _ids(f"{where}.nodes", entry.get("nodes")), subgraphs)


def _ids(where: str, value: object) -> tuple[NodeId, ...]:
    ids = _list(where, value)
    for i, node_id in enumerate(ids):
        check_id(f"{where}[{i}]", node_id)
    return tuple(ids)


def _list(where: str, value: object) -> list[Any]:
    if not isinstance(value, list):
        raise InputError(where, f"is {type(value).__name__}, not a list", "give a list")
    return value
