"""Where each device of a plan stands: the device of every node, and the chain of stages.

Every rule and every cost begins here. What is wrong is told in sentences, which the rules of `verify` turn into
violations; where nothing could be computed, `NotAnAssignmentError` is raised.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise

from ...base.errors import show
from ..plan import Device, DeviceType, NotAnAssignmentError, PlacementPlan
from ..problem import NodeId, PlacementProblem

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
    """Raise unless types mean something, so that there are loads; `verify` judges limits."""
    faults = (*type_faults(problem, plan), *_missing_times(problem, plan))
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
    """Names of the plan's devices (idle ones last) in an order that makes them a chain of stages, or None."""
    busy, _ = order_or_circle(device_of_nodes(problem, plan), stage_arcs(problem))
    if busy is None:
        return None
    idle = sorted(set(range(len(plan.devices))).difference(busy))
    return tuple(plan.devices[d].name for d in (*busy, *idle))


def order_or_circle(owner: Sequence[int], arcs: Iterable[Arc]) -> tuple[list[int] | None, list[Arc]]:
    """Busy devices in stage order; or None and arcs between devices that lead around in a circle.

    `owner`: the device of each node; a node on no device (below 0) stands alone.
    """
    witness: dict[Arc, Arc] = {}
    sorter: TopologicalSorter[int] = TopologicalSorter()
    for device in sorted(set(owner)):
        sorter.add(device)
    for u, v in arcs:
        step = (owner[u], owner[v])
        if step[0] != step[1] and step not in witness:
            sorter.add(step[1], step[0])
            witness[step] = (u, v)
    try:
        return list(sorter.static_order()), []
    except CycleError as error:
        circle: list[int] = error.args[1]  # each device stands before the next, the first again at the end
        return None, [witness[step] for step in pairwise(circle)]
