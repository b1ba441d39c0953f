"""What a split costs: loads from the definition, each producer once per device."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...base.checks import check_known
from ...base.fields import plain_fields
from ..plan import DeviceType, PlacementPlan
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
    crossing = _crossing(problem, owner, paths, len(tree.parents))
    nodes_of_unit: list[list[int]] = [[] for _ in tree.parents]
    for i, d in enumerate(owner):
        for unit in paths[d]:
            nodes_of_unit[unit].append(i)
    shares = [_share(problem, tree, unit, nodes_of_unit[unit]) for unit in range(len(tree.parents))]
    devices = tuple(
        _device_load(problem, plan, d, nodes_of_unit[d], crossing, shares[d]) for d in range(len(plan.devices))
    )
    groups = tuple(
        _group_load(problem, plan, unit, crossing, shares[unit]) for unit in range(len(plan.devices), len(shares))
    )
    loads: tuple[DeviceLoad | GroupLoad, ...] = (*devices, *groups)
    heaviest = max(loads, key=lambda unit: unit.load)
    return PlacementEvaluation(
        devices=devices,
        max_load=heaviest.load,
        max_forward_plus_max_backward=max(u.forward_load for u in loads) + max(u.backward_load for u in loads),
        bottleneck=heaviest.name,
        groups=groups,
    )


@dataclass(frozen=True, slots=True)
class _Crossing:
    """Producers whose tensors cross the boundary of each unit, each once."""

    received: list[set[int]]
    sent: list[set[int]]


def _crossing(
    problem: PlacementProblem, owner: Sequence[int], paths: Sequence[Sequence[int]], units: int
) -> _Crossing:
    crossing = _Crossing([set() for _ in range(units)], [set() for _ in range(units)])
    for u, readers in enumerate(problem.successors):
        for v in readers:
            if owner[u] != owner[v]:
                mine, theirs = paths[owner[u]], paths[owner[v]]
                for unit in mine:
                    if unit not in theirs:
                        crossing.sent[unit].add(u)
                for unit in theirs:
                    if unit not in mine:
                        crossing.received[unit].add(u)
    return crossing


@dataclass(frozen=True, slots=True)
class _Share:
    """How a unit's loads are shared out among `divisor` replicas; `sync` is the time for weights, for each sample."""

    divisor: int
    sync: float

    def of(self, total: float, with_sync: bool = True) -> float:
        return total / self.divisor + (self.sync if with_sync else 0.0)


def _share(problem: PlacementProblem, tree: Tree, unit: int, held: Iterable[int]) -> _Share:
    divisor, entry = tree.samples_shared(unit), tree.units[unit]
    replicas, bandwidth = entry.replicas, level_facts(problem, level_of(entry)).sync_bandwidth
    if replicas == 1 or bandwidth is None:
        return _Share(divisor, 0.0)
    weight = math.fsum(problem.nodes[i].weight_bytes for i in held)
    sync = 4 * (replicas - 1) / replicas * weight / (replicas * bandwidth)
    return _Share(divisor, sync / (divisor // replicas))


@dataclass(frozen=True, slots=True)
class _Times:
    """How long a unit works, receives and sends for one sample that it sees."""

    work: Mapping[int, float]
    received: Mapping[int, float]
    sent: Mapping[int, float]

    def side(self, problem: PlacementProblem, backward: bool) -> list[float]:
        """All times of one direction."""
        tables = (self.work, self.received, self.sent)
        return [time for table in tables for i, time in table.items() if problem.nodes[i].backward == backward]


def _times(
    problem: PlacementProblem, level: int, work: Mapping[int, float], received: Iterable[int], sent: Iterable[int]
) -> _Times:
    factor = level_facts(problem, level).transfer_factor

    def transfers(producers: Iterable[int]) -> dict[int, float]:
        return {u: factor * problem.nodes[u].transfer_time for u in producers}

    return _Times(work, transfers(received), transfers(sent))


def _device_load(
    problem: PlacementProblem, plan: PlacementPlan, d: int, held: Sequence[int], crossing: _Crossing, share: _Share
) -> DeviceLoad:
    device = plan.devices[d]
    pays = device.type != "cpu"
    work = {i: time_of(problem, device, i) for i in held}
    times = _times(problem, 1, work, crossing.received[d] if pays else (), crossing.sent[d] if pays else ())
    return DeviceLoad(
        name=device.name,
        type=device.type,
        compute=math.fsum(work.values()),
        size_bytes=math.fsum(problem.nodes[i].size_bytes for i in held),
        **_loads(problem, times, share),
    )


def _group_load(
    problem: PlacementProblem, plan: PlacementPlan, unit: int, crossing: _Crossing, share: _Share
) -> GroupLoad:
    group = plan.groups[unit - len(plan.devices)]
    times = _times(problem, group.level, {}, crossing.received[unit], crossing.sent[unit])
    return GroupLoad(name=group.name, level=group.level, **_loads(problem, times, share))


def _loads(problem: PlacementProblem, times: _Times, share: _Share) -> dict[str, Any]:
    """The fields that loads of devices and of groups have in common."""
    forward, backward = times.side(problem, False), times.side(problem, True)
    return {
        "transfer_in": math.fsum(times.received.values()),
        "transfer_out": math.fsum(times.sent.values()),
        "forward_load": share.of(math.fsum(forward), with_sync=False),
        "backward_load": share.of(math.fsum(backward)),
        "load": share.of(math.fsum(forward + backward)),
        "divisor": share.divisor,
        "sync": share.sync,
    }
