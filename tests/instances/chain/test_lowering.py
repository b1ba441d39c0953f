"""Networks, graphs and profiles as chains: nothing is lost but what the modules say."""

from __future__ import annotations

import math
import random

import pytest

from pipeplan.instances.chain.from_placement import placement_groups, placement_to_chain, profile_to_chain
from pipeplan.instances.chain.from_workload import workload_groups, workload_to_chain
from pipeplan.instances.chain.linear import by_depth, cut_into_groups
from pipeplan.instances.errors import InputError, UsageError
from pipeplan.instances.placement.from_workload import to_placement
from pipeplan.instances.placement.pipedream import parse_profile
from pipeplan.instances.placement.problem import Node, PlacementProblem
from pipeplan.instances.workloads import DEVICES, LINKS, WORKLOADS, Hardware, Layer, Link, Workload, build

V100, PCIE = DEVICES["v100-16gb"], LINKS["pcie3-x16"]


# ---- cutting -------------------------------------------------------------------------------------------


def test_a_graph_is_cut_where_one_tensor_passes() -> None:
    """0 -> 1 -> 3 -> 4 with a branch 0 -> 2 -> 3: the cuts are after 0 and after 3."""
    successors = [[1, 2], [3], [3], [4], []]
    groups = cut_into_groups(range(5), successors)
    assert [(group.members, group.sends) for group in groups] == [((0,), (0,)), ((1, 2, 3), (3,)), ((4,), ())]


def test_more_cuts_where_more_tensors_may_pass() -> None:
    successors = [[1, 2], [3], [3], [4], []]
    groups = cut_into_groups(range(5), successors, passing=2)
    assert [group.sends for group in groups] == [(0,), (0, 1), (1, 2), (3,), ()]


def test_side_branches_end_as_soon_as_they_can() -> None:
    """0 -> 1 -> 2 and a dead end 0 -> 3, last in the given order, for which the output of 0 passes by group 1, 2."""
    successors = [[1, 3], [2], [], []]
    late = cut_into_groups([0, 1, 2, 3], successors)
    assert [(group.members, group.sends) for group in late] == [((0,), (0,)), ((1, 2), (0,)), ((3,), ())]
    early = cut_into_groups(by_depth([0, 1, 2, 3], successors), successors)
    assert [(group.members, group.sends) for group in early] == [((0,), (0,)), ((1, 3), (1,)), ((2,), ())]


# ---- workloads -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "blocks"), [("resnet18", 10), ("resnet34", 18), ("resnet50", 18), ("vgg16", 16)])
def test_residual_networks_are_chains_of_their_blocks(name: str, blocks: int) -> None:
    assert len(workload_groups(build(name))) == blocks


@pytest.mark.parametrize("name", ["resnet18", "resnet50", "inception_v3", "bert-base", "gnmt"])
@pytest.mark.parametrize("grain", ["blocks", "cuts"])
def test_a_workload_keeps_its_work_and_parameters(name: str, grain: str) -> None:
    workload = build(name)
    groups = workload_groups(workload, grain)  # type: ignore[arg-type]
    layers = [i for group in groups for i in group.members]
    assert sorted(layers) == [i for i, layer in enumerate(workload.layers) if layer.kind != "input"]
    problem = workload_to_chain(workload, V100, PCIE, gpus=4, grain=grain)  # type: ignore[arg-type]
    assert sum(problem.weights) == workload.parameters * workload.element_bytes
    placed = to_placement(workload, V100, PCIE, accelerators=4, training=True)
    assert sum(problem.durations) == pytest.approx(sum(node.accelerator_time for node in placed.nodes), abs=1e-3)


def test_resnet18_passes_the_feature_maps_of_the_paper() -> None:
    """Batch 8, 4 bytes: the image, then 64 x 56 x 56 after the stem and halved maps with doubled channels."""
    problem = workload_to_chain(build("resnet18", 8), V100, PCIE, gpus=4)
    maps = [3 * 224**2, *[64 * 56**2] * 3, *[128 * 28**2] * 2, *[256 * 14**2] * 2, 512 * 7**2, 512, 1000]
    assert problem.activations[:11] == tuple(8 * 4 * size for size in maps)
    assert problem.activations[10:] == problem.activations[10::-1]
    assert problem.time_unit == "ms"
    assert problem.edge_times[0] == pytest.approx(1e3 * 8 * 4 * 64 * 56**2 / 15.75e9)
    assert problem.memory_bytes == V100.memory_bytes


HAND = Workload(
    "hand",
    (
        Layer("image", "input", (), 0, 0, 10),
        Layer("a", "conv", ("image",), 1e3, 5, 20),
        Layer("relu", "relu", ("a",), 0, 0, 20),
        Layer("left", "conv", ("relu",), 2e3, 7, 30),
        Layer("right", "conv", ("relu",), 3e3, 0, 30),
        Layer("sum", "add", ("left", "right"), 0, 0, 40),
    ),
    batch=2,
    element_bytes=4,
)
SLOW = Hardware("slow", 1e6, 1e6, 1e30, 1e9, efficiency=1.0, launch_s=0.0)
"""A thousand operations take a ms."""


def test_a_network_by_hand() -> None:
    problem = workload_to_chain(HAND, SLOW, Link("link", 8e3), gpus=2, memory_bytes=math.inf)
    assert problem.forward == (2, 10)
    assert problem.backward == (4, 2 * 2 * 2 + 2 * 3)  # layers with parameters work twice
    assert problem.activations == (80, 160, 320, 160, 80)
    assert problem.weights == (20, 28)
    assert problem.edge_times == (20, 0, 20)
    assert problem.memory_bytes is None


def test_tensors_inside_a_group_can_be_counted_with_its_input() -> None:
    """a inside the first group, left and right inside the second; transfers take as long as before."""
    problem = workload_to_chain(HAND, SLOW, Link("link", 8e3), gpus=2, inner=True)
    assert problem.activations == (80 + 160, 160 + 240 + 240, 320, 160, 80)
    assert problem.edge_times == (20, 0, 20)


def test_an_unknown_grain_names_the_known_ones() -> None:
    with pytest.raises(UsageError, match="give one of blocks, cuts"):
        workload_to_chain(HAND, V100, PCIE, gpus=2, grain="dust")  # type: ignore[arg-type]


def test_every_workload_is_a_chain() -> None:
    for name in WORKLOADS:
        if "175b" not in name:
            assert workload_to_chain(build(name), V100, PCIE, gpus=2).layers > 1


# ---- placement problems --------------------------------------------------------------------------------

NODES = (
    Node("a", 1, 9, 100, 2, color="A"),
    Node("b", 2, 9, 200, 3, color="B"),
    Node("c", 4, 9, 400, 0, color="C"),
    Node("c'", 5, 9, 10, 6, backward=True, color="C"),
    Node("b'", 6, 9, 20, 7, backward=True, color="B"),
    Node("a'", 7, 9, 30, 0, backward=True, color="A"),
)
EDGES = (("a", "b"), ("b", "c"), ("c", "c'"), ("c'", "b'"), ("b'", "a'"))
GRAPH = PlacementProblem(NODES, EDGES, accelerators=2, cpus=0, memory_bytes=1000)


def test_a_graph_that_is_a_chain_becomes_that_chain() -> None:
    problem = placement_to_chain(GRAPH)
    assert (problem.forward, problem.backward) == ((1, 2, 4), (7, 6, 5))
    assert problem.weights == (130, 220, 410)
    assert problem.weight_copies == 1
    assert problem.edge_times == (2, 3, 0, 6, 7)
    assert set(problem.activations) == {0}
    assert (problem.gpus, problem.memory_bytes) == (2, 1000)


def test_a_bandwidth_turns_transfer_times_into_sizes() -> None:
    problem = placement_to_chain(GRAPH, gpus=3, bandwidth=10)
    assert problem.activations == (0, 20, 30, 0, 60, 70, 0)
    assert problem.edge_times == (2, 3, 0, 6, 7)
    assert problem.gpus == 3


def test_backward_nodes_without_a_colour_go_with_their_neighbours() -> None:
    plain = tuple(Node(n.id, n.accelerator_time, 9, n.size_bytes, n.transfer_time, backward=n.backward) for n in NODES)
    coloured = (*plain[:3], NODES[3], plain[4], plain[5])
    graph = GRAPH.replace(nodes=(*plain[:2], NODES[2], *coloured[3:]))
    groups = placement_groups(graph)
    assert [group.members for group in groups] == [(0,), (1,), (2, 3, 4, 5)]
    assert sum(placement_to_chain(graph).durations) == 25


def test_groups_that_share_a_colour_become_one() -> None:
    tied = tuple(Node(n.id, 1, 1, color="X" if n.id in ("a", "b") else None, backward=n.backward) for n in NODES)
    assert placement_groups(GRAPH.replace(nodes=tied))[0].members[:2] == (0, 1)
    assert placement_to_chain(GRAPH.replace(nodes=tied)).layers == 2


def test_an_inference_graph_has_no_backward_times() -> None:
    graph = PlacementProblem(NODES[:3], EDGES[:2], accelerators=2, cpus=0)
    problem = placement_to_chain(graph)
    assert problem.backward == (0, 0, 0)
    assert problem.edge_times == (2, 3, 0, 0, 0)


def test_random_graphs_keep_their_work_and_order() -> None:
    """Every node is in one group, and forward edges never lead back."""
    rng = random.Random(5)
    for _ in range(60):
        size = rng.randint(1, 14)
        edges = [(i, j) for j in range(size) for i in range(j) if rng.random() < 2 / (j - i + 2)]
        readers = {i for i, _ in edges}
        nodes = tuple(Node(i, rng.randint(0, 9), 1, 1, rng.randint(1, 5) if i in readers else 0) for i in range(size))
        graph = PlacementProblem(nodes, tuple(edges), accelerators=2, cpus=0)
        passing = rng.randint(1, 3)
        groups = placement_groups(graph, passing)
        group_of = {i: g for g, group in enumerate(groups) for i in group.members}
        assert sorted(i for group in groups for i in group.members) == list(range(size))
        assert all(group_of[i] <= group_of[j] for i, j in edges)
        for g, group in enumerate(groups[:-1]):
            assert set(group.sends) == {i for i, j in edges if group_of[i] <= g < group_of[j]}
            assert len(group.sends) <= passing
        assert sum(placement_to_chain(graph, passing=passing).forward) == sum(node.accelerator_time for node in nodes)


def test_what_only_cpus_run_is_refused() -> None:
    graph = PlacementProblem((Node("a", 1, 1, supported=False),), (), 1, 1)
    with pytest.raises(InputError, match=r"nodes\[0\].supported is false for node 'a'"):
        placement_to_chain(graph)


# ---- profiles ------------------------------------------------------------------------------------------

PROFILE = """\
node0 -- Input0 -- forward_compute_time=0.000, backward_compute_time=0.000, activation_size=1000.0, parameter_size=0.0
node1 -- Conv -- forward_compute_time=1.000, backward_compute_time=2.000, activation_size=400.0, parameter_size=10.0
node2 -- Left -- forward_compute_time=2.000, backward_compute_time=3.000, activation_size=300.0, parameter_size=20.0
node3 -- Right -- forward_compute_time=3.000, backward_compute_time=5.000, activation_size=300.0, parameter_size=30.0
node4 -- Sum -- forward_compute_time=4.000, backward_compute_time=7.000, activation_size=200.0, parameter_size=0.0
\tnode0 -- node1
\tnode1 -- node2
\tnode1 -- node3
\tnode2 -- node4
\tnode3 -- node4
"""


def test_a_profile_keeps_its_sizes() -> None:
    problem = profile_to_chain(parse_profile(PROFILE), gpus=2, bandwidth=1e5, memory_bytes=5000, name="hand")
    assert (problem.forward, problem.backward) == ((1, 9), (2, 15))
    assert problem.activations == (1000, 400, 200, 400, 1000)
    assert problem.weights == (10, 50)
    assert problem.edge_times == (4, 0, 4)  # 100 bytes per ms
    assert (problem.name, problem.time_unit, problem.memory_bytes) == ("hand", "ms", 5000)


def test_a_profile_without_a_bandwidth_has_free_transfers() -> None:
    assert not profile_to_chain(parse_profile(PROFILE), gpus=2).has_transfers
