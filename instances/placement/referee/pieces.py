"""Which nodes of an accelerator run as one uninterrupted piece, and who waits for whom."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ...base.errors import show
from ...base.graph import Graph
from ..plan import Device, PlacementPlan
from ..problem import PlacementProblem

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
    followers: list[list[int]] = [[] for _ in waits_for]
    missing = [0] * len(waits_for)
    for unit, sources in enumerate(waits_for):
        missing[unit] = len(sources)
        for source in sources:
            followers[source].append(unit)
    order = [unit for unit, count in enumerate(missing) if not count]
    for unit in order:  # grows while it is read
        for follower in followers[unit]:
            missing[follower] -= 1
            if not missing[follower]:
                order.append(follower)
    return order


def between_circles(waits_for: Sequence[Sequence[int]]) -> set[int]:
    """Units in a circle, or on a way from one circle to another."""
    followers: list[list[int]] = [[] for _ in waits_for]
    for unit, sources in enumerate(waits_for):
        for source in sources:
            followers[source].append(unit)
    return set(range(len(waits_for))).difference(runnable(waits_for), runnable(followers))


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
