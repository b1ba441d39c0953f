"""What is wrong with a split, rule by rule, one sentence each."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ..errors import show
from ..placement import NodeId, PlacementProblem
from ..plan import Device, PlacementPlan
from .evaluate import DEVICE_TYPES
from .pieces import circle_in_words, given_pieces, partition_fault, units
from .stages import Arc, order_or_circle, returning_path, stage_arcs, topological_ranks

MEMORY_TOLERANCE = 1e-9
"""Relative: sizes may be sums of floats that were rounded before they reached us."""

CONTIGUITIES = ("none", "device", "chain")

RULES = (
    "devices",
    "assignment",
    "memory",
    "support",
    "colocation",
    "contiguity-device",
    "contiguity-chain",
    "subgraphs",
)


@dataclass(frozen=True, slots=True)
class Violation:
    """A broken rule, by its stable name, and how it is broken."""

    rule: str
    message: str

    def __str__(self) -> str:
        return self.message


def verify(problem: PlacementProblem, plan: PlacementPlan, contiguity: str = "none") -> tuple[Violation, ...]:
    """Every broken rule of `RULES`; an empty tuple is a valid plan.

    `contiguity`: "none"; "device", the published notion, of each device alone; or "chain", which asks that
    the devices can be put in an order in which no edge leads back (and implies "device").

    A plan that is no assignment is judged all the same. Memory and support look at what a device lists. The
    rules between devices count a node where it is listed first, and one that is listed nowhere as standing alone.
    """
    if contiguity not in CONTIGUITIES:
        raise ValueError(f"unknown contiguity {show(contiguity)}; known: {', '.join(CONTIGUITIES)}")
    owner = _first_places(problem, plan)
    found = [*_devices(problem, plan), *_assignment(problem, plan), *_memory(problem, plan), *_support(problem, plan)]
    found += _colocation(problem, plan, owner)
    if contiguity == "device":
        found += _contiguous_devices(problem, plan, owner)
    elif contiguity == "chain":
        found += _contiguous_chain(problem, plan, owner)
    if any(device.subgraphs is not None for device in plan.devices):
        found += _subgraphs(problem, plan, owner)
    return tuple(found)


def _first_places(problem: PlacementProblem, plan: PlacementPlan) -> list[int]:
    """Position of the first device that lists each node; -1, -2, ...: on no device, each in a place of its own."""
    owner = [-1 - i for i in range(len(problem.nodes))]
    for d, device in enumerate(plan.devices):
        for i in _known(problem, device.nodes):
            if owner[i] < 0:
                owner[i] = d
    return owner


def _known(problem: PlacementProblem, node_ids: Sequence[NodeId]) -> list[int]:
    """Positions of the nodes, each once; unknown and repeated ones are a matter of `assignment` alone."""
    return list(dict.fromkeys(problem.index[node_id] for node_id in node_ids if node_id in problem.index))


# ---- rules about a device and its list ------------------------------------------------------------------


def _devices(problem: PlacementProblem, plan: PlacementPlan) -> Iterator[Violation]:
    for name, count in Counter(device.name for device in plan.devices).items():
        if count > 1:
            yield Violation("devices", f"The device name {show(name)} is used {count} times.")
    for device in plan.devices:
        if device.type not in DEVICE_TYPES:
            yield Violation("devices", f"Device {show(device.name)} is of the unknown type {show(device.type)}.")
    for kind, limit in (("accelerator", problem.accelerators), ("cpu", problem.cpus)):
        listed = sum(device.type == kind for device in plan.devices)
        if listed > limit:
            devices = "device" if listed == 1 else "devices"
            yield Violation("devices", f"The plan has {listed} {devices} of type {kind}, the problem only {limit}.")


def _assignment(problem: PlacementProblem, plan: PlacementPlan) -> Iterator[Violation]:
    holders: dict[NodeId, list[str]] = {}
    for device in plan.devices:
        for node_id in device.nodes:
            holders.setdefault(node_id, []).append(device.name)
    for node_id, names in holders.items():
        if node_id not in problem.index:
            yield Violation("assignment", f"Device {show(names[0])} holds the unknown node {show(node_id)}.")
        elif len(names) > 1:
            listed = ", ".join(map(show, dict.fromkeys(names)))
            yield Violation("assignment", f"Node {show(node_id)} is placed {len(names)} times (on {listed}).")
    for node in problem.nodes:
        if node.id not in holders:
            yield Violation("assignment", f"Node {show(node.id)} is on no device.")


def _memory(problem: PlacementProblem, plan: PlacementPlan) -> Iterator[Violation]:
    limit = problem.memory_bytes
    if limit is None:
        return
    for device in plan.devices:
        size = math.fsum(problem.nodes[i].size_bytes for i in _known(problem, device.nodes))
        if device.type == "accelerator" and size > limit * (1 + MEMORY_TOLERANCE):
            yield Violation(
                "memory",
                f"Device {show(device.name)} holds {size:.12g} bytes, {size - limit:.6g} more than its memory of "
                f"{limit:.12g} bytes.",
            )


def _support(problem: PlacementProblem, plan: PlacementPlan) -> Iterator[Violation]:
    for device in plan.devices:
        if device.type != "accelerator":
            continue
        for i in _known(problem, device.nodes):
            node = problem.nodes[i]
            if not node.supported:
                yield Violation(
                    "support",
                    f"Node {show(node.id)} is on accelerator {show(device.name)}, but only a CPU can run it.",
                )


# ---- rules between devices -----------------------------------------------------------------------------


def _colocation(problem: PlacementProblem, plan: PlacementPlan, owner: Sequence[int]) -> Iterator[Violation]:
    for members in problem.color_classes:
        placed = [i for i in members if owner[i] >= 0]
        other = next((i for i in placed if owner[i] != owner[placed[0]]), None)
        if other is None:
            continue
        first = problem.nodes[placed[0]]
        devices = len({owner[i] for i in placed})
        yield Violation(
            "colocation",
            f"Nodes {show(first.id)} and {show(problem.nodes[other].id)} of colour {show(first.color)} are on "
            f"{show(plan.devices[owner[placed[0]]].name)} and {show(plan.devices[owner[other]].name)}; the "
            f"{len(placed)} nodes of this colour are on {devices} devices and must share one.",
        )


def _contiguous_devices(problem: PlacementProblem, plan: PlacementPlan, owner: Sequence[int]) -> Iterator[Violation]:
    ranks = topological_ranks(problem)
    forward: list[list[int]] = [[] for _ in plan.devices]
    for i, node in enumerate(problem.nodes):
        if owner[i] >= 0 and not node.backward:
            forward[owner[i]].append(i)
    for device, held in zip(plan.devices, forward, strict=True):
        path = returning_path(problem, held, ranks)
        if path is not None:
            yield Violation(
                "contiguity-device", f"Device {show(device.name)} is not contiguous: {_path_in_words(problem, path)}."
            )


def _path_in_words(problem: PlacementProblem, path: tuple[int, int, int]) -> str:
    leaves, passes, returns = (show(problem.nodes[i].id) for i in path)
    return f"a path leaves it at node {leaves}, passes node {passes} outside and comes back at node {returns}"


def _contiguous_chain(problem: PlacementProblem, plan: PlacementPlan, owner: Sequence[int]) -> Iterator[Violation]:
    order, circle = order_or_circle(owner, stage_arcs(problem))
    if order is None:
        steps = ", ".join(_step_in_words(problem, plan, owner, arc) for arc in circle)
        yield Violation("contiguity-chain", f"The devices cannot be ordered as a chain of stages: {steps}.")


def _step_in_words(problem: PlacementProblem, plan: PlacementPlan, owner: Sequence[int], arc: Arc) -> str:
    before, after = (
        show(plan.devices[owner[i]].name) if owner[i] >= 0 else f"the unplaced node {show(problem.nodes[i].id)}"
        for i in arc
    )
    u, v = (problem.nodes[i] for i in arc)
    edge = f"edge {show(u.id)} -> {show(v.id)}"
    if u.backward:
        edge = f"backward edge {show(v.id)} -> {show(u.id)}, mirrored"
    return f"{before} must come before {after} ({edge})"


# ---- pieces of latency plans ---------------------------------------------------------------------------


def _subgraphs(problem: PlacementProblem, plan: PlacementPlan, owner: Sequence[int]) -> Iterator[Violation]:
    """Pieces partition the device's nodes; on accelerators they can be run one after the other, each as a whole.

    On CPUs, where nodes run one by one, the order of pieces asks for nothing.
    """
    ranks = topological_ranks(problem)
    sound = True
    for device in plan.devices:
        if device.subgraphs is None:
            continue
        fault = partition_fault(device)
        faults = [fault] if fault else []
        if not fault and device.type == "accelerator":
            faults = [*_broken_pieces(problem, device, ranks), *_late_producers(problem, device)]
        sound = sound and not faults
        for message in faults:
            yield Violation("subgraphs", message)
    if sound:
        keys = given_pieces(problem, plan, owner)
        circle = circle_in_words(problem, plan, units(problem, plan, owner, keys), keys)
        if circle is not None:
            yield Violation("subgraphs", f"The subgraphs wait for each other in a circle: {circle}.")


def _broken_pieces(problem: PlacementProblem, device: Device, ranks: Sequence[int]) -> Iterator[str]:
    for number, piece in enumerate(device.subgraphs or ()):
        path = returning_path(problem, _known(problem, piece), ranks)
        if path is not None:
            where = f"subgraphs[{number}] of device {show(device.name)}"
            yield f"The piece {where} is not convex: {_path_in_words(problem, path)}."


def _late_producers(problem: PlacementProblem, device: Device) -> Iterator[str]:
    """The first path, if any, from a later piece to an earlier one."""
    piece_of = {i: number for number, piece in enumerate(device.subgraphs or ()) for i in _known(problem, piece)}
    latest: dict[int, tuple[int, int]] = {}
    """Node -> the latest piece among its ancestors and itself, and a node of that piece."""
    for v in problem.topological_order:
        before = max((latest[u] for u in problem.predecessors[v] if u in latest), default=None)
        mine = piece_of.get(v)
        if mine is not None and before is not None and before[0] > mine:
            u = show(problem.nodes[before[1]].id)
            yield (
                f"The piece subgraphs[{mine}] of device {show(device.name)} runs before subgraphs[{before[0]}], but "
                f"its node {show(problem.nodes[v].id)} needs node {u} of that later piece."
            )
            return
        place = before if mine is None else (mine, v)
        if place is not None:
            latest[v] = place
