"""Random placements are the same for the same seed, and have the traits that they promise."""

from __future__ import annotations

from typing import Any

import pytest
import random_placements
from hypothesis import given
from hypothesis import strategies as st
from random_placements import FAMILIES
from recipes.transformer import transformer

HASHES = {
    "chain": "7874f7fba65da93b", "series-parallel": "79dfaf5c06180bf9", "blocks": "7874f7fba65da93b",
    "layered": "91cbdfe55c72d34a", "dnn": "9aab9727d873c6e5", "heterogeneous": "847989ed6a462136",
    "random-dag": "52db9fe648306680",
}  # fmt: skip


@pytest.mark.parametrize("name", FAMILIES)
def test_seeds_mean_the_same_for_ever(name: str) -> None:
    """Published tables name their inputs by name and seed."""
    assert FAMILIES[name](nodes=12, seed=4).hash == HASHES[name]


@given(
    name=st.sampled_from(sorted(FAMILIES)),
    nodes=st.integers(1, 60),
    accelerators=st.integers(1, 5),
    cpus=st.integers(1, 3),
    memory_bytes=st.one_of(st.none(), st.floats(1, 1e12)),
    seed=st.integers(0, 1000),
)
def test_the_cluster_is_the_one_asked_for(name: str, **arguments: Any) -> None:
    problem = FAMILIES[name](**arguments)
    assert (problem.accelerators, problem.cpus) == (arguments["accelerators"], arguments["cpus"])
    assert problem.memory_bytes == arguments["memory_bytes"]


@given(name=st.sampled_from(sorted(FAMILIES)), nodes=st.integers(1, 40), seed=st.integers(0, 1000))
def test_the_backward_pass_mirrors_the_forward_pass(name: str, nodes: int, seed: int) -> None:
    problem = FAMILIES[name](nodes=nodes, seed=seed, training=True)
    backward = {node.id for node in problem.nodes if node.backward}
    forward_edges = {edge for edge in problem.edges if not backward & set(edge)}
    backward_edges = {edge for edge in problem.edges if backward.issuperset(edge)}
    assert backward == {f"b{node.id}" for node in problem.nodes if not node.backward}
    assert backward_edges == {(f"b{v}", f"b{u}") for u, v in forward_edges}


@pytest.mark.parametrize("name", ["chain", "series-parallel", "layered", "heterogeneous"])
def test_forward_and_backward_nodes_are_paired_by_colour(name: str) -> None:
    problem = FAMILIES[name](nodes=30, seed=3, training=True)
    for members in problem.color_classes:
        forward, backward = (problem.nodes[i] for i in members)
        assert (forward.backward, backward.backward, backward.id) == (False, True, f"b{forward.id}")


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("nodes", [1, 2, 3, 17, 150])
def test_as_many_forward_nodes_as_asked_for(name: str, nodes: int) -> None:
    problem = FAMILIES[name](nodes=nodes, seed=1)
    assert sum(not node.backward for node in problem.nodes) == nodes


def test_dnn_graphs_have_orphans_free_weights_and_skips() -> None:
    problem = random_placements.dnn(nodes=200, seed=0)
    sizes = [len(members) for members in problem.color_classes]
    assert any(node.backward and node.color is None for node in problem.nodes)
    assert min(sizes) == 1 < max(sizes)
    assert any(not node.accelerator_time for node in problem.nodes)
    assert max(map(len, problem.predecessors)) > 2


def test_tiny_problems_are_mean() -> None:
    drawn = [node for seed in range(20) for node in random_placements.random_dag(seed=seed).nodes]
    assert any(not node.supported for node in drawn)
    assert any(node.accelerator_time == 0 for node in drawn)
    assert all(float(node.accelerator_time).is_integer() for node in drawn)
    untied = [node for seed in range(20) for node in random_placements.random_dag(seed=seed, ties=False).nodes]
    assert not all(float(node.accelerator_time).is_integer() for node in untied)
    assert all(
        node.supported for seed in range(20) for node in random_placements.random_dag(seed=seed, cpus=0).nodes
    )


def test_series_parallel_graphs_branch_and_join() -> None:
    problem = random_placements.series_parallel(nodes=60, seed=0)
    assert max(map(len, problem.successors)) > 1
    assert max(map(len, problem.predecessors)) > 1
    assert sum(not row for row in problem.predecessors) == 1


def test_heterogeneous_problems_need_a_cpu() -> None:
    problem = random_placements.heterogeneous(nodes=60, seed=0)
    assert any(not node.supported for node in problem.nodes)
    assert any(node.cpu_time < node.accelerator_time for node in problem.nodes)


def test_blocks_have_as_many_ideals_as_they_say() -> None:
    """Two blocks of 2 chains of 3 nodes: (3 + 1) ** 2 ideals each inside, and what is left over is a chain."""
    problem = random_placements.blocks(nodes=17, branches=2, length=3)
    assert len(problem.edges) == 2 * (2 * 4) + 2
    ideals = {0}
    for v in problem.topological_order:
        before = sum(1 << u for u in problem.predecessors[v])
        ideals |= {ideal | 1 << v for ideal in ideals if ideal & before == before}
    assert len(ideals) == 1 + 2 * 4**2 + 1 + 2


def test_blocks_of_a_transformer_are_equal_and_its_transfers_as_dear_as_asked_for() -> None:
    problem = transformer(200, 6, seed=5, transfers=9.0)
    assert transformer(12, 6, seed=4).hash == "12b53412906e04e5"
    times = {node.id: (node.accelerator_time, node.transfer_time) for node in problem.nodes}
    first = [name for name in times if str(name).startswith("1 ")]
    assert len(first) > 30
    assert all(times[name] == times[f"2 {str(name)[2:]}"] for name in first)
    work = sum(node.accelerator_time for node in problem.nodes)
    assert sum(node.transfer_time for node in problem.nodes) == pytest.approx(9 * work, rel=0.01)
    assert ("0 output", "1 q.product") in problem.edges
    assert ("1 output", "2 attended") in problem.edges
