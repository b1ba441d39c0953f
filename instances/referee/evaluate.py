"""What a split costs: loads from the definition (specification, section 2), each producer once per device."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ..errors import PipeplanError, show
from ..placement import NodeId, PlacementProblem
from ..plan import Device, DeviceType, PlacementPlan

OBJECTIVES = ("max-load", "gpipe")
DEVICE_TYPES: tuple[DeviceType, ...] = ("accelerator", "cpu")


class NotAnAssignmentError(PipeplanError, ValueError):
    """The plan does not put every node on exactly one device of a known type, so it has no loads."""


@dataclass(frozen=True, slots=True)
class DeviceLoad:
    """One device's time for one sample, in the problem's time unit, and its memory.

    A transfer counts as forward or backward by the node that produces the tensor. CPUs pay no transfers.
    """

    name: str
    type: DeviceType
    compute: float
    transfer_in: float
    transfer_out: float
    forward_load: float
    backward_load: float
    load: float
    size_bytes: float


@dataclass(frozen=True, slots=True)
class PlacementEvaluation:
    """All loads of a split. `max_load` is the time per sample of a pipeline in steady state."""

    devices: tuple[DeviceLoad, ...]
    max_load: float
    max_forward_plus_max_backward: float
    """The GPipe-style objective, where all forward work is done before all backward work."""
    bottleneck: str
    """The device with the largest load (the first of them)."""

    def objective(self, name: str) -> float:
        """`max-load`: max (FW + BW) over devices; `gpipe`: max FW + max BW."""
        if name == "max-load":
            return self.max_load
        if name == "gpipe":
            return self.max_forward_plus_max_backward
        raise ValueError(f"unknown objective {show(name)}; known: {', '.join(OBJECTIVES)}")

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "devices": [asdict(device) for device in self.devices]}


def evaluate(problem: PlacementProblem, plan: PlacementPlan) -> PlacementEvaluation:
    """Every load of the split, from the decisions alone; raises `NotAnAssignmentError` where it is none.

    All sums are exactly rounded, so they depend neither on the order of nodes nor of devices.
    """
    owner = device_of_nodes(problem, plan)
    received: list[set[int]] = [set() for _ in plan.devices]
    sent: list[set[int]] = [set() for _ in plan.devices]
    for u, readers in enumerate(problem.successors):
        for v in readers:
            if owner[u] != owner[v]:
                sent[owner[u]].add(u)
                received[owner[v]].add(u)
    loads = tuple(_device_load(problem, device, received[d], sent[d]) for d, device in enumerate(plan.devices))
    heaviest = max(loads, key=lambda device: device.load)
    return PlacementEvaluation(
        devices=loads,
        max_load=heaviest.load,
        max_forward_plus_max_backward=max(d.forward_load for d in loads) + max(d.backward_load for d in loads),
        bottleneck=heaviest.name,
    )


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


def _device_load(
    problem: PlacementProblem, device: Device, received: Collection[int], sent: Collection[int]
) -> DeviceLoad:
    held = [problem.index[node_id] for node_id in device.nodes]
    on_cpu = device.type == "cpu"

    def work(positions: Sequence[int]) -> list[float]:
        nodes = (problem.nodes[i] for i in positions)
        return [node.cpu_time if on_cpu else node.accelerator_time for node in nodes]

    def transfers(producers: Collection[int]) -> list[float]:
        return [] if on_cpu else [problem.nodes[u].transfer_time for u in producers]

    def side(backward: bool) -> list[float]:
        mine, read, written = (_of_kind(problem, group, backward) for group in (held, received, sent))
        return work(mine) + transfers(read) + transfers(written)

    forward, backward = side(False), side(True)
    return DeviceLoad(
        name=device.name,
        type=device.type,
        compute=math.fsum(work(held)),
        transfer_in=math.fsum(transfers(received)),
        transfer_out=math.fsum(transfers(sent)),
        forward_load=math.fsum(forward),
        backward_load=math.fsum(backward),
        load=math.fsum(forward + backward),
        size_bytes=math.fsum(problem.nodes[i].size_bytes for i in held),
    )


def _of_kind(problem: PlacementProblem, positions: Collection[int], backward: bool) -> list[int]:
    return [i for i in positions if problem.nodes[i].backward == backward]
