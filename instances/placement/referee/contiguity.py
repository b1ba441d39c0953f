"""Contiguity in its two notions: of one device alone, and of all devices, level by level, as a chain of stages."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise

from ..plan import PlacementPlan
from ..problem import PlacementProblem
from .assignment import device_of_nodes
from .tree import Tree, tree_of

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
