"""What a split costs: loads from the definition, each producer once per device."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...base.checks import check_known
from ...base.fields import plain_fields
from ..plan import DeviceGroup, DeviceType, PlacementPlan
from ..plan import NotAnAssignmentError as NotAnAssignmentError
from ..problem import PlacementProblem, refuse_other_kinds
from .structure import Tree, check_computable, device_of_nodes, level_facts, level_of, time_of, tree_of

OBJECTIVES = ("max-load", "gpipe")


@dataclass(frozen=True, slots=True)
class DeviceLoad:
    """One device's time for one sample, in the problem's time unit, and its memory.

    A transfer is forward or backward as the node is that produces the tensor. CPUs pay no transfers.

    Work and transfers are those of a sample that the device sees. Where replicas take turns it sees only one in
    `divisor` samples, and its loads are shared out to all of them: load = (work + transfers) / divisor + sync.
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
    divisor: int = 1
    """Number of its replicas, times those of all the groups that it stands in."""
    sync: float = 0.0
    """Synchronisation of its replicas' weights, shared out to all samples; counts as backward."""


@dataclass(frozen=True, slots=True)
class GroupLoad:
    """The transfers over the boundary of a device of level 2 or higher; what is inside has loads of its own."""

    name: str
    level: int
    transfer_in: float
    transfer_out: float
    forward_load: float
    backward_load: float
    load: float
    divisor: int
    sync: float


@dataclass(frozen=True, slots=True)
class PlacementEvaluation:
    """All loads of a split. `max_load` is the time per sample of a pipeline in steady state."""

    devices: tuple[DeviceLoad, ...]
    max_load: float
    max_forward_plus_max_backward: float
    """The GPipe-style objective, where all forward work is done before all backward work."""
    bottleneck: str
    """Name of the first device or group with the largest load."""
    groups: tuple[GroupLoad, ...] = ()

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
    tree = tree_of(plan)
    paths = [tree.path(d) for d in range(len(plan.devices))]
    held: list[list[int]] = [[] for _ in tree.units]
    for i, d in enumerate(owner):
        for place in paths[d]:
            held[place].append(i)
    received, sent = _crossing(problem, owner, paths, len(tree.units))
    devices: list[DeviceLoad] = []
    groups: list[GroupLoad] = []
    for number, unit in enumerate(tree.units):
        if isinstance(unit, DeviceGroup):
            common = _loads(problem, tree, number, held[number], {}, (received[number], sent[number]))
            groups.append(GroupLoad(name=unit.name, level=unit.level, **common))
            continue
        work = {i: time_of(problem, unit, i) for i in held[number]}
        crossing = (received[number], sent[number]) if unit.type != "cpu" else ((), ())
        devices.append(
            DeviceLoad(
                name=unit.name,
                type=unit.type,
                compute=math.fsum(work.values()),
                size_bytes=math.fsum(problem.nodes[i].size_bytes for i in held[number]),
                **_loads(problem, tree, number, held[number], work, crossing),
            )
        )
    loads: tuple[DeviceLoad | GroupLoad, ...] = (*devices, *groups)
    heaviest = max(loads, key=lambda unit: unit.load)
    return PlacementEvaluation(
        devices=tuple(devices),
        max_load=heaviest.load,
        max_forward_plus_max_backward=max(u.forward_load for u in loads) + max(u.backward_load for u in loads),
        bottleneck=heaviest.name,
        groups=tuple(groups),
    )


def _crossing(
    problem: PlacementProblem, owner: Sequence[int], paths: Sequence[Sequence[int]], units: int
) -> tuple[list[set[int]], list[set[int]]]:
    """Producers whose tensors come into each unit, and those whose tensors leave it, each once."""
    received: list[set[int]] = [set() for _ in range(units)]
    sent: list[set[int]] = [set() for _ in range(units)]
    for u, readers in enumerate(problem.successors):
        for v in readers:
            if owner[u] != owner[v]:
                mine, theirs = paths[owner[u]], paths[owner[v]]
                for unit in mine:
                    if unit not in theirs:
                        sent[unit].add(u)
                for unit in theirs:
                    if unit not in mine:
                        received[unit].add(u)
    return received, sent


def _loads(
    problem: PlacementProblem,
    tree: Tree,
    number: int,
    held: Iterable[int],
    work: Mapping[int, float],
    crossing: tuple[Iterable[int], Iterable[int]],
) -> dict[str, Any]:
    """The fields that loads of devices and of groups have in common.

    `work`: the time of each node that the unit runs itself; `crossing`: producers of what comes in and of what leaves.
    Loads are shared out among `divisor` replicas, and `sync` is the time for their weights, for each sample.
    """
    unit, divisor = tree.units[number], tree.samples_shared(number)
    facts = level_facts(problem, level_of(unit))
    received, sent = (
        {u: facts.transfer_factor * problem.nodes[u].transfer_time for u in producers} for producers in crossing
    )
    forward, backward = (
        [time for table in (work, received, sent) for i, time in table.items() if problem.nodes[i].backward == side]
        for side in (False, True)
    )
    sync = 0.0
    if unit.replicas > 1 and facts.sync_bandwidth is not None:
        weight = math.fsum(problem.nodes[i].weight_bytes for i in held)
        sync = 4 * (unit.replicas - 1) / unit.replicas * weight / (unit.replicas * facts.sync_bandwidth)
        sync /= divisor // unit.replicas
    return {
        "transfer_in": math.fsum(received.values()),
        "transfer_out": math.fsum(sent.values()),
        "forward_load": math.fsum(forward) / divisor,
        "backward_load": math.fsum(backward) / divisor + sync,
        "load": math.fsum(forward + backward) / divisor + sync,
        "divisor": divisor,
        "sync": sync,
    }
