"""Plans hold decisions only: no cost that is stored here would be believed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from ..base.checks import MAX_DEVICES, NodeId, check_id, check_text
from ..base.errors import InputError, PipeplanError, show
from ..base.fields import as_list, as_object, as_plan, read_entries, require
from ..base.records import to_record
from .problem import PlacementProblem

DeviceType = Literal["accelerator", "cpu"]


class NotAnAssignmentError(PipeplanError, ValueError):
    """The plan does not put every node on exactly one device that can be computed with, so it has no loads."""


@dataclass(frozen=True, slots=True)
class Device:
    """What one device holds, or a stage that several accelerators share as replicas.

    `subgraphs` (latency plans only): pieces in processing order.
    """

    name: str
    type: DeviceType
    nodes: tuple[NodeId, ...]
    subgraphs: tuple[tuple[NodeId, ...], ...] | None = None
    accelerator_type: str | None = None
    """Name of one of the problem's other types; None: the base type, or a CPU."""
    replicas: int = 1
    """How many accelerators hold the same nodes and take turns at the samples."""
    group: str | None = None
    """Name of the device of level 2 that it stands in; None where there is only one level, and for CPUs."""


@dataclass(frozen=True, slots=True)
class DeviceGroup:
    """A device of level 2 or higher: it holds what the devices in it hold, on each of its replicas."""

    name: str
    level: int
    replicas: int = 1
    parent: str | None = None
    """Name of the device of the next level that it stands in; None on the highest."""


@dataclass(frozen=True, slots=True)
class PlacementPlan:
    """An assignment of nodes to devices. Nothing is checked here: judging plans is the referee's task."""

    devices: tuple[Device, ...]
    groups: tuple[DeviceGroup, ...] = ()

    kind = "placement"

    def to_json(self) -> dict[str, Any]:
        data: dict[str, Any] = {"kind": self.kind, "devices": [to_record(device) for device in self.devices]}
        if self.groups:
            data["groups"] = [to_record(group) for group in self.groups]
        return data

    @classmethod
    def from_json(cls, data: object, where: str = "plan") -> PlacementPlan:
        """Read a plan object; shape and types are checked, merits are not. `where` is its path in the file."""
        top = as_plan(where, data, cls.kind, '{"kind": "placement", "devices": [...]}')
        return cls(
            read_entries(where, top, "devices", _device_from_json),
            read_entries(where, top, "groups", _group_from_json, optional=True),
        )

    @classmethod
    def from_assignment(cls, problem: PlacementProblem, device_of: Mapping[NodeId, int]) -> PlacementPlan:
        """Device 0..k-1: accelerators (of the base type); k..k+l-1: CPUs; idle ones stay listed.

        Nodes stand in the problem's order.
        """
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


def _device_from_json(where: str, entry: object) -> Device:
    data = as_object(where, entry, '{"name": ..., "type": ..., "nodes": [...]}')
    name, kind = require(where, data, "name"), require(where, data, "type")
    check_text(f"{where}.name", name)
    if kind not in ("accelerator", "cpu"):
        raise InputError(f"{where}.type", f"is {show(kind)}", 'give "accelerator" or "cpu"')
    given = data.get("subgraphs") is not None
    subgraphs = read_entries(where, data, "subgraphs", ids_from_json) if given else None
    return Device(
        name,
        kind,
        ids_from_json(f"{where}.nodes", require(where, data, "nodes")),
        subgraphs,
        accelerator_type=_text_or_none(where, data, "accelerator_type"),
        replicas=_number(f"{where}.replicas", data.get("replicas", 1)),
        group=_text_or_none(where, data, "group"),
    )


def _group_from_json(where: str, entry: object) -> DeviceGroup:
    data = as_object(where, entry, '{"name": ..., "level": ..., "parent": ...}')
    name = require(where, data, "name")
    check_text(f"{where}.name", name)
    level = _number(f"{where}.level", require(where, data, "level"))
    replicas = _number(f"{where}.replicas", data.get("replicas", 1))
    return DeviceGroup(name, level, replicas, _text_or_none(where, data, "parent"))


def _text_or_none(where: str, data: Mapping[str, Any], key: str) -> str | None:
    value: str | None = data.get(key)
    if value is not None:
        check_text(f"{where}.{key}", value)
    return value


def _number(where: str, value: object) -> int:
    """A whole number that has a meaning or is for the referee to refuse."""
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) > MAX_DEVICES:
        raise InputError(where, f"is {show(value)}", f"give a whole number of at most {MAX_DEVICES}")
    return value


def ids_from_json(where: str, value: object) -> tuple[NodeId, ...]:
    """A list of node ids."""
    ids = as_list(where, value)
    for i, node_id in enumerate(ids):
        check_id(f"{where}[{i}]", node_id)
    return tuple(ids)
