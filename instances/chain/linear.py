"""A graph cut into a chain of groups: between two groups few tensors pass, one unless more are allowed.

Nodes are taken in a given topological order, which can be cut after a position if the edges that cross there come
from few enough nodes. Each run of nodes between two cuts becomes a group. With one tensor, the cuts are at the nodes
that every path passes. A tensor that is read beyond the next group passes through all groups on its way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Group:
    """Nodes that become one layer of the chain, and the nodes whose outputs cross to the next group."""

    members: tuple[int, ...]
    sends: tuple[int, ...]


def cut_into_groups(order: Sequence[int], successors: Sequence[Sequence[int]], passing: int = 1) -> list[Group]:
    """The finest chain of groups in this order with at most `passing` tensors at a cut."""
    place = {node: i for i, node in enumerate(order)}
    last_reader = {node: max((place[v] for v in successors[node] if v in place), default=-1) for node in order}
    groups: list[Group] = []
    members: list[int] = []
    crossing: list[int] = []
    for i, node in enumerate(order):
        members.append(node)
        crossing = [u for u in (*crossing, node) if last_reader[u] > i]
        if i + 1 == len(order) or 1 <= len(crossing) <= passing:
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
