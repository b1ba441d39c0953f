"""Series-parallel decomposition of any DAG: a tree whose leaves are its operators.

A DAG is in series where every vertex of one part comes before every vertex of the next, in parallel where its parts
are not connected; children of a series or parallel node are as many as possible. Transitive arcs (skip connections)
change nothing. What is neither, nor a single vertex, is not series-parallel: there the smallest set of vertices that
stands in the way is contracted to one leaf, which stays whole, until the rest decomposes. Such leaves name more than
one operator.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

from ..base.graph import adjacency, topological_order

# Candidates for a contraction that are compared, the smallest first.
TRIED_REGIONS = 8


@dataclass(frozen=True, slots=True)
class Leaf:
    """One operator, or several that stay together because the graph between them is not series-parallel."""

    operators: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Series:
    """Every operator of a child comes before every operator of the next one."""

    children: tuple[Tree, ...]


@dataclass(frozen=True, slots=True)
class Parallel:
    """No path leads from one child to another."""

    children: tuple[Tree, ...]


Tree = Leaf | Series | Parallel


def decompose(count: int, arcs: Iterable[tuple[int, int]]) -> Tree:
    """The tree of the DAG on vertices 0..count-1; children of a parallel node come in order of their first vertex."""
    return _assemble(_skeleton(_Graph([(v,) for v in range(count)], list(arcs))))


def leaves(tree: Tree) -> Iterator[Leaf]:
    """The leaves of the tree, from left to right."""
    return (node for node, _ in _nodes(tree) if isinstance(node, Leaf))


def _nodes(tree: Tree) -> Iterator[tuple[Tree, int]]:
    """Every node with its depth, parents first and children from left to right."""
    pending = [(tree, 0)]
    while pending:
        node, level = pending.pop()
        yield node, level
        if not isinstance(node, Leaf):
            pending.extend((child, level + 1) for child in reversed(node.children))


def operators(tree: Tree) -> tuple[int, ...]:
    """All operators below, from left to right: a topological order."""
    return tuple(v for leaf in leaves(tree) for v in leaf.operators)


def contracted(tree: Tree) -> tuple[tuple[int, ...], ...]:
    """The regions that are not series-parallel; empty for a series-parallel graph."""
    return tuple(leaf.operators for leaf in leaves(tree) if len(leaf.operators) > 1)


def depth(tree: Tree) -> int:
    """Number of nodes on the longest way from the root to a leaf."""
    return 1 + max(level for _, level in _nodes(tree))


# ---- building --------------------------------------------------------------------------------------------


@dataclass
class _Graph:
    """A DAG whose vertices are disjoint sets of operators."""

    members: list[tuple[int, ...]]
    arcs: list[tuple[int, int]]

    def __len__(self) -> int:
        return len(self.members)

    def parts(self, part_of: Sequence[int], count: int) -> list[_Graph]:
        """The subgraphs of the parts; arcs between parts are dropped."""
        place = [0] * len(self)
        graphs = [_Graph([], []) for _ in range(count)]
        for v, part in enumerate(part_of):
            place[v] = len(graphs[part])
            graphs[part].members.append(self.members[v])
        for u, v in self.arcs:
            if part_of[u] == part_of[v]:
                graphs[part_of[u]].arcs.append((place[u], place[v]))
        return graphs


@dataclass
class _Node:
    """A node under construction; its children come later in the list of all nodes."""

    kind: type[Leaf] | type[Series] | type[Parallel]
    members: tuple[int, ...]
    children: list[int]


def _skeleton(graph: _Graph) -> list[_Node]:
    """Parents before children, without recursion: graphs may nest deeply."""
    nodes = [_Node(Leaf, (), [])]
    pending = [(0, graph)]
    while pending:
        index, graph = pending.pop()
        kind, parts = _split(graph)
        if kind is Leaf:
            nodes[index] = _Node(Leaf, parts[0].members[0], [])
            continue
        children = list(range(len(nodes), len(nodes) + len(parts)))
        nodes[index] = _Node(kind, (), children)
        nodes += [_Node(Leaf, (), []) for _ in parts]
        pending += zip(children, parts, strict=True)
    return nodes


def _assemble(nodes: list[_Node]) -> Tree:
    trees: list[Tree] = [Leaf(())] * len(nodes)
    for index in range(len(nodes) - 1, -1, -1):
        node = nodes[index]
        if node.kind is Leaf:
            trees[index] = Leaf(node.members)
            continue
        children = (trees[child] for child in node.children)
        if node.kind is Parallel:
            trees[index] = Parallel(tuple(children))
        else:  # a piece that fell apart only after a contraction is a series itself
            trees[index] = Series(
                tuple(y for x in children for y in (x.children if isinstance(x, Series) else (x,)))
            )
    return trees[0]


def _split(graph: _Graph) -> tuple[type[Leaf] | type[Series] | type[Parallel], list[_Graph]]:
    """One step of the decomposition: the kind of node for this graph, and the graphs of its children; where no
    step applies, regions are contracted first."""
    while len(graph) > 1:
        parts = _components(len(graph), graph.arcs)
        if len(parts) > 1:
            number = {v: part for part, members in enumerate(parts) for v in members}
            return Parallel, graph.parts([number[v] for v in range(len(graph))], len(parts))
        part_of, count = _series_parts(graph)
        if count > 1:
            return Series, graph.parts(part_of, count)
        graph = _contract(graph, _obstacle(graph))
    return Leaf, [graph]


def _components(count: int, arcs: Sequence[tuple[int, int]]) -> list[list[int]]:
    """Sorted sets of vertices that arcs connect in whichever direction, in the order of their first vertices."""
    neighbours = adjacency(count, [*arcs, *((v, u) for u, v in arcs)])
    parts: list[list[int]] = []
    new = set(range(count))
    for root in range(count):
        part = [root] if root in new else []
        new.discard(root)
        for v in part:  # grows while it is read
            fresh = new.intersection(neighbours[v])
            new -= fresh
            part += fresh
        if part:
            parts.append(sorted(part))
    return parts


def _series_parts(graph: _Graph) -> tuple[list[int], int]:
    """Pieces between the series cuts, in one pass over a topological order.

    A prefix of the order is a series cut exactly where each of its sinks has an arc to each source of the rest: a path
    from such a sink to such a source has no room for a vertex in between. So sinks, sources and the arcs between them
    are counted for all prefixes at once, from the positions at which each of them begins and ends to count.
    """
    order = topological_order(adjacency(len(graph), graph.arcs))
    assert order is not None, "the graph is acyclic"
    size = len(order)
    place = [0] * size
    for position, v in enumerate(order):
        place[v] = position
    first_out, last_in = [size] * size, [-1] * size
    for u, v in graph.arcs:
        first_out[u] = min(first_out[u], place[v])
        last_in[v] = max(last_in[v], place[u])
    sinks, sources, joined = [0] * (size + 1), [0] * (size + 1), [0] * (size + 1)

    def count(changes: list[int], begin: int, end: int) -> None:
        if begin < end:
            changes[begin] += 1
            changes[end] -= 1

    for v in range(size):
        count(sinks, place[v], first_out[v])
        count(sources, max(last_in[v], 0), place[v])
    for u, v in set(graph.arcs):
        count(joined, max(place[u], last_in[v]), min(first_out[u], place[v]))
    part_of, part = [0] * size, 0
    for position, (a, b, arcs) in enumerate(
        zip(accumulate(sinks), accumulate(sources), accumulate(joined), strict=True)
    ):
        if position < size:
            part_of[order[position]] = part
        if position < size - 1 and a * b == arcs:
            part += 1
    return part_of, part + 1


def _obstacle(graph: _Graph) -> list[int]:
    """A small set whose contraction brings the graph closest to a series-parallel one.

    Arcs of the transitive reduction that share ends form blocks. Candidates are the tails or heads of a block, with
    whatever lies between them; what is left after all series and parallel reductions says how far a candidate leads.
    """
    reach = _reachability(graph)
    blocks = _blocks(len(graph), _reduced(graph, reach))
    # Blocks in which some tail has no arc to some head are in no series-parallel graph.
    incomplete = [block for block in blocks if len(block[0]) * len(block[1]) > block[2]]
    sets = [
        ends for tails, heads, _ in incomplete or blocks for ends in (tails, heads) if incomplete or len(ends) > 1
    ]
    regions = sorted((_hull(ends, reach) for ends in sets), key=len)
    return min(regions[:TRIED_REGIONS], key=lambda region: (_core_size(_contract(graph, region)), len(region)))


def _core_size(graph: _Graph) -> int:
    """Vertices left when neighbours in a chain, and vertices with equal neighbours, are merged again and again."""
    arcs = set(_reduced(graph, _reachability(graph)))
    vertices = set(range(len(graph)))
    while True:
        before: dict[int, set[int]] = {v: set() for v in vertices}
        after: dict[int, set[int]] = {v: set() for v in vertices}
        for u, v in arcs:
            after[u].add(v)
            before[v].add(u)
        merged: dict[object, int] = {}
        renamed = {v: merged.setdefault((frozenset(before[v]), frozenset(after[v])), v) for v in sorted(vertices)}
        if len(merged) == len(vertices):
            followed = [u for u in vertices if len(after[u]) == 1 and len(before[min(after[u])]) == 1]
            if not followed:
                return len(vertices)
            leader = {min(after[u]): u for u in followed}
            for v in leader:
                while renamed[v] in leader:
                    renamed[v] = leader[renamed[v]]
        vertices = set(renamed.values())
        arcs = {(renamed[u], renamed[v]) for u, v in arcs if renamed[u] != renamed[v]}


def _reachability(graph: _Graph) -> list[int]:
    """For each vertex the bit set of those after it."""
    successors = adjacency(len(graph), graph.arcs)
    order = topological_order(successors)
    assert order is not None, "contracting a convex set leaves the graph acyclic"
    reach = [0] * len(graph)
    for u in reversed(order):
        for v in successors[u]:
            reach[u] |= reach[v] | 1 << v
    return reach


def _reduced(graph: _Graph, reach: list[int]) -> list[tuple[int, int]]:
    """The transitive reduction: the arcs u -> v without another path from u to v."""
    after: dict[int, int] = defaultdict(int)
    for u, v in graph.arcs:
        after[u] |= reach[v]
    return [(u, v) for u, v in sorted(set(graph.arcs)) if not after[u] >> v & 1]


def _blocks(count: int, arcs: list[tuple[int, int]]) -> list[tuple[list[int], list[int], int]]:
    """Arcs that share tails or heads belong together: tails, heads and number of arcs of each block."""
    leaving = Counter(u for u, _ in arcs)
    parts = _components(2 * count, [(u, count + v) for u, v in arcs])  # each vertex once as a tail, once as a head
    blocks = [([v for v in part if v < count], [v - count for v in part if v >= count]) for part in parts]
    return [(tails, heads, sum(leaving[u] for u in tails)) for tails, heads in blocks if tails and heads]


def _hull(vertices: list[int], reach: list[int]) -> list[int]:
    """The smallest convex set that holds the vertices."""
    after = 0
    for v in vertices:
        after |= reach[v]
    targets = sum(1 << v for v in vertices)
    inside = set(vertices)
    return [v for v in range(len(reach)) if v in inside or (after >> v & 1 and reach[v] & targets)]


def _contract(graph: _Graph, region: list[int]) -> _Graph:
    """The graph in which the region is one vertex, at the place of its first member."""
    inside = set(region)
    first = region[0]
    kept = [v for v in range(len(graph)) if v == first or v not in inside]
    place = {v: i for i, v in enumerate(kept)}
    place |= dict.fromkeys(region, place[first])
    members = [graph.members[v] for v in kept]
    members[place[first]] = tuple(sorted(x for v in region for x in graph.members[v]))
    arcs = {(place[u], place[v]) for u, v in graph.arcs if place[u] != place[v]}
    return _Graph(members, sorted(arcs))
