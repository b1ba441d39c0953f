"""Graphs as lists of neighbours by position: what the problem's own structure is computed with."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from .errors import InputError, show

SHOWN_CYCLE = 8
"""Nodes of a cycle that an error message names."""


def adjacency(count: int, arcs: Iterable[tuple[int, int]]) -> tuple[tuple[int, ...], ...]:
    lists: list[list[int]] = [[] for _ in range(count)]
    for u, v in arcs:
        lists[u].append(v)
    return tuple(map(tuple, lists))


def topological_order(successors: Sequence[Sequence[int]]) -> tuple[int, ...] | None:
    """Positions with every arc pointing forward, or None where there is a cycle."""
    missing = [0] * len(successors)
    for targets in successors:
        for v in targets:
            missing[v] += 1
    ready = [v for v in range(len(successors) - 1, -1, -1) if not missing[v]]
    order = []
    while ready:
        u = ready.pop()
        order.append(u)
        for v in reversed(successors[u]):
            missing[v] -= 1
            if not missing[v]:
                ready.append(v)
    return tuple(order) if len(order) == len(successors) else None


def find_cycle(successors: Sequence[Sequence[int]]) -> list[int]:
    """Some cycle, first node repeated at the end; the graph has one."""
    state = [0] * len(successors)  # 0 new, 1 on the path, 2 done
    for root in range(len(successors)):
        if state[root]:
            continue
        path, iterators = [root], [iter(successors[root])]
        state[root] = 1
        while path:
            v = next(iterators[-1], None)
            if v is None:
                state[path.pop()] = 2
                iterators.pop()
            elif state[v] == 1:
                return [*path[path.index(v) :], v]
            elif state[v] == 0:
                state[v] = 1
                path.append(v)
                iterators.append(iter(successors[v]))
    raise AssertionError("called on an acyclic graph")


def check_acyclic(ids: Sequence[object], successors: Sequence[Sequence[int]]) -> None:
    """An `InputError` that names the nodes of a cycle, where there is one."""
    if topological_order(successors) is not None:
        return
    cycle = [show(ids[i]) for i in find_cycle(successors)]
    if len(cycle) > SHOWN_CYCLE:
        cycle = [*cycle[: SHOWN_CYCLE - 2], f"({len(cycle) - SHOWN_CYCLE} more)", cycle[-1]]
    raise InputError(
        "edges", f"contain the cycle {' -> '.join(cycle)}", "remove one of its edges: the graph must be acyclic"
    )
