"""The single-stream latency of a split (specification, section 4).

All CPUs are one pool of unlimited width. An accelerator processes its pieces in order, without overlap; a piece
starts when all that it reads is in host memory, lasts as long as its load (transfers in, work, transfers out)
and delivers all results at its end. Two pieces of one accelerator exchange data through host memory, like
those of different ones: each is charged as a device of its own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter

from ..placement import NodeId, PlacementProblem
from ..plan import PlacementPlan
from .evaluate import device_of_nodes


@dataclass(frozen=True, slots=True)
class Piece:
    """One uninterrupted run of an accelerator; times in the problem's time unit."""

    device: str
    nodes: tuple[NodeId, ...]
    start: float
    finish: float


@dataclass(frozen=True, slots=True)
class LatencyEvaluation:
    """`latency` is None where the pieces wait for each other in a circle; `reason` then says so."""

    latency: float | None
    finish: dict[NodeId, float]
    pieces: tuple[Piece, ...]
    reason: str | None = None


def evaluate_latency(problem: PlacementProblem, plan: PlacementPlan) -> LatencyEvaluation:
    """Latency of the plan's subgraphs; of a plan without any, with as few pieces per device as its paths allow.

    A node begins a later piece only where a path leaves its accelerator and comes back. If pieces chosen in that way
    wait for each other in a circle, each is divided by the number of changes of device before a node, which
    cannot be circular.
    """
    owner = device_of_nodes(problem, plan)
    if any(device.subgraphs is not None for device in plan.devices):
        return _run(problem, plan, _given_pieces(problem, plan, owner))
    fewest = _run(problem, plan, _reentry_pieces(problem, plan, owner))
    if fewest.latency is not None:
        return fewest
    return _run(problem, plan, _level_pieces(problem, plan, owner))


Key = tuple[int, int]
"""(device, number of the piece on it)."""


def _given_pieces(problem: PlacementProblem, plan: PlacementPlan, owner: Sequence[int]) -> list[Key | None]:
    keys: list[Key | None] = [None if plan.devices[d].type == "cpu" else (d, 0) for d in owner]
    for d, device in enumerate(plan.devices):
        for number, piece in enumerate(device.subgraphs or ()):
            for node_id in piece:
                if device.type != "cpu":
                    keys[problem.index[node_id]] = (d, number)
    return keys


def _reentry_pieces(problem: PlacementProblem, plan: PlacementPlan, owner: Sequence[int]) -> list[Key | None]:
    """The number of returns to its accelerator on the worst path to a node."""
    busy = sorted({d for d in owner if plan.devices[d].type != "cpu"})
    keys: list[Key | None] = [None] * len(owner)
    for d in busy:
        number = [-1] * len(owner)  # of the last piece of d before or at a node; -1: none
        for v in problem.topological_order:
            before = [number[u] + (owner[v] == d and owner[u] != d and number[u] >= 0) for u in problem.predecessors[v]]
            number[v] = max(before, default=-1)
            if owner[v] == d:
                number[v] = max(number[v], 0)
                keys[v] = (d, number[v])
    return keys


def _level_pieces(problem: PlacementProblem, plan: PlacementPlan, owner: Sequence[int]) -> list[Key | None]:
    """The largest number of changes of device on a path to a node: along an edge between devices it grows."""
    level = [0] * len(owner)
    for v in problem.topological_order:
        level[v] = max((level[u] + (owner[u] != owner[v]) for u in problem.predecessors[v]), default=0)
    return [None if plan.devices[d].type == "cpu" else (d, level[v]) for v, d in enumerate(owner)]


def _run(problem: PlacementProblem, plan: PlacementPlan, keys: Sequence[Key | None]) -> LatencyEvaluation:
    """Finish times in an order in which everything waits only for what came before."""
    members: dict[Key, list[int]] = {}
    for v, key in enumerate(keys):
        if key is not None:
            members.setdefault(key, []).append(v)
    sorter: TopologicalSorter[Key | int] = TopologicalSorter()
    for v, key in enumerate(keys):
        mine: Key | int = v if key is None else key
        sources: list[Key | int] = []
        for u in problem.predecessors[v]:
            other = keys[u]
            sources.append(u if other is None else other)
        sorter.add(mine, *(source for source in sources if source != mine))
    _chain_pieces(sorter, members)
    try:
        order = list(sorter.static_order())
    except CycleError:
        return LatencyEvaluation(None, {}, (), "the subgraphs wait for each other in a circle")
    return _schedule(problem, plan, keys, members, order)


def _chain_pieces(sorter: TopologicalSorter[Key | int], members: dict[Key, list[int]]) -> None:
    """Pieces of one device run in the order of their numbers, also where numbers are left out."""
    last: dict[int, Key] = {}
    for key in sorted(members):
        if key[0] in last:
            sorter.add(key, last[key[0]])
        last[key[0]] = key


def _schedule(
    problem: PlacementProblem,
    plan: PlacementPlan,
    keys: Sequence[Key | None],
    members: dict[Key, list[int]],
    order: Sequence[Key | int],
) -> LatencyEvaluation:
    finish = [0.0] * len(keys)
    free_at: dict[int, float] = {}
    pieces = []
    for item in order:
        if isinstance(item, int):
            ready = max((finish[u] for u in problem.predecessors[item]), default=0.0)
            finish[item] = ready + problem.nodes[item].cpu_time
            continue
        held = members[item]
        outside = {u for v in held for u in problem.predecessors[v] if keys[u] != item}
        start = max((finish[u] for u in outside), default=0.0)
        start = max(start, free_at.get(item[0], 0.0))
        end = start + _piece_load(problem, held, outside, keys, item)
        for v in held:
            finish[v] = end
        free_at[item[0]] = end
        names = tuple(problem.nodes[v].id for v in held)
        pieces.append(Piece(plan.devices[item[0]].name, names, start, end))
    by_id = {node.id: finish[v] for v, node in enumerate(problem.nodes)}
    return LatencyEvaluation(max(finish), by_id, tuple(pieces))


def _piece_load(
    problem: PlacementProblem, held: Sequence[int], outside: set[int], keys: Sequence[Key | None], key: Key
) -> float:
    work = [problem.nodes[v].accelerator_time for v in held]
    received = [problem.nodes[u].transfer_time for u in outside]
    sent = [problem.nodes[v].transfer_time for v in held if any(keys[w] != key for w in problem.successors[v])]
    return math.fsum(work + received + sent)
