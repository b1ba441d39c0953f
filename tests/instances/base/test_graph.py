"""Graphs by position: components and their order, against networkx."""

from __future__ import annotations

import random

import networkx as nx
import pytest

from pipeplan.instances.base.graph import strong_components


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
