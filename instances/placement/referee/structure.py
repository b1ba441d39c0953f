"""Where each device of a plan stands: devices within devices, the device of every node, and the chain of stages.

Every rule and every cost begins here. What is wrong is told in sentences, which the rules of `verify` turn into
violations; where nothing could be computed, `NotAnAssignmentError` is raised.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise

from ...base.checks import MAX_DEVICES
from ...base.errors import show
from ...base.quantities import several
from ..plan import Device, DeviceGroup, DeviceType, NotAnAssignmentError, PlacementPlan
from ..problem import Level, NodeId, PlacementProblem


@dataclass(frozen=True, slots=True)
class Tree:
    """Which unit stands in which. Units are numbered: the plan's devices first, then its groups.

    A parent that does not exist, or not on the next level, is left out: whatever the plan says, this is a forest.
    """

    units: tuple[Device | DeviceGroup, ...]
    parents: tuple[int | None, ...]

    def path(self, unit: int) -> tuple[int, ...]:
        """The unit and all that it stands in, outwards."""
        path = [unit]
        while (parent := self.parents[path[-1]]) is not None:
            path.append(parent)
        return tuple(path)

    def samples_shared(self, unit: int) -> int:
        """The number of replicas that share the samples: its own, times those of all that it stands in."""
        return math.prod(self.units[place].replicas for place in self.path(unit))


def tree_of(plan: PlacementPlan) -> Tree:
    """The tree of a plan's devices and groups."""
    number: dict[str | None, int] = {}
    for g, group in enumerate(plan.groups, start=len(plan.devices)):
        number.setdefault(group.name, g)
    parents, units = [], units_of(plan)
    for unit in units:
        parent = number.get(parent_name(unit))
        fits = parent is not None and plan.groups[parent - len(plan.devices)].level == level_of(unit) + 1
        parents.append(parent if fits else None)
    return Tree(units, tuple(parents))


def units_of(plan: PlacementPlan) -> tuple[Device | DeviceGroup, ...]:
    return (*plan.devices, *plan.groups)


def level_of(unit: Device | DeviceGroup) -> int:
    return 1 if isinstance(unit, Device) else unit.level


def parent_name(unit: Device | DeviceGroup) -> str | None:
    return unit.group if isinstance(unit, Device) else unit.parent


def level_facts(problem: PlacementProblem, level: int) -> Level:
    """What the problem says of a level; where it says nothing, all accelerators stand side by side."""
    return problem.levels[level - 1] if 1 <= level <= len(problem.levels) else Level(problem.accelerators)


def top_level(problem: PlacementProblem) -> int:
    return max(1, len(problem.levels))


def in_words(unit: Device | DeviceGroup) -> str:
    return f"{'Device' if isinstance(unit, Device) else 'Group'} {show(unit.name)}"


# ---- what is wrong ---------------------------------------------------------------------------------------


def type_faults(problem: PlacementProblem, plan: PlacementPlan) -> Iterator[str]:
    """A sentence for each device whose accelerator type does not exist, and for each CPU that has one."""
    for device in plan.devices:
        if device.accelerator_type is None:
            continue
        name = show(device.accelerator_type)
        if device.type == "cpu":
            yield f"Device {show(device.name)} is a CPU and has the accelerator type {name}."
        elif device.accelerator_type not in problem.type_index:
            yield f"Device {show(device.name)} has the unknown accelerator type {name}."


def replication_faults(problem: PlacementProblem, plan: PlacementPlan) -> Iterator[str]:
    """A sentence for each unit with replicas where there can be none."""
    for unit in units_of(plan):
        if not 1 <= unit.replicas <= MAX_DEVICES:
            yield f"{in_words(unit)} has {show(unit.replicas)} replicas; there are from 1 to {MAX_DEVICES}."
        elif unit.replicas > 1 and isinstance(unit, Device) and unit.type == "cpu":
            yield f"{in_words(unit)} has {several(unit.replicas, 'replica')}; a CPU has only one."
        elif unit.replicas > 1 and level_facts(problem, level_of(unit)).sync_bandwidth is None:
            yield (
                f"{in_words(unit)} has {unit.replicas} replicas, but the problem has no bandwidth to synchronise them "
                f"on level {level_of(unit)}."
            )


def structure_faults(problem: PlacementProblem, plan: PlacementPlan) -> Iterator[str]:
    """A sentence for each name and place by which groups do not form a tree of the problem's levels."""
    devices = {device.name for device in plan.devices}
    level_of_group = {group.name: group.level for group in plan.groups}
    for name, count in Counter(group.name for group in plan.groups).items():
        if count > 1 or name in devices:
            yield f"The group name {show(name)} is used {count + (name in devices)} times."
    top = top_level(problem)
    for group in plan.groups:
        if not 2 <= group.level <= top:
            levels = "only one level" if top == 1 else f"levels from 1 to {top}"
            yield f"{in_words(group)} is of level {show(group.level)}, but the problem has {levels}."
    for unit in units_of(plan):
        fault = _parent_fault(unit, level_of_group, top)
        if fault is not None:
            yield fault


def _parent_fault(unit: Device | DeviceGroup, level_of_group: dict[str, int], top: int) -> str | None:
    """What is wrong with the group that a unit names as its parent, or with naming none; None: nothing is wrong."""
    level, parent = level_of(unit), parent_name(unit)
    on_top = level >= top or (isinstance(unit, Device) and unit.type == "cpu")
    if parent is None:
        return None if on_top else f"{in_words(unit)} stands in no group of level {level + 1}."
    if parent not in level_of_group:
        return f"{in_words(unit)} stands in the unknown group {show(parent)}."
    if on_top:
        reason = "is a CPU" if level == 1 and level < top else "is on the highest level"
        return f"{in_words(unit)} {reason} and stands in the group {show(parent)}."
    if level_of_group[parent] != level + 1:
        return (
            f"{in_words(unit)} is of level {level} and stands in the group {show(parent)} of level "
            f"{show(level_of_group[parent])}, not {level + 1}."
        )
    return None


def capacity_faults(problem: PlacementProblem, plan: PlacementPlan) -> Iterator[str]:
    """A sentence for each group, and for the cluster, that holds more units than it has room for."""
    if top_level(problem) == 1:
        return  # then they are counted by type
    tree = tree_of(plan)
    used: Counter[int | None] = Counter()
    for unit, above in zip(tree.units, tree.parents, strict=True):
        if above is not None or level_of(unit) == top_level(problem):
            used[above] += unit.replicas
    for parent, count in used.items():
        level = top_level(problem) if parent is None else level_of(tree.units[parent]) - 1
        limit = level_facts(problem, level).devices
        if count > limit:
            where = "The cluster" if parent is None else in_words(tree.units[parent])
            yield f"{where} holds {several(count, 'device')} of level {level}, but has room for {limit}."


# ---- an assignment: every node on one device that means something ------------------------------------

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


# ---- contiguity, in its two notions: of one device alone, and of all devices as a chain of stages ----

# Positions (u, v) of two nodes with stage(u) <= stage(v).
Arc = tuple[int, int]


def topological_ranks(problem: PlacementProblem) -> list[int]:
    """Rank of each node, by position, in the topological order."""
    ranks = [0] * len(problem.nodes)
    for rank, i in enumerate(problem.topological_order):
        ranks[i] = rank
    return ranks


def returning_path(
    problem: PlacementProblem, held: Iterable[int], ranks: Sequence[int] | None = None
) -> tuple[int, int, int] | None:
    """Positions u, v, w of a path u -> v -> .. -> w with u and w among `held` and v not; None: there is none.

    In topological order every node outside learns which edge out of the set it descends from. Only what
    stands between the first and the last held node matters; `ranks` saves computing them for each device.
    """
    inside = set(held)
    if len(inside) < 2:
        return None
    ranks = topological_ranks(problem) if ranks is None else ranks
    places = [ranks[i] for i in inside]
    left_by: dict[int, Arc] = {}
    for v in problem.topological_order[min(places) : max(places) + 1]:
        for u in problem.predecessors[v]:
            if u in inside:
                if v not in inside:
                    left_by.setdefault(v, (u, v))
            elif u in left_by:
                if v in inside:
                    return (*left_by[u], v)
                left_by.setdefault(v, left_by[u])
    return None


def stage_arcs(problem: PlacementProblem) -> tuple[Arc, ...]:
    """What a chain of stages must respect, along the edges of the contracted forward graph.

    Edges between forward nodes hold as they are. A colour class without forward nodes (an orphan) takes its
    place from its backward edges, mirrored: the backward pass runs the chain in reverse. Other backward nodes
    go with the forward nodes of their class. Edges from forward to backward nodes ask for nothing, since the
    whole forward pass precedes the backward pass.
    """
    orphan = [False] * len(problem.nodes)
    for members in problem.color_classes:
        if all(problem.nodes[i].backward for i in members):
            for i in members:
                orphan[i] = True
    arcs = []
    for u, v in problem.arcs:
        if not problem.nodes[v].backward:
            arcs.append((u, v))
        elif problem.nodes[u].backward and (orphan[u] or orphan[v]):
            arcs.append((v, u))
    return tuple(arcs)


def stage_order(problem: PlacementProblem, plan: PlacementPlan) -> tuple[str, ...] | None:
    """Names of the plan's devices (idle ones last) in an order that makes them a chain of stages, or None.

    Where there are groups, they form a chain as well, and so do the devices within each.
    """
    orders: dict[int | None, list[int]] = {}
    tree = tree_of(plan)
    for chain in chains(problem, tree, device_of_nodes(problem, plan)):
        if chain.order is None:
            return None
        orders[chain.parent] = chain.order

    def devices_in(parent: int | None) -> Iterator[int]:
        for unit in orders.get(parent, ()):
            if unit < len(plan.devices):
                yield unit
            else:
                yield from devices_in(unit)

    busy = list(devices_in(None))
    idle = sorted(set(range(len(plan.devices))).difference(busy))
    return tuple(plan.devices[d].name for d in (*busy, *idle))


@dataclass(frozen=True, slots=True)
class Chain:
    """The busy units that stand side by side in a group, or (parent None) in the cluster, as a chain of stages."""

    parent: int | None
    place: Mapping[int, int]
    """Node in the parent -> unit."""
    order: list[int] | None
    """Positions of the devices in the order of the stages; None: there is none, and `circle` says why."""
    circle: list[Arc]


def chains(problem: PlacementProblem, tree: Tree, owner: Sequence[int]) -> Iterator[Chain]:
    """The chain of the cluster and that of each group with nodes. A node on no device (below 0) stands alone."""
    places: dict[int | None, dict[int, int]] = {None: {}}
    links = {d: [(unit, tree.parents[unit]) for unit in tree.path(d)] for d in set(owner) if d >= 0}
    for i, device in enumerate(owner):
        for unit, parent in links.get(device, [(device, None)]):
            places.setdefault(parent, {})[i] = unit
    arcs = stage_arcs(problem)
    for parent, place in places.items():
        yield Chain(parent, place, *order_or_circle(place, arcs))


def order_or_circle(place: Mapping[int, int], arcs: Iterable[Arc]) -> tuple[list[int] | None, list[Arc]]:
    """Busy units in stage order; or None and arcs between units that lead around in a circle.

    Arcs of nodes that have no place here are left out.
    """
    witness: dict[Arc, Arc] = {}
    sorter: TopologicalSorter[int] = TopologicalSorter()
    for unit in sorted(set(place.values())):
        sorter.add(unit)
    for u, v in arcs:
        if u not in place or v not in place:
            continue
        step = (place[u], place[v])
        if step[0] != step[1] and step not in witness:
            sorter.add(step[1], step[0])
            witness[step] = (u, v)
    try:
        return list(sorter.static_order()), []
    except CycleError as error:
        circle: list[int] = error.args[1]  # each unit stands before the next, the first again at the end
        return None, [witness[step] for step in pairwise(circle)]
