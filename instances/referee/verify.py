"""What is wrong with a split, rule by rule, one sentence each."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from ..placement import NodeId, PlacementProblem
from ..plan import Device, PlacementPlan
from .stages import order_or_cycle, returning_path, stage_arcs

MEMORY_TOLERANCE = 1e-9
"""Relative: sizes are sums of floats."""

CONTIGUITIES = ("none", "device", "chain")


@dataclass(frozen=True, slots=True)
class Violation:
    """A broken rule, by its stable name, and how it is broken."""

    rule: str
    message: str

    def __str__(self) -> str:
        return self.message


def verify(problem: PlacementProblem, plan: PlacementPlan, contiguity: str = "none") -> tuple[Violation, ...]:
    """Every broken rule: assignment, devices, memory, support, colocation, contiguity, subgraphs.

    `contiguity`: "none"; "device", the published notion, of each device alone; or "chain", which asks that
    the devices can be put in an order in which no edge leads back.
    """
    if contiguity not in CONTIGUITIES:
        raise ValueError(f"unknown contiguity {contiguity!r}; known: {', '.join(CONTIGUITIES)}")
    found = [*_devices(problem, plan), *_assignment(problem, plan), *_memory(problem, plan), *_support(problem, plan)]
    found += _colocation(problem, plan)
    if contiguity == "device":
        found += _contiguous_devices(problem, plan)
    elif contiguity == "chain":
        found += _contiguous_chain(problem, plan)
    found += _subgraphs(problem, plan)
    return tuple(found)


def _known(problem: PlacementProblem, device: Device) -> list[int]:
    """Positions of the device's nodes; unknown ones are a matter of `assignment` alone."""
    return [problem.index[node_id] for node_id in device.nodes if node_id in problem.index]


def _owners(problem: PlacementProblem, plan: PlacementPlan) -> dict[int, int]:
    """Position of a node -> position of (the last of) its devices."""
    return {i: d for d, device in enumerate(plan.devices) for i in _known(problem, device)}


def _devices(problem: PlacementProblem, plan: PlacementPlan) -> Iterator[Violation]:
    names = Counter(device.name for device in plan.devices)
    for name, count in names.items():
        if count > 1:
            yield Violation("devices", f"The device name {name!r} is used {count} times.")
    limits = {"accelerator": problem.accelerators, "cpu": problem.cpus}
    for device in plan.devices:
        if device.type not in limits:
            yield Violation("devices", f"Device {device.name!r} is of the unknown type {device.type!r}.")
    for kind, limit in limits.items():
        listed = sum(device.type == kind for device in plan.devices)
        if listed > limit:
            yield Violation("devices", f"The plan has {listed} devices of type {kind}, the problem only {limit}.")


def _assignment(problem: PlacementProblem, plan: PlacementPlan) -> Iterator[Violation]:
    holders: dict[NodeId, list[str]] = {}
    for device in plan.devices:
        for node_id in device.nodes:
            holders.setdefault(node_id, []).append(device.name)
    for node_id, names in holders.items():
        if node_id not in problem.index:
            yield Violation("assignment", f"Device {names[0]!r} holds the unknown node {node_id!r}.")
        elif len(names) > 1:
            listed = ", ".join(repr(name) for name in names)
            yield Violation("assignment", f"Node {node_id!r} is placed {len(names)} times (on {listed}).")
    for node in problem.nodes:
        if node.id not in holders:
            yield Violation("assignment", f"Node {node.id!r} is on no device.")


def _memory(problem: PlacementProblem, plan: PlacementPlan) -> Iterator[Violation]:
    limit = problem.memory_bytes
    if limit is None:
        return
    for device in plan.devices:
        size = math.fsum(problem.nodes[i].size_bytes for i in _known(problem, device))
        if device.type != "cpu" and size > limit * (1 + MEMORY_TOLERANCE):
            yield Violation(
                "memory",
                f"Device {device.name!r} holds {size:.12g} bytes, {size - limit:.6g} more than its memory of "
                f"{limit:.12g} bytes.",
            )


def _support(problem: PlacementProblem, plan: PlacementPlan) -> Iterator[Violation]:
    for device in plan.devices:
        if device.type != "cpu":
            for i in _known(problem, device):
                if not problem.nodes[i].supported:
                    yield Violation(
                        "support",
                        f"Node {problem.nodes[i].id!r} is on accelerator {device.name!r}, which does not support it.",
                    )


def _colocation(problem: PlacementProblem, plan: PlacementPlan) -> Iterator[Violation]:
    owner = _owners(problem, plan)
    for members in problem.color_classes:
        placed = [i for i in members if i in owner]
        other = next((i for i in placed if owner[i] != owner[placed[0]]), None)
        if other is not None:
            first = placed[0]
            yield Violation(
                "colocation",
                f"Nodes {problem.nodes[first].id!r} and {problem.nodes[other].id!r} of colour "
                f"{problem.nodes[first].color!r} are on different devices "
                f"({plan.devices[owner[first]].name!r} and {plan.devices[owner[other]].name!r}).",
            )


def _contiguous_devices(problem: PlacementProblem, plan: PlacementPlan) -> Iterator[Violation]:
    for device in plan.devices:
        forward = [i for i in _known(problem, device) if not problem.nodes[i].backward]
        path = returning_path(problem, forward)
        if path is not None:
            u, v, w = (repr(problem.nodes[i].id) for i in path)
            yield Violation(
                "contiguity-device",
                f"Device {device.name!r} is not contiguous: a path leaves it at node {u}, passes node {v} "
                f"elsewhere and comes back at node {w}.",
            )


def _contiguous_chain(problem: PlacementProblem, plan: PlacementPlan) -> Iterator[Violation]:
    known = _owners(problem, plan)
    arcs = [(u, v) for u, v in stage_arcs(problem) if u in known and v in known]
    # Nodes on no device take no part: each gets a place of its own.
    owner = [known.get(i, -1 - i) for i in range(len(problem.nodes))]
    order, circle = order_or_cycle(owner, arcs)
    if order is None:
        steps = ", ".join(
            f"{plan.devices[owner[u]].name!r} before {plan.devices[owner[v]].name!r} "
            f"(nodes {problem.nodes[u].id!r} and {problem.nodes[v].id!r})"
            for u, v in circle
        )
        yield Violation("contiguity-chain", f"The devices are no chain of stages, they wait in a circle: {steps}.")


def _subgraphs(problem: PlacementProblem, plan: PlacementPlan) -> Iterator[Violation]:
    for device in plan.devices:
        if device.subgraphs is None:
            continue
        pieces = [node_id for piece in device.subgraphs for node_id in piece]
        if Counter(pieces) != Counter(device.nodes):
            yield Violation("subgraphs", f"The subgraphs of device {device.name!r} are no partition of its nodes.")
            continue
        yield from _piece_order(problem, device)


def _piece_order(problem: PlacementProblem, device: Device) -> Iterator[Violation]:
    """Pieces run one after the other, each as a whole."""
    assert device.subgraphs is not None
    piece_of: dict[int, int] = {}
    for number, piece in enumerate(device.subgraphs):
        positions = [problem.index[node_id] for node_id in piece if node_id in problem.index]
        piece_of.update(dict.fromkeys(positions, number))
        path = returning_path(problem, positions)
        if path is not None:
            leaves, passes, returns = (repr(problem.nodes[i].id) for i in path)
            yield Violation(
                "subgraphs",
                f"Subgraph {number} of device {device.name!r} is not contiguous: a path leaves it at node {leaves}, "
                f"passes node {passes} and comes back at node {returns}.",
            )
    for u, v in problem.arcs:
        if u in piece_of and v in piece_of and piece_of[u] > piece_of[v]:
            yield Violation(
                "subgraphs",
                f"Subgraph {piece_of[v]} of device {device.name!r} needs node {problem.nodes[u].id!r} of its later "
                f"subgraph {piece_of[u]}.",
            )
            return
