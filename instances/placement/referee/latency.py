"""The single-stream latency of a split.

All CPUs are one pool of unlimited width: a node starts as soon as its inputs are there. An accelerator processes
its pieces in order, without overlap; a piece starts when all that it reads from outside has finished, lasts as
long as its load (transfers in, work, transfers out) and delivers all its results at its end.

Two pieces of one accelerator exchange data through host memory, like those of different accelerators: each is
charged as a device of its own, as in the published program.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...base.errors import show
from ...base.fields import plain_fields
from ...base.graph import Graph, adjacency, in_turn
from ..plan import Device, PlacementPlan
from ..problem import NodeId, PlacementProblem
from .structure import check_computable, device_of_nodes, time_of

# ---- which nodes of an accelerator run as one uninterrupted piece, and who waits for whom ------------

# A piece: (device, number, level). The pieces of one device run in the order of their keys.
Key = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Units:
    """What runs as a whole: a piece of an accelerator, or a single node where nothing groups it."""

    unit_of: list[int]
    """Node -> its unit."""
    members: list[list[int]]
    device: list[int | None]
    """Unit -> its accelerator; None for a node of a CPU (or of no device)."""
    waits_for: list[list[int]]
    """Unit -> the units that must finish before it starts: its producers, and the piece before it."""


def partition_fault(device: Device) -> str | None:
    """Why the device's subgraphs are no partition of its nodes, or None."""
    pieces = Counter(node_id for piece in device.subgraphs or () for node_id in piece)
    nodes = set(device.nodes)
    for node_id, count in pieces.items():
        if node_id not in nodes:
            return (
                f"The subgraphs of device {show(device.name)} hold node {show(node_id)}, which the device does not."
            )
        if count > 1:
            return f"The subgraphs of device {show(device.name)} hold node {show(node_id)} {count} times."
    missing = next((node_id for node_id in device.nodes if node_id not in pieces), None)
    if missing is not None:
        count = len(device.subgraphs or ())
        return f"Node {show(missing)} of device {show(device.name)} is in none of its {count} subgraphs."
    return None


def given_pieces(problem: PlacementProblem, plan: PlacementPlan, owner: Sequence[int]) -> list[Key | None]:
    """The pieces that the plan states for its accelerators; CPUs run nodes one by one, whatever the plan says."""
    keys: list[Key | None] = [None] * len(owner)
    for d, device in enumerate(plan.devices):
        if device.type != "accelerator":
            continue
        for number, piece in enumerate(device.subgraphs or ()):
            for i in (problem.index[node_id] for node_id in piece if node_id in problem.index):
                if owner[i] == d:
                    keys[i] = (d, number, 0)
    return keys


def units(graph: Graph, plan: PlacementPlan, owner: Sequence[int], keys: Sequence[Key | None]) -> Units:
    """Nodes of equal key become one unit; the pieces of one device wait for each other in order."""
    number: dict[Key | int, int] = {}
    unit_of = [number.setdefault(i if key is None else key, len(number)) for i, key in enumerate(keys)]
    members: list[list[int]] = [[] for _ in number]
    for i, unit in enumerate(unit_of):
        members[unit].append(i)
    waits_for = [
        list(dict.fromkeys(unit_of[u] for i in held for u in graph.predecessors[i] if unit_of[u] != unit))
        for unit, held in enumerate(members)
    ]
    last: dict[int, Key] = {}
    for key in sorted(key for key in number if isinstance(key, tuple)):
        if key[0] in last:
            waits_for[number[key]].append(number[last[key[0]]])
        last[key[0]] = key
    return Units(unit_of, members, [_accelerator(plan, owner[held[0]]) for held in members], waits_for)


def _accelerator(plan: PlacementPlan, d: int) -> int | None:
    return d if d >= 0 and plan.devices[d].type == "accelerator" else None


def runnable(waits_for: Sequence[Sequence[int]]) -> list[int]:
    """Units in an order in which each follows all that it waits for; what waits in or behind a circle is left out."""
    return in_turn(_followers(waits_for), lambda ready: ready.pop(0))


def _followers(waits_for: Sequence[Sequence[int]]) -> tuple[tuple[int, ...], ...]:
    return adjacency(
        len(waits_for), ((source, unit) for unit, sources in enumerate(waits_for) for source in sources)
    )


def between_circles(waits_for: Sequence[Sequence[int]]) -> set[int]:
    """Units in a circle, or on a way from one circle to another."""
    return set(range(len(waits_for))).difference(runnable(waits_for), runnable(_followers(waits_for)))


def fewest_pieces(
    graph: Units, order: Iterable[int], free: Iterable[int], keys: Sequence[Key | None]
) -> list[Key | None]:
    """For each free accelerator the shortest chain of convex pieces: a unit's piece is the largest number of returns
    to its accelerator on a way to it. (A way that leaves and comes back must begin a new piece, nothing else need.)
    """
    chosen = list(keys)
    order = list(order)
    for d in free:
        returns = [-1] * len(graph.members)  # -1: not behind this accelerator
        for unit in order:
            inside = graph.device[unit] == d
            for source in graph.waits_for[unit]:
                comes_back = inside and graph.device[source] != d
                returns[unit] = max(returns[unit], returns[source] + comes_back)
            if inside:
                returns[unit] = max(returns[unit], 0)
                for i in graph.members[unit]:
                    chosen[i] = (d, returns[unit], 0)
    return chosen


def divided_by_level(
    graph: Units, order: Iterable[int], free: Iterable[int], keys: Sequence[Key | None], core: set[int]
) -> list[Key | None]:
    """Pieces of free accelerators that have nodes in `core` (positions), divided so that no circle remains.

    A unit's level is the largest number of departures from an accelerator on a way to it inside the core.
    Levels never fall along a way and rise at every departure, so pieces of one level cannot wait for each
    other in a circle. The core's pieces on one device follow each other directly (what lies between two of
    them is in the core), so together they keep their place in its chain.
    """
    free = set(free)
    first: dict[int, int] = {}
    for i in core:
        key = keys[i]
        if key is not None:
            first[key[0]] = min(key[1], first.get(key[0], key[1]))
    chosen = list(keys)
    level = [0] * len(graph.members)
    inside = [members[0] in core for members in graph.members]
    for unit in order:
        if not inside[unit]:
            continue
        device = graph.device[unit]
        for source in graph.waits_for[unit]:
            if inside[source]:
                departs = graph.device[source] is not None and graph.device[source] != device
                level[unit] = max(level[unit], level[source] + departs)
        if device in free and device is not None:
            for i in graph.members[unit]:
                chosen[i] = (device, first[device], level[unit])
    return chosen


def circle_in_words(
    problem: PlacementProblem, plan: PlacementPlan, graph: Units, keys: Sequence[Key | None]
) -> str | None:
    """Who waits for whom in some circle of units, or None where there is no circle."""
    core = between_circles(graph.waits_for)
    if not core:
        return None
    path = [min(core)]
    seen = {path[0]: 0}
    while True:
        # Everything in the core waits for something in the core: keep asking, and the circle closes.
        source = next(unit for unit in graph.waits_for[path[-1]] if unit in core)
        if source in seen:
            break
        seen[source] = len(path)
        path.append(source)
    circle = [*path[seen[source] :], source]
    names = [_unit_in_words(problem, plan, keys, graph.members[unit][0]) for unit in circle]
    return " waits for ".join(names)


def _unit_in_words(problem: PlacementProblem, plan: PlacementPlan, keys: Sequence[Key | None], i: int) -> str:
    key, node = keys[i], f"node {show(problem.nodes[i].id)}"
    return node if key is None else f"subgraphs[{key[1]}] of {show(plan.devices[key[0]].name)} (with {node})"


# ---- the timetable -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Piece:
    """One uninterrupted run of an accelerator; times in the problem's time unit."""

    device: str
    nodes: tuple[NodeId, ...]
    start: float
    finish: float


@dataclass(frozen=True, slots=True)
class LatencyEvaluation:
    """`latency` is None where the plan's subgraphs cannot be run; `reason` then says why."""

    latency: float | None
    finish: Mapping[NodeId, float]
    """When each node's result is in host memory."""
    pieces: tuple[Piece, ...]
    """The pieces of each device, in processing order."""
    reason: str | None = None

    def to_json(self) -> dict[str, Any]:
        finish = [{"node": node_id, "time": time} for node_id, time in self.finish.items()]
        return {**plain_fields(self), "finish": finish}


def evaluate_latency(problem: PlacementProblem, plan: PlacementPlan) -> LatencyEvaluation:
    """Latency of the plan's subgraphs; for accelerators without any, pieces are chosen here.

    They form the shortest chain of convex pieces, so a node begins a later piece only where a way leaves its
    accelerator and comes back. Where pieces of several accelerators then wait for each other in a circle, those
    in or between circles are divided by topological level, all others stay whole. Raises
    `NotAnAssignmentError` where the plan is no assignment.
    """
    owner = device_of_nodes(problem, plan)
    check_computable(problem, plan)
    fault = next(filter(None, map(partition_fault, (d for d in plan.devices if d.subgraphs is not None))), None)
    if fault is not None:
        return LatencyEvaluation(None, {}, (), fault)
    given = given_pieces(problem, plan, owner)
    graph = units(problem, plan, owner, given)
    circle = circle_in_words(problem, plan, graph, given)
    if circle is not None:
        return LatencyEvaluation(None, {}, (), f"The subgraphs wait for each other in a circle: {circle}.")
    keys = pieces_without_circles(problem, plan, owner, given, graph)
    return _schedule(problem, plan, units(problem, plan, owner, keys), keys)


def pieces_without_circles(
    problem: Graph, plan: PlacementPlan, owner: Sequence[int], given: list[Key | None], graph: Units
) -> list[Key | None]:
    """The piece of every node of an accelerator, such that nothing waits in a circle; None for nodes of CPUs."""
    free = {d for d, device in enumerate(plan.devices) if device.type == "accelerator" and device.subgraphs is None}
    free &= set(owner)
    order = runnable(graph.waits_for)
    keys = fewest_pieces(graph, order, sorted(free), given)
    pieces = units(problem, plan, owner, keys)
    core = {i for unit in between_circles(pieces.waits_for) for i in pieces.members[unit]}
    return divided_by_level(graph, order, free, keys, core) if core else keys


def _schedule(
    problem: PlacementProblem, plan: PlacementPlan, graph: Units, keys: Sequence[Key | None]
) -> LatencyEvaluation:
    finish = [0.0] * len(graph.members)
    ran: dict[Key, Piece] = {}
    order = runnable(graph.waits_for)
    assert len(order) == len(graph.members), "pieces were chosen so that none waits in a circle"
    for unit in order:
        members = graph.members[unit]
        start = max((finish[source] for source in graph.waits_for[unit]), default=0.0)
        key = keys[members[0]]
        if key is None:
            finish[unit] = start + problem.nodes[members[0]].cpu_time
        else:
            finish[unit] = start + _load(problem, plan.devices[key[0]], graph, unit)
            nodes = tuple(problem.nodes[i].id for i in members)
            ran[key] = Piece(plan.devices[key[0]].name, nodes, start, finish[unit])
    return LatencyEvaluation(
        latency=max(finish),
        finish={node.id: finish[graph.unit_of[i]] for i, node in enumerate(problem.nodes)},
        pieces=tuple(ran[key] for key in sorted(ran)),
    )


def _load(problem: PlacementProblem, device: Device, graph: Units, unit: int) -> float:
    """The load formula of a device, with the piece as the device."""
    members, unit_of = graph.members[unit], graph.unit_of
    read = {u for i in members for u in problem.predecessors[i] if unit_of[u] != unit}
    written = [i for i in members if any(unit_of[v] != unit for v in problem.successors[i])]
    work = [time_of(problem, device, i) for i in members]
    return math.fsum(work + [problem.nodes[u].transfer_time for u in (*read, *written)])
