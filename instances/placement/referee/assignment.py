"""What a plan must be before there is anything to compute: every node on one device that means something."""

from __future__ import annotations

from collections.abc import Iterator

from ...base.errors import show
from ..plan import Device, DeviceType, NotAnAssignmentError, PlacementPlan
from ..problem import NodeId, PlacementProblem
from .tree import replication_faults, structure_faults, type_faults

DEVICE_TYPES: tuple[DeviceType, ...] = ("accelerator", "cpu")


def device_of_nodes(problem: PlacementProblem, plan: PlacementPlan) -> list[int]:
    """Position of each node's device in the plan."""
    owner: dict[NodeId, int] = {}
    for d, device in enumerate(plan.devices):
        if device.type not in DEVICE_TYPES:
            raise NotAnAssignmentError(f"Device {show(device.name)} is of the unknown type {show(device.type)}.")
        for node_id in device.nodes:
            if node_id not in problem.index:
                raise NotAnAssignmentError(f"Device {show(device.name)} holds the unknown node {show(node_id)}.")
            if node_id in owner:
                raise NotAnAssignmentError(f"Node {show(node_id)} is placed twice.")
            owner[node_id] = d
    missing = next((node.id for node in problem.nodes if node.id not in owner), None)
    if missing is not None:
        raise NotAnAssignmentError(f"Node {show(missing)} is on no device.")
    return [owner[node.id] for node in problem.nodes]


def check_computable(problem: PlacementProblem, plan: PlacementPlan) -> None:
    """Raise unless types, replicas and groups mean something, so that there are loads; `verify` judges limits."""
    faults = (
        *type_faults(problem, plan),
        *replication_faults(problem, plan),
        *structure_faults(problem, plan),
        *_missing_times(problem, plan),
    )
    if faults:
        raise NotAnAssignmentError(faults[0])


def other_type_of(problem: PlacementProblem, device: Device) -> int | None:
    """Position among the other types; None: the base type, a CPU, or a type that is not there."""
    return None if device.accelerator_type is None else problem.type_index.get(device.accelerator_type)


def _missing_times(problem: PlacementProblem, plan: PlacementPlan) -> Iterator[str]:
    """A sentence for each node without a time on the accelerator type of its device; the base type always has one."""
    for device in plan.devices:
        kind = other_type_of(problem, device)
        for i in (problem.index[node_id] for node_id in device.nodes if kind is not None):
            if problem.nodes[i].other_times and problem.time_on(i, kind) is None:
                yield f"Node {show(problem.nodes[i].id)} has no time on {show(device.accelerator_type)}."


def time_of(problem: PlacementProblem, device: Device, i: int) -> float:
    """Time of the node at position i on the device, whether or not it supports it."""
    node, kind = problem.nodes[i], other_type_of(problem, device)
    if device.type == "cpu":
        return node.cpu_time
    time = node.other_times[kind] if kind is not None and node.other_times else node.accelerator_time
    assert time is not None, "checked before"
    return time
