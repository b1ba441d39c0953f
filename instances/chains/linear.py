"""A graph cut into a chain of groups: between two groups, one tensor passes and nothing else.

Nodes are taken in a given topological order. The order can be cut after a position if all edges that cross there
come from one node; its output is the tensor that passes. Each run of nodes between two cuts becomes a group.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Group:
    """Nodes that become one layer of the chain, and the node whose output the next group reads (None: the last)."""

    members: tuple[int, ...]
    sends: int | None


def cut_into_groups(order: Sequence[int], successors: Sequence[Sequence[int]]) -> list[Group]:
    """The finest chain of groups in this order; nodes outside the order do not count."""
    place = {node: i for i, node in enumerate(order)}
    last_reader = {node: max((place[v] for v in successors[node] if v in place), default=-1) for node in order}
    groups: list[Group] = []
    members: list[int] = []
    open_nodes: set[int] = set()
    for i, node in enumerate(order):
        members.append(node)
        open_nodes = {u for u in (*open_nodes, node) if last_reader[u] > i}
        is_last = i + 1 == len(order)
        if is_last or len(open_nodes) == 1:
            groups.append(Group(tuple(members), None if is_last else next(iter(open_nodes))))
            members = []
    return groups


def joined(groups: Sequence[Group], first: int, last: int) -> list[Group]:
    """The groups with those from `first` to `last` made one."""
    run = groups[first : last + 1]
    members = tuple(node for group in run for node in group.members)
    return [*groups[:first], Group(members, run[-1].sends), *groups[last + 1 :]]
