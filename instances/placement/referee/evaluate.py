"""What a split costs: loads from the definition, each producer once per device."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ...base.checks import check_known
from ...base.fields import plain_fields
from ..plan import Device, DeviceType, PlacementPlan
from ..plan import NotAnAssignmentError as NotAnAssignmentError
from ..problem import PlacementProblem, refuse_other_kinds
from .structure import check_computable, device_of_nodes, time_of

OBJECTIVES = ("max-load", "gpipe")


@dataclass(frozen=True, slots=True)
class DeviceLoad:
    """One device's time for one sample, in the problem's time unit, and its memory.

    A transfer is forward or backward as the node is that produces the tensor. CPUs pay no transfers.
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
    """Name of the first device with the largest load."""

    def objective(self, name: str) -> float:
        """`max-load`: max (FW + BW) over devices; `gpipe`: max FW + max BW."""
        check_known("objective", name, OBJECTIVES)
        return self.max_load if name == "max-load" else self.max_forward_plus_max_backward

    def to_json(self) -> dict[str, Any]:
        return plain_fields(self)


def evaluate(problem: PlacementProblem, plan: PlacementPlan) -> PlacementEvaluation:
    """Every load of the split, from the decisions alone; raises `NotAnAssignmentError` where the plan is no split.

    All sums are exactly rounded, so they depend neither on the order of nodes nor of devices.
    """
    refuse_other_kinds(problem, "evaluate")
    owner = device_of_nodes(problem, plan)
    check_computable(problem, plan)
    held: list[list[int]] = [[] for _ in plan.devices]
    for i, d in enumerate(owner):
        held[d].append(i)
    received, sent = _crossing(problem, owner, len(plan.devices))
    devices = tuple(
        _load(problem, device, held[d], (received[d], sent[d]) if device.type != "cpu" else ((), ()))
        for d, device in enumerate(plan.devices)
    )
    heaviest = max(devices, key=lambda device: device.load)
    return PlacementEvaluation(
        devices=devices,
        max_load=heaviest.load,
        max_forward_plus_max_backward=max(d.forward_load for d in devices) + max(d.backward_load for d in devices),
        bottleneck=heaviest.name,
    )


def _crossing(
    problem: PlacementProblem, owner: Sequence[int], devices: int
) -> tuple[list[set[int]], list[set[int]]]:
    """Producers whose tensors come into each device, and those whose tensors leave it, each once."""
    received: list[set[int]] = [set() for _ in range(devices)]
    sent: list[set[int]] = [set() for _ in range(devices)]
    for u, readers in enumerate(problem.successors):
        for v in readers:
            if owner[u] != owner[v]:
                sent[owner[u]].add(u)
                received[owner[v]].add(u)
    return received, sent


def _load(
    problem: PlacementProblem, device: Device, held: Collection[int], crossing: tuple[Iterable[int], Iterable[int]]
) -> DeviceLoad:
    """The load of a device. `crossing`: producers of what comes in and of what leaves."""
    nodes = problem.nodes
    work = {i: time_of(problem, device, i) for i in held}
    received, sent = ({u: nodes[u].transfer_time for u in producers} for producers in crossing)
    forward, backward = (
        [time for table in (work, received, sent) for i, time in table.items() if nodes[i].backward == side]
        for side in (False, True)
    )
    return DeviceLoad(
        name=device.name,
        type=device.type,
        compute=math.fsum(work.values()),
        transfer_in=math.fsum(received.values()),
        transfer_out=math.fsum(sent.values()),
        forward_load=math.fsum(forward),
        backward_load=math.fsum(backward),
        load=math.fsum(forward + backward),
        size_bytes=math.fsum(nodes[i].size_bytes for i in held),
    )
