"""Graphs that are cut into chains, and networks as chains: nothing is lost but what the modules say."""

from __future__ import annotations

import math

import pytest

from pipeplan.instances.chain.from_workload import workload_groups, workload_to_chain
from pipeplan.instances.chain.linear import by_depth, cut_into_groups
from pipeplan.instances.networks.analytic import DEVICES, LINKS, WORKLOADS, Hardware, Layer, Link, Workload, build
from pipeplan.instances.placement.from_workload import to_placement

V100, PCIE = DEVICES["v100-pcie-16gb"], LINKS["pcie3-x16"]


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
def test_a_workload_keeps_its_work_and_parameters(name: str) -> None:
    workload = build(name)
    groups = workload_groups(workload)
    layers = [i for group in groups for i in group.members]
    assert sorted(layers) == [i for i, layer in enumerate(workload.layers) if layer.kind != "input"]
    problem = workload_to_chain(workload, V100, PCIE, gpus=4)
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


def test_every_workload_is_a_chain() -> None:
    for name in WORKLOADS:
        if "175b" not in name:
            assert workload_to_chain(build(name), V100, PCIE, gpus=2).layers > 1
