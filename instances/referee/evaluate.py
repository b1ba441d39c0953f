"""What a split costs: loads from the definition (specification, section 2), each producer once per device."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

from ..placement import NodeId, PlacementProblem
from ..plan import Device, DeviceType, PlacementPlan

OBJECTIVES = ("max-load", "gpipe")


class NotAnAssignmentError(ValueError):
    """The plan does not put every node on exactly one device, so it has no loads."""


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
    bottleneck: str
    """The device with the largest load (the first of them)."""

    def objective(self, name: str) -> float:
        """`max-load`: max (FW + BW) over devices; `gpipe`: max FW + max BW."""
        if name == "max-load":
            return self.max_load
        if name == "gpipe":
            return self.max_forward_plus_max_backward
        raise ValueError(f"unknown objective {name!r}; known: {', '.join(OBJECTIVES)}")

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "devices": [asdict(device) for device in self.devices]}


def evaluate(problem: PlacementProblem, plan: PlacementPlan) -> PlacementEvaluation:
    """Every load of the split, from the decisions alone; raises `NotAnAssignmentError` where it is none."""
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
        for node_id in device.nodes:
            if node_id not in problem.index:
                raise NotAnAssignmentError(f"device {device.name!r} holds the unknown node {node_id!r}")
            if node_id in owner:
                raise NotAnAssignmentError(f"node {node_id!r} is placed twice")
            owner[node_id] = d
    missing = next((node.id for node in problem.nodes if node.id not in owner), None)
    if missing is not None:
        raise NotAnAssignmentError(f"node {missing!r} is on no device")
    return [owner[node.id] for node in problem.nodes]


def _device_load(problem: PlacementProblem, device: Device, received: set[int], sent: set[int]) -> DeviceLoad:
    held = [problem.nodes[problem.index[node_id]] for node_id in device.nodes]
    is_cpu = device.type == "cpu"

    def work(backward: bool) -> list[float]:
        return [n.cpu_time if is_cpu else n.accelerator_time for n in held if n.backward == backward]

    def transfers(producers: set[int], backward: bool) -> list[float]:
        chosen = [] if is_cpu else [problem.nodes[u] for u in sorted(producers)]
        return [node.transfer_time for node in chosen if node.backward == backward]

    sides = [work(b) + transfers(received, b) + transfers(sent, b) for b in (False, True)]
    return DeviceLoad(
        name=device.name,
        type=device.type,
        compute=math.fsum(work(False) + work(True)),
        transfer_in=math.fsum(transfers(received, False) + transfers(received, True)),
        transfer_out=math.fsum(transfers(sent, False) + transfers(sent, True)),
        forward_load=math.fsum(sides[0]),
        backward_load=math.fsum(sides[1]),
        load=math.fsum(sides[0] + sides[1]),
        size_bytes=math.fsum(node.size_bytes for node in held),
    )
