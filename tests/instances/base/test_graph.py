"""Graphs by position: components and their order, against networkx."""

from __future__ import annotations

import random

import networkx as nx
import pytest

from pipeplan.instances.base.graph import by_depth, cut_into_groups, strong_components


@pytest.mark.parametrize("seed", range(200))
def test_strong_components_are_those_of_networkx_in_its_lexicographic_order(seed: int) -> None:
    rng = random.Random(seed)
    count = rng.randint(1, 9)
    arcs = [(rng.randrange(count), rng.randrange(count)) for _ in range(rng.randint(0, 2 * count))]
    graph = nx.DiGraph(arcs)
    graph.add_nodes_from(range(count))
    quotient = nx.condensation(graph)
    order = nx.lexicographical_topological_sort(quotient, key=lambda c: min(quotient.nodes[c]["members"]))
    assert strong_components(count, arcs) == [sorted(quotient.nodes[c]["members"]) for c in order]


# ---- Graphs that are cut into rows of groups.


def test_a_graph_is_cut_where_one_tensor_passes() -> None:
    """0 -> 1 -> 3 -> 4 with a branch 0 -> 2 -> 3: the cuts are after 0 and after 3."""
    successors = [[1, 2], [3], [3], [4], []]
    groups = cut_into_groups(range(5), successors)
    assert [(group.members, group.sends) for group in groups] == [((0,), (0,)), ((1, 2, 3), (3,)), ((4,), ())]


def test_side_branches_end_as_soon_as_they_can() -> None:
    """0 -> 1 -> 2 and a dead end 0 -> 3, last in the given order, for which the output of 0 passes by group 1, 2."""
    successors = [[1, 3], [2], [], []]
    late = cut_into_groups([0, 1, 2, 3], successors)
    assert [(group.members, group.sends) for group in late] == [((0,), (0,)), ((1, 2), (0,)), ((3,), ())]
    early = cut_into_groups(by_depth([0, 1, 2, 3], successors), successors)
    assert [(group.members, group.sends) for group in early] == [((0,), (0,)), ((1, 3), (1,)), ((2,), ())]
