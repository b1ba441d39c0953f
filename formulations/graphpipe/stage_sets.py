"""The families of stages that the exact model chooses from: sets of the decomposition, or all convex sets."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache, reduce
from itertools import combinations
from operator import or_

from ...instances.base.errors import TooLargeError
from ...instances.graph_pipeline.problem import GraphPipelineProblem
from ...instances.graph_pipeline.series_parallel import Leaf, Parallel, Series, Tree, decompose, operators

# The most sets of operators: the model has a column for each set and number of devices.
MOST_SETS = 20_000


@lru_cache(maxsize=2)
def stage_sets(problem: GraphPipelineProblem, family: str) -> tuple[int, ...]:
    """All sets that may be a stage, as bit sets of operators; a `TooLargeError` where there are too many."""
    sets: set[int] = set()
    candidates = _convex_sets(problem) if family == "convex" else _tree_sets(problem)
    for members in candidates:
        sets.add(members)
        if len(sets) > MOST_SETS:
            raise TooLargeError(
                "operators",
                f"form more than {MOST_SETS} stages of the family {family!r}",
                "give --option family=series-parallel, or choose --planner graphpipe",
            )
    return tuple(sorted(sets))


def _bits(tree: Tree) -> int:
    return sum(1 << v for v in operators(tree))


def _union(parts: Iterable[int]) -> int:
    return reduce(or_, parts, 0)


def _tree_sets(problem: GraphPipelineProblem) -> Iterator[int]:
    """Leaves, runs of series children, choices of parallel children, and ends of a branch with what follows it."""
    pending: list[Tree] = [decompose(len(problem.operators), problem.arcs)]
    while pending:
        node = pending.pop()
        if isinstance(node, Leaf):
            yield _bits(node)
            continue
        pending.extend(node.children)
        parts = [_bits(child) for child in node.children]
        if isinstance(node, Parallel):
            for size in range(1, len(parts) + 1):
                yield from map(_union, combinations(parts, size))
        else:
            yield from _runs(node, parts)


def _runs(node: Series, parts: list[int]) -> Iterator[int]:
    for first, last in combinations(range(len(parts) + 1), 2):
        run = _union(parts[first:last])
        yield run
        before = node.children[first - 1] if first else None
        for branch in before.children if isinstance(before, Parallel) else ():
            row = branch.children if isinstance(branch, Series) else (branch,)
            for cut in range(len(row)):
                yield run | _union(map(_bits, row[cut:]))


def _convex_sets(problem: GraphPipelineProblem) -> Iterator[int]:
    """Grown one operator at a time: a convex set without one of its last operators is convex.

    Operators join in topological order, so every set is made once; a set is kept while nothing on a path out of it
    comes back.
    """
    order = problem.topological_order
    ancestors = [0] * len(order)
    for v in order:
        for u in problem.predecessors[v]:
            ancestors[v] |= ancestors[u] | 1 << u
    pending = [(0, 0)]
    while pending:
        members, place = pending.pop()
        for following in range(place, len(order)):
            v = order[following]
            if _stays_convex(members, v, ancestors):
                grown = members | 1 << v
                yield grown
                pending.append((grown, following + 1))


def _stays_convex(members: int, v: int, ancestors: list[int]) -> bool:
    """No operator outside lies between a member and v."""
    between = ancestors[v] & ~members
    while between:
        low = between & -between
        if ancestors[low.bit_length() - 1] & members:
            return False
        between ^= low
    return True
