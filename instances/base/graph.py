"""Graphs as lists of neighbours by position: the structure of every problem that has one."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from heapq import heappop, heappush
from itertools import chain

from .checks import NodeId, check_id
from .errors import InputError, show

# Nodes of a cycle that an error message names.
SHOWN_CYCLE = 8


class Graph:
    """What follows from the nodes and edges of a problem: positions instead of ids, computed once."""

    @property
    def ids(self) -> Sequence[NodeId]:
        """Ids of the nodes, in the order of the input."""
        raise NotImplementedError

    @property
    def ends(self) -> Iterable[tuple[NodeId, NodeId]]:
        """Sources and targets of the edges, in the order of the input."""
        raise NotImplementedError

    @cached_property
    def index(self) -> dict[NodeId, int]:
        """Position of each id."""
        return {node_id: i for i, node_id in enumerate(self.ids)}

    @cached_property
    def arcs(self) -> tuple[tuple[int, int], ...]:
        """Edges as pairs of positions, each once, in the order of the input."""
        return tuple(dict.fromkeys((self.index[source], self.index[target]) for source, target in self.ends))

    @cached_property
    def successors(self) -> tuple[tuple[int, ...], ...]:
        return adjacency(len(self.ids), self.arcs)

    @cached_property
    def predecessors(self) -> tuple[tuple[int, ...], ...]:
        return adjacency(len(self.ids), ((v, u) for u, v in self.arcs))

    @cached_property
    def topological_order(self) -> tuple[int, ...]:
        order = topological_order(self.successors)
        assert order is not None, "checked at construction"
        return order


def adjacency(count: int, arcs: Iterable[tuple[int, int]]) -> tuple[tuple[int, ...], ...]:
    """The heads of the arcs that leave each position, in the order of the arcs."""
    lists: list[list[int]] = [[] for _ in range(count)]
    for u, v in arcs:
        lists[u].append(v)
    return tuple(map(tuple, lists))


def topological_order(successors: Sequence[Sequence[int]]) -> tuple[int, ...] | None:
    """Positions with every arc pointing forward, or None where there is a cycle."""
    turned = [targets[::-1] for targets in successors]
    order = in_turn(turned, list.pop, first=range(len(successors) - 1, -1, -1))
    return tuple(order) if len(order) == len(successors) else None


def strong_components(count: int, arcs: Iterable[tuple[int, int]]) -> list[list[int]]:
    """Sorted sets of positions on common cycles, in the topological order that takes the smallest positions first."""
    distinct = {(u, v) for u, v in arcs if u != v}
    order = in_turn(adjacency(count, distinct), heappop, heappush)
    if len(order) == count:
        return [[v] for v in order]
    import networkx as nx  # needs a tenth of a second, and cycles are rare

    graph: nx.DiGraph[int] = nx.DiGraph()
    graph.add_nodes_from(range(count))
    graph.add_edges_from(distinct)
    components = sorted(sorted(component) for component in nx.strongly_connected_components(graph))
    place = {v: i for i, component in enumerate(components) for v in component}
    between = {(place[u], place[v]) for u, v in distinct if place[u] != place[v]}
    return [components[i] for i in in_turn(adjacency(len(components), between), heappop, heappush)]


def in_turn(
    after: Sequence[Sequence[int]],
    take: Callable[[list[int]], int],
    put: Callable[[list[int], int], object] = list.append,
    first: Sequence[int] | None = None,
) -> list[int]:
    """A topological order: `take` removes the next one from the list of those that are ready, and `put` adds to it.

    `after`: what comes after each; `first`: the order in which those stand that are ready at the beginning.
    """
    missing = [0] * len(after)
    for h in chain.from_iterable(after):
        missing[h] += 1
    ready = [g for g in first or range(len(after)) if not missing[g]]
    order = []
    while ready:
        order.append(take(ready))
        for h in after[order[-1]]:
            missing[h] -= 1
            if not missing[h]:
                put(ready, h)
    return order


def closed_sets(needed: Sequence[int], most: int) -> list[int] | None:
    """All sets, as bits, that hold with each member what it needs, smaller ones first; None: more than `most`."""
    seen, ordered = {0}, [0]
    for members in ordered:
        for v, others in enumerate(needed):
            larger = members | 1 << v
            if larger != members and not others & ~members and larger not in seen:
                seen.add(larger)
                ordered.append(larger)
                if len(ordered) > most:
                    return None
    return ordered


def heights_of(successors: Sequence[Sequence[int]]) -> tuple[int, ...] | None:
    """Number of nodes on the longest path that begins at each node; None where there is a cycle."""
    order = topological_order(successors)
    if order is None:
        return None
    heights = [1] * len(successors)
    for u in reversed(order):
        heights[u] = 1 + max((heights[v] for v in successors[u]), default=0)
    return tuple(heights)


def find_cycle(successors: Sequence[Sequence[int]]) -> list[int]:
    """The positions of some cycle, the first repeated at the end; the graph must have one."""
    import networkx as nx  # as for components

    graph: nx.DiGraph[int] = nx.DiGraph()
    graph.add_nodes_from(range(len(successors)))
    graph.add_edges_from((u, v) for u, targets in enumerate(successors) for v in targets)
    tails = [u for u, _ in nx.find_cycle(graph)]
    return [*tails, tails[0]]


def check_ends(where: str, ends: tuple[NodeId, NodeId], known: Container[NodeId], what: str, remedy: str) -> None:
    """Raise an InputError unless an edge joins two different nodes, both of them known."""
    for end, node_id in zip(("source", "target"), ends, strict=True):
        check_id(f"{where}.{end}", node_id)
        if node_id not in known:
            raise InputError(f"{where}.{end}", f"names the unknown {what} {show(node_id)}", remedy)
    if ends[0] == ends[1]:
        raise InputError(where, f"leads from {what} {show(ends[0])} to itself", "remove the edge")


def check_acyclic(graph: Graph) -> None:
    """Raise an `InputError` that names the nodes of a cycle, where there is one."""
    if topological_order(graph.successors) is not None:
        return
    ids = graph.ids  # each look makes them anew
    cycle = [show(ids[i]) for i in find_cycle(graph.successors)]
    if len(cycle) > SHOWN_CYCLE:
        cycle = [*cycle[: SHOWN_CYCLE - 2], f"({len(cycle) - SHOWN_CYCLE} more)", cycle[-1]]
    raise InputError(
        "edges", f"contain the cycle {' -> '.join(cycle)}", "remove one of its edges: the graph must be acyclic"
    )


# ---- rows of groups ----------------------------------------------------------------------------------
# A graph cut into a chain of groups: between two groups few tensors pass, one unless more are allowed.
#
# Nodes are taken in a given topological order, which can be cut after a position if the edges that cross there come
# from few enough nodes. Each run of nodes between two cuts becomes a group. With one tensor, the cuts are at the nodes
# that every path passes. A tensor that is read beyond the next group passes through all groups on its way.


@dataclass(frozen=True, slots=True)
class Group:
    """Nodes that become one layer of the chain, and the nodes whose outputs cross to the next group."""

    members: tuple[int, ...]
    sends: tuple[int, ...]


def cut_into_groups(order: Sequence[int], successors: Sequence[Sequence[int]]) -> list[Group]:
    """The finest chain of groups in this order with one tensor at a cut."""
    place = {node: i for i, node in enumerate(order)}
    last_reader = {node: max((place[v] for v in successors[node] if v in place), default=-1) for node in order}
    groups: list[Group] = []
    members: list[int] = []
    crossing: list[int] = []
    for i, node in enumerate(order):
        members.append(node)
        crossing = [u for u in (*crossing, node) if last_reader[u] > i]
        if i + 1 == len(order) or len(crossing) == 1:
            groups.append(Group(tuple(members), tuple(crossing)))
            members = []
    return groups


def by_depth(order: Sequence[int], successors: Sequence[Sequence[int]]) -> list[int]:
    """A topological order in which a node stands as early as its longest path allows: side branches end soon."""
    depth = dict.fromkeys(order, 0)
    for node in order:
        for reader in successors[node]:
            depth[reader] = max(depth[reader], depth[node] + 1)
    return sorted(order, key=depth.__getitem__)
