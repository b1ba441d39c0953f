"""Contiguity in its two notions: of one device alone, and of all devices as a chain of stages."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise

from ..placement import NodeId, PlacementProblem
from ..plan import PlacementPlan
from .evaluate import device_of_nodes

Arc = tuple[int, int]
"""Positions (u, v) of two nodes with stage(u) <= stage(v)."""


def is_contiguous_set(problem: PlacementProblem, node_ids: Collection[NodeId]) -> bool:
    """Is there no path that leaves the set and comes back?"""
    return returning_path(problem, [problem.index[node_id] for node_id in node_ids]) is None


def returning_path(problem: PlacementProblem, held: Iterable[int]) -> tuple[int, int, int] | None:
    """Positions u, v, w of a path u -> .. -> v -> .. -> w with u and w held and v not, or None.

    In topological order every node outside learns from whom it can be reached: a held node, if any.
    """
    inside = set(held)
    if len(inside) < 2:
        return None
    came_from: dict[int, tuple[int, int]] = {}
    """For a node outside that is below a held one: (that one, the node by which the path left)."""
    for v in problem.topological_order:
        for u in problem.predecessors[v]:
            if u not in inside and u in came_from:
                if v in inside:
                    source, exit_node = came_from[u]
                    return source, exit_node, v
                came_from.setdefault(v, came_from[u])
            elif u in inside and v not in inside:
                came_from.setdefault(v, (u, v))
    return None


def stage_arcs(problem: PlacementProblem) -> tuple[Arc, ...]:
    """What a chain of stages must respect, along the edges of the contracted forward graph.

    Edges between forward nodes hold as they are. A colour class without forward nodes (an orphan) takes its
    place from its backward edges, mirrored: the backward pass runs the chain in reverse. Edges from
    forward to backward nodes ask for nothing, since every forward stage precedes every backward one.
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
    owner = device_of_nodes(problem, plan)
    order, _ = order_or_cycle(owner, stage_arcs(problem))
    if order is None:
        return None
    busy = dict.fromkeys(order)
    rest = [d for d in range(len(plan.devices)) if d not in busy]
    used = [d for d in busy if plan.devices[d].nodes]
    return tuple(plan.devices[d].name for d in (*used, *rest))


def order_or_cycle(owner: Sequence[int], arcs: Iterable[Arc]) -> tuple[list[int] | None, list[Arc]]:
    """Busy devices in stage order; or None and arcs between devices that lead around in a circle."""
    witness: dict[Arc, Arc] = {}
    sorter: TopologicalSorter[int] = TopologicalSorter()
    for device in dict.fromkeys(owner):
        sorter.add(device)
    for u, v in arcs:
        if owner[u] != owner[v]:
            sorter.add(owner[v], owner[u])
            witness.setdefault((owner[u], owner[v]), (u, v))
    try:
        return list(sorter.static_order()), []
    except CycleError as error:
        circle = error.args[1]  # each device is a predecessor of the next
        return None, [witness[pair] for pair in pairwise(circle)]
