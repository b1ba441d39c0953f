"""Series-parallel decomposition: what is recognised, what is contracted, and that every DAG comes to an end."""

from __future__ import annotations

import random
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from problems.graph_pipelines import series_parallel_arcs

from pipeplan.instances.graph_pipeline.series_parallel import (
    Leaf,
    Parallel,
    Series,
    Tree,
    contracted,
    decompose,
    depth,
    leaves,
    operators,
)

Arcs = list[tuple[int, int]]


def test_branches_between_a_fork_and_a_join_and_a_chain_with_a_skip_connection() -> None:
    chain = Series((Leaf((0,)), Leaf((1,)), Leaf((2,))))
    assert decompose(3, [(0, 1), (1, 2)]) == decompose(3, [(0, 1), (1, 2), (0, 2)]) == chain
    tree = decompose(5, [(0, 1), (0, 2), (2, 3), (1, 4), (3, 4)])
    assert tree == Series((Leaf((0,)), Parallel((Leaf((1,)), Series((Leaf((2,)), Leaf((3,)))))), Leaf((4,))))


def test_the_n_graph_keeps_two_operators_together() -> None:
    """a -> c, a -> d, b -> d is the smallest graph that is not series-parallel."""
    tree = decompose(4, [(0, 2), (0, 3), (1, 3)])
    assert contracted(tree) == ((0, 1),) or contracted(tree) == ((2, 3),)


def test_only_the_ends_of_a_cross_link_between_branches_are_contracted() -> None:
    """Two branches of ten operators with one arc across: two operators are kept together, not twenty."""
    chains = [(i, i + 1) for i in range(9)] + [(i, i + 1) for i in range(10, 19)]
    assert [len(region) for region in contracted(decompose(20, [*chains, (4, 15)]))] == [2]


def test_what_is_not_series_parallel_is_kept_whole_between_the_rest() -> None:
    """The n graph of operators 0 to 3, after operator 4 and before operator 5."""
    tree = decompose(6, [(4, 0), (4, 1), (0, 2), (0, 3), (1, 3), (2, 5), (3, 5)])
    assert tree == Series((Leaf((4,)), Leaf((0, 1)), Parallel((Leaf((2,)), Leaf((3,)))), Leaf((5,))))


def test_deep_nesting_needs_no_recursion() -> None:
    """Each level: one operator, then one beside all the rest."""
    arcs = [(v, w) for v in range(0, 1400, 2) for w in (v + 1, v + 2)]
    tree = decompose(1401, arcs)
    assert sorted(operators(tree)) == list(range(1401))
    assert depth(tree) > 1000
    assert not contracted(tree)


@st.composite
def dags(draw: st.DrawFn) -> tuple[int, Arcs]:
    count = draw(st.integers(1, 12))
    pairs = list(combinations(range(count), 2))
    return count, draw(st.lists(st.sampled_from(pairs), unique=True)) if pairs else []


def reachable(count: int, arcs: Arcs) -> set[tuple[int, int]]:
    """All pairs (u, v) with a path from u to v; arcs lead from smaller to larger vertices."""
    pairs = set(arcs)
    for middle in range(count):
        for u in range(middle):
            pairs |= {(u, v) for v in range(middle + 1, count) if (u, middle) in pairs and (middle, v) in pairs}
    return pairs


def is_convex(vertices: set[int], paths: set[tuple[int, int]], count: int) -> bool:
    return not any(
        any((u, w) in paths for u in vertices) and any((w, v) in paths for v in vertices)
        for w in set(range(count)) - vertices
    )


def nodes_of(tree: Tree) -> list[Tree]:
    return [tree] if isinstance(tree, Leaf) else [tree, *(x for child in tree.children for x in nodes_of(child))]


@given(dags())
def test_leaves_partition_the_operators_and_runs_and_subsets_of_children_are_convex(dag: tuple[int, Arcs]) -> None:
    count, arcs = dag
    paths, tree = reachable(count, arcs), decompose(count, arcs)
    assert sorted(v for leaf in leaves(tree) for v in leaf.operators) == list(range(count))
    for node in nodes_of(tree):
        if isinstance(node, Leaf):
            assert is_convex(set(node.operators), paths, count)
            continue
        groups = [node.children[i:j] for i, j in combinations(range(len(node.children) + 1), 2)]
        if isinstance(node, Parallel):
            groups += [(a, b) for a, b in combinations(node.children, 2)]
        for group in groups:
            assert is_convex({v for child in group for v in operators(child)}, paths, count)


@given(dags())
def test_series_children_are_ordered_parallel_children_unrelated_and_both_maximal(dag: tuple[int, Arcs]) -> None:
    count, arcs = dag
    paths = reachable(count, arcs)
    for node in nodes_of(decompose(count, arcs)):
        if isinstance(node, Leaf):
            continue
        assert not any(isinstance(child, type(node)) for child in node.children)
        for left, right in combinations(node.children, 2):
            for u, v in ((u, v) for u in operators(left) for v in operators(right)):
                if isinstance(node, Series):
                    # A contracted leaf is after its neighbours as a whole, so its members one by one need not be.
                    assert (v, u) not in paths
                else:
                    assert not {(u, v), (v, u)} & paths


@pytest.mark.parametrize("seed", range(60))
def test_graphs_built_in_series_and_parallel_are_recognised(seed: int) -> None:
    rng = random.Random(seed)
    count = rng.randint(1, 25)
    arcs = series_parallel_arcs(count, rng)
    extra = [pair for pair in reachable(count, arcs) if rng.random() < 0.2]
    names = list(range(count))
    rng.shuffle(names)
    tree = decompose(count, [(names[u], names[v]) for u, v in {*arcs, *extra}])
    assert not contracted(tree)
    assert len(list(leaves(tree))) == count
