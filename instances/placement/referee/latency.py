"""The single-stream latency of a split.

All CPUs are one pool of unlimited width: a node starts as soon as its inputs are there. An accelerator processes
its pieces in order, without overlap; a piece starts when all that it reads from outside has finished, lasts as
long as its load (transfers in, work, transfers out) and delivers all its results at its end.

Two pieces of one accelerator exchange data through host memory, like those of different accelerators: each is
charged as a device of its own, as in the published program.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...base.fields import plain_fields
from ...base.graph import Graph
from ..plan import Device, PlacementPlan
from ..problem import NodeId, PlacementProblem
from .assignment import check_computable, device_of_nodes, time_of
from .pieces import (
    Key,
    Units,
    between_circles,
    circle_in_words,
    divided_by_level,
    fewest_pieces,
    given_pieces,
    partition_fault,
    runnable,
    units,
)
from .tree import level_facts


@dataclass(frozen=True, slots=True)
class Piece:
    """One uninterrupted run of an accelerator; times in the problem's time unit."""

    device: str
    nodes: tuple[NodeId, ...]
    start: float
    finish: float


@dataclass(frozen=True, slots=True)
class LatencyEvaluation:
    """`latency` is None where the plan's subgraphs cannot be run, or replicas take turns; `reason` then says why."""

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
    if len(problem.levels) > 1 or any(device.replicas > 1 for device in plan.devices):
        return LatencyEvaluation(
            None, {}, (), "The latency of replicas and of devices within devices is not defined."
        )
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
    factor = level_facts(problem, 1).transfer_factor
    return math.fsum(work + [factor * problem.nodes[u].transfer_time for u in (*read, *written)])
