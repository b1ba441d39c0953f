"""Plans of placements. They hold decisions only: a cost that was stored in one would not be believed."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, SupportsIndex

from ..base.checks import NodeId, check_id, check_text
from ..base.errors import InputError, PipeplanError, show, wrong_argument
from ..base.fields import as_list, checked, each, read_plan, read_record, to_record
from ..base.kind import AnyPlan
from .problem import PlacementProblem

DeviceType = Literal["accelerator", "cpu"]


class NotAnAssignmentError(PipeplanError, ValueError):
    """The plan does not put every node on exactly one device that can be computed with, so it has no loads."""


@dataclass(frozen=True, slots=True)
class Device:
    """What one device holds.

    `subgraphs` (latency plans only): the device's pieces, in the order in which it runs them.
    """

    name: str
    type: DeviceType
    nodes: tuple[NodeId, ...]
    subgraphs: tuple[tuple[NodeId, ...], ...] | None = None
    accelerator_type: str | None = None
    """Name of one of the problem's other types; None: the base type, or a CPU."""


@dataclass(frozen=True, slots=True, repr=False)
class PlacementPlan(AnyPlan):
    """An assignment of nodes to devices. Nothing is checked here: judging plans is the referee's task."""

    devices: tuple[Device, ...]

    kind = "placement"

    def to_json(self) -> dict[str, Any]:
        devices = [to_record(device) for device in self.devices]
        return {"kind": self.kind, **to_record(self, devices=devices)}

    @classmethod
    def from_json(cls, data: object, where: str = "plan") -> PlacementPlan:
        """Read a plan object; shape and types are checked, merits are not. `where` is its path in the file."""
        example = '{"kind": "placement", "devices": [...]}'
        return read_plan(cls, cls.kind, where, data, example, devices=each(_device))

    @classmethod
    def from_assignment(
        cls, problem: PlacementProblem, device_of: Mapping[NodeId, SupportsIndex] | Iterable[SupportsIndex]
    ) -> PlacementPlan:
        """The plan that puts each node on the device of that number: 0..k-1 are accelerators of the base type, and
        k..k+l-1 CPUs. Devices without nodes stay listed, and nodes stand in the problem's order.

        A list or an array has a number for each node in the problem's order; a column of pandas goes by its index.
        Raises an `InputError` unless exactly the problem's nodes are on numbers of its devices.
        """
        nodes_of_device: list[list[NodeId]] = [[] for _ in range(problem.accelerators + problem.cpus)]
        device_by_id = _by_node(problem, device_of)
        for node in problem.nodes:
            nodes_of_device[_device_number(node.id, device_by_id[node.id], len(nodes_of_device))].append(node.id)
        k = problem.accelerators
        return cls(
            tuple(
                Device(f"acc{d}" if d < k else f"cpu{d - k}", "accelerator" if d < k else "cpu", tuple(nodes))
                for d, nodes in enumerate(nodes_of_device)
            )
        )


def _by_node(problem: PlacementProblem, device_of: Any) -> Any:
    """The assignment as a mapping that names the problem's nodes, and no others."""
    if not isinstance(device_of, Mapping):
        ids, remedy = [node.id for node in problem.nodes], "give the number of a device for each node's id"
        if isinstance(device_of, str) or not isinstance(device_of, Iterable):
            raise wrong_argument("device_of", device_of, "a mapping", remedy)
        numbers = list(device_of)
        if len(numbers) != len(ids):
            raise InputError("argument device_of", f"has {len(numbers)} devices for {len(ids)} nodes", remedy)
        device_of = device_of.to_dict() if hasattr(device_of, "to_dict") else dict(zip(ids, numbers, strict=True))
    for node in problem.nodes:
        if node.id not in device_of:
            raise InputError("argument device_of", f"has no node {show(node.id)}", "give a device for every node")
    stranger = next((name for name in device_of if name not in problem.index), None)
    if stranger is not None:
        raise InputError(
            "argument device_of", f"has {show(stranger)}, which is no node of the problem", "leave it out"
        )
    return device_of


def _device_number(node_id: NodeId, value: object, devices: int) -> int:
    """The value as the number of a device; Python would count negative ones from the end."""
    try:
        number = -1 if isinstance(value, bool) or not isinstance(value, SupportsIndex) else value.__index__()
    except TypeError:  # an array with one number or several
        number = -1
    if not 0 <= number < devices:
        raise InputError(
            "argument device_of",
            f"puts node {show(node_id)} on device {show(value)}",
            f"give a whole number from 0 to {devices - 1}, the accelerators first",
        )
    return number


def _device(where: str, entry: object) -> Device:
    return read_record(
        Device,
        where,
        entry,
        '{"name": ..., "type": ..., "nodes": [...]}',
        refuse=_refuse_replicas,
        name=checked(check_text),
        type=checked(_check_type),
        nodes=ids_from_json,
        subgraphs=each(ids_from_json),
        accelerator_type=checked(check_text),
    )


def _refuse_replicas(where: str, entry: Mapping[str, Any], known: Collection[str]) -> None:
    """Refuse what earlier versions could plan on one device; other keys that are no fields are left alone."""
    for key, nothing in (("replicas", 1), ("group", None)):
        if entry.get(key, nothing) != nothing:
            remedy = "plan replicas and devices within devices as a staging problem (--kind staging)"
            raise InputError(f"{where}.{key}", f"is {show(entry[key])}", remedy)


def _check_type(where: str, value: object) -> None:
    if value not in ("accelerator", "cpu"):
        raise InputError(where, f"is {show(value)}", 'give "accelerator" or "cpu"')


def ids_from_json(where: str, value: object) -> tuple[NodeId, ...]:
    """A list of node ids."""
    ids = as_list(where, value)
    for i, node_id in enumerate(ids):
        check_id(f"{where}[{i}]", node_id)
    return tuple(ids)


def limit_of(problem: PlacementProblem, device: Device) -> float | None:
    """Bytes of memory of a device; None: it has no limit, as CPUs, or its type does not exist."""
    kind = device.accelerator_type
    if device.type != "accelerator" or (kind is not None and kind not in problem.type_index):
        return None
    return problem.memory_of(None if kind is None else problem.type_index[kind])
