"""PipeDream's partitioner: the graph is contracted to a path at its articulation points, the path is cut optimally.

The published script ignores memory unless asked to check it. This planner always ignores it: its plans may need more
memory than there is, and then the referee and a message say so.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import TYPE_CHECKING

from ....instances.base.result import Stop
from ...contract import Outcome, Request
from ..groups import Incumbent, groups_of
from .linear_dp import MAX_GROUPS, best_cuts, too_many

if TYPE_CHECKING:
    import networkx as nx


class PipeDream:
    def plan(self, request: Request) -> Outcome:
        groups = groups_of(request, contiguous=True)
        boundless = replace(groups, memory=None)
        incumbent = Incumbent(request, boundless)
        if groups.count > MAX_GROUPS:
            return too_many(incumbent, MAX_GROUPS)
        busy = [fast + slow for fast, slow in zip(groups.work, groups.cpu_work, strict=True)]
        blocks = contract_to_path(groups.arcs, groups.work, busy)
        borders = [0, *accumulate(len(block) for block in blocks)]
        device_of = best_cuts(boundless, [g for block in blocks for g in block], borders)
        messages = []
        if device_of is None:
            messages.append("the path cannot be cut so that every piece has a device that supports it")
        else:
            incumbent.offer(device_of)
            if not groups.fits(device_of):
                messages.append("the plan exceeds the accelerators' memory, which PipeDream's partitioner ignores")
        return incumbent.outcome(Stop.COMPLETED, *messages)


PLANNER = PipeDream()


def contract_to_path(
    arcs: Iterable[tuple[int, int]], work: Sequence[float], busy: Sequence[float]
) -> list[list[int]]:
    """Blocks of groups, one after the other: articulation points of the graph, and all that branches between two.

    Inputs and outputs that keep no device `busy` (masks, states) are no stations of the path: they go with their first
    reader or their last producer. Left in, one mask that every layer reads would make the whole network one block.
    """
    import networkx as nx

    graph: nx.DiGraph[int] = nx.DiGraph()
    graph.add_nodes_from(range(len(work)))
    graph.add_edges_from(arcs)
    ends = [g for g in graph if not (graph.in_degree(g) and graph.out_degree(g))]
    idle = [g for g in ends if not busy[g]]
    core = graph.subgraph(set(graph) - set(idle))
    blocks = [block for part in nx.weakly_connected_components(core) for block in _path(work, core.subgraph(part))]
    return _with_idle(graph, idle, blocks or [[]])


def _with_idle(graph: nx.DiGraph[int], idle: Sequence[int], blocks: Sequence[Sequence[int]]) -> list[list[int]]:
    """The blocks with each idle group in the block of its first reader or, without one, of its last producer."""
    block_of = {g: number for number, block in enumerate(blocks) for g in block}
    members = [list(block) for block in blocks]
    for g in idle:
        readers = [block_of[h] for h in graph.successors(g) if h in block_of]
        writers = [block_of[h] for h in graph.predecessors(g) if h in block_of]
        members[min(readers, default=max(writers, default=0))].append(g)
    return members


def _path(work: Sequence[float], graph: nx.DiGraph[int]) -> list[list[int]]:
    """The blocks of one connected part, along its heaviest path.

    Stations of the path stand at odd coordinates. A branch between two stations stretches over all coordinates between
    them; one that hangs on a single station stands where that station is. Stretches that overlap make up one block.
    """
    import networkx as nx

    stations = _stations(work, graph)
    places = {g: (2 * number + 1, 2 * number + 1) for number, g in enumerate(stations)}
    sides = graph.to_undirected(as_view=True)
    for branch in nx.connected_components(sides.subgraph(set(graph) - set(stations))):
        touched = [places[h][0] for g in branch for h in sides[g] if h not in branch]
        low, high = min(touched), max(touched)
        places.update(dict.fromkeys(branch, (low, high) if low == high else (low + 1, high - 1)))
    # An arc may still lead back, from a later station into a branch between earlier ones.
    stretches = [*places.values(), *((places[v][0], places[u][1]) for u, v in graph.edges)]
    joined = [0] * (2 * len(stations) + 3)
    for low, high in stretches:
        if low < high:
            joined[low] += 1
            joined[high] -= 1
    block_at = [0, *accumulate(int(not depth) for depth in accumulate(joined))]
    blocks: dict[int, list[int]] = {}
    for g in nx.topological_sort(graph):
        blocks.setdefault(block_at[places[g][0]], []).append(g)
    return [blocks[number] for number in sorted(blocks)]


def _stations(work: Sequence[float], graph: nx.DiGraph[int]) -> list[int]:
    """Both ends of the heaviest path, and the articulation points on it."""
    import networkx as nx

    length: dict[int, float] = {}
    came: dict[int, int | None] = {}
    for g in nx.topological_sort(graph):
        came[g] = max(graph.predecessors(g), key=lambda u: length[u], default=None)
        before = came[g]
        length[g] = work[g] + (0.0 if before is None else length[before])
    path = [max(length, key=lambda g: length[g])]
    while (before := came[path[-1]]) is not None:
        path.append(before)
    path.reverse()
    cuts = set(nx.articulation_points(graph.to_undirected(as_view=True))) | {path[0], path[-1]}
    return [g for g in path if g in cuts]
