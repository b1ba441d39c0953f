"""Topological ranks of a small acyclic graph."""

from __future__ import annotations

from collections.abc import Iterable


def topological_ranks(count: int, arcs: Iterable[tuple[int, int]]) -> list[int]:
    """Rank of each node in one topological order."""
    successors: list[list[int]] = [[] for _ in range(count)]
    missing = [0] * count
    for u, v in arcs:
        successors[u].append(v)
        missing[v] += 1
    order = [v for v in range(count) if not missing[v]]
    for u in order:  # grows while it is read
        for v in successors[u]:
            missing[v] -= 1
            if not missing[v]:
                order.append(v)
    rank = [0] * count
    for place, v in enumerate(order):
        rank[v] = place
    return rank
