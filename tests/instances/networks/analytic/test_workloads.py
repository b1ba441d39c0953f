"""The networks against published counts, and what becomes of them as placement problems."""

from __future__ import annotations

import pytest

from pipeplan.instances.base.errors import UsageError
from pipeplan.instances.networks.analytic import DEVICES, LINKS, WORKLOADS, Layer, Workload, build
from pipeplan.instances.placement.from_workload import to_placement

EXACT_PARAMETERS = {
    "resnet18": 11_689_512,
    "resnet34": 21_797_672,
    "resnet50": 25_557_032,
    "resnet101": 44_549_160,
    "vgg16": 138_357_544,
    "inception_v3": 23_834_568,
    "inception_v3-auxiliary": 27_161_264,
    "densenet121": 7_978_856,
    "bert-base": 109_482_240,
    "bert-large": 335_141_888,
    "gpt2-small": 124_439_808,
    "gpt2-medium": 354_823_168,
    "gpt2-large": 774_030_080,
    "gpt2-xl": 1_557_611_200,
}
"""torchvision's and Hugging Face's published counts."""

ROUNDED_PARAMETERS = {
    "gpt3-1.3b": 1.3e9,
    "gpt3-2.7b": 2.7e9,
    "gpt3-6.7b": 6.7e9,
    "gpt3-13b": 13.0e9,
    "gpt3-175b": 175e9,
    "gnmt": 278e6,
    "gnmt-operators": 278e6,
}
"""Brown et al. 2020, table 2.1; Shazeer et al. 2017 for GNMT."""

GIGA_MACS = {"resnet18": 1.82, "resnet50": 4.1, "vgg16": 15.5, "inception_v3": 5.7, "densenet121": 2.87}


@pytest.mark.parametrize("name", EXACT_PARAMETERS)
def test_parameters_to_the_last_one(name: str) -> None:
    assert build(name).parameters == EXACT_PARAMETERS[name]


@pytest.mark.parametrize("name", ROUNDED_PARAMETERS)
def test_parameters_as_rounded_in_the_papers(name: str) -> None:
    assert build(name).parameters == pytest.approx(ROUNDED_PARAMETERS[name], rel=0.02)


@pytest.mark.parametrize("name", GIGA_MACS)
def test_operations(name: str) -> None:
    assert build(name).flops / 2e9 == pytest.approx(GIGA_MACS[name], rel=0.03)


JOINS = {
    "resnet18": ("add", 8),
    "resnet101": ("add", 33),
    "inception_v3": ("concat", 11),
    "densenet121": ("concat", 58),  # the first layer of each of the four blocks reads one output only
    "bert-large": ("add", 48),
    "gpt2-small-operators": ("add", 24),
    "gnmt": ("add", 12),  # from the third layer of either side on
}


@pytest.mark.parametrize("name", JOINS)
def test_paths_part_and_meet_as_in_the_papers(name: str) -> None:
    kind, count = JOINS[name]
    joins = [layer for layer in build(name).layers if layer.kind == kind]
    assert len(joins) == count
    assert all(len(layer.inputs) > 1 for layer in joins)


def test_only_vgg_is_a_chain() -> None:
    assert max(len(layer.inputs) for layer in build("vgg16").layers) == 1


def test_the_last_dense_layer_of_a_block_reads_all_before_it() -> None:
    assert len(build("densenet121").layer("block3.concat").inputs) == 25


@pytest.mark.parametrize("name", WORKLOADS)
def test_every_network_lowers_to_a_problem(name: str) -> None:
    workload = build(name, 1)
    for training in (False, True):
        problem = to_placement(
            workload, DEVICES["a100-80gb"], LINKS["pcie4-x16"], accelerators=2, cpus=1, training=training
        )
        assert len(problem.nodes) == len(workload.layers) * (2 if training else 1)
        assert problem.has_backward == training
        assert problem.time_unit == "ms"


@pytest.mark.parametrize("name", [name for name in WORKLOADS if f"{name}-operators" in WORKLOADS])
def test_operators_are_the_same_network_in_smaller_pieces(name: str) -> None:
    coarse, fine = build(name), build(f"{name}-operators")
    assert len(fine.layers) > len(coarse.layers)
    assert fine.parameters == coarse.parameters
    assert fine.flops == pytest.approx(coarse.flops, rel=0.01)


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(UsageError, match="resnet50"):
        build("resnet51")


def test_a_layer_must_come_after_what_it_reads() -> None:
    with pytest.raises(ValueError, match="does not come before"):
        Workload("w", (Layer("a", "relu", ("b",), 1.0, 0, 1),))


def small(training: bool) -> Workload:
    return Workload(
        "small",
        (
            Layer("in", "input", (), 0.0, 0, 1000),
            Layer("fc", "linear", ("in",), 2e9, 500_000, 500),
            Layer("out", "relu", ("fc",), 500.0, 0, 500),
        ),
        batch=4,
    )


def test_inference_has_one_node_per_layer_with_roofline_times() -> None:
    device, link = DEVICES["v100-pcie-16gb"], LINKS["pcie3-x16"]
    problem = to_placement(small(False), device, link, accelerators=2, cpus=1)
    nodes = {node.id: node for node in problem.nodes}
    assert list(nodes) == ["in", "fc", "out"]
    assert nodes["fc"].accelerator_time == pytest.approx(1e3 * (4 * 2e9 / (14e12 * 0.5) + 5e-6), abs=1e-6)
    assert nodes["fc"].transfer_time == pytest.approx(1e3 * 4 * 500 * 4 / 15.75e9, abs=1e-6)
    assert nodes["out"].transfer_time == 0  # nobody reads it
    assert nodes["fc"].size_bytes == 4 * 500_000 + 4 * 4 * 500
    assert problem.memory_bytes == device.memory_bytes


def test_training_mirrors_the_graph_and_pairs_layers_by_colour() -> None:
    problem = to_placement(
        small(True), DEVICES["v100-pcie-16gb"], LINKS["pcie3-x16"], accelerators=2, training=True
    )
    nodes = {node.id: node for node in problem.nodes}
    assert nodes["fc/backward"].backward
    assert nodes["fc/backward"].color == nodes["fc"].color == "fc"
    assert ("out/backward", "fc/backward") in problem.edges
    assert ("out", "out/backward") in problem.edges
    # Gradients by inputs and by parameters: twice the forward work.
    launch = 5e-3
    assert nodes["fc/backward"].accelerator_time - launch == pytest.approx(
        2 * (nodes["fc"].accelerator_time - launch), rel=1e-3
    )
    assert nodes["fc"].size_bytes == 4 * 4 * 500_000 + 4 * 4 * 500


def test_shorter_numbers_are_faster_where_the_device_has_arithmetic_for_them() -> None:
    accelerator, host = DEVICES["v100-pcie-16gb"], DEVICES["xeon-8380"]
    assert accelerator.seconds(112e12, 0, 2) == pytest.approx(2.0, rel=1e-4)  # half the peak is assumed
    assert accelerator.seconds(112e12, 0, 4) == pytest.approx(16.0, rel=1e-4)
    assert host.seconds(1e12, 0, 2) == host.seconds(1e12, 0, 4)


def test_layers_with_little_arithmetic_wait_for_memory() -> None:
    device = DEVICES["a100-40gb"]
    assert device.seconds(1.0, 1555e9) == pytest.approx(1.0, rel=1e-4)


def test_a_sum_hands_one_gradient_to_all_its_inputs_and_a_concatenation_each_its_own() -> None:
    def gradient_time(kind: str) -> float:
        layers = (
            Layer("in", "input", (), 0.0, 0, 1000),
            Layer("a", "relu", ("in",), 1.0, 0, 1000),
            Layer("b", "relu", ("in",), 1.0, 0, 1000),
            Layer("joined", kind, ("a", "b"), 1.0, 0, 1000),
        )
        problem = to_placement(
            Workload("join", layers), DEVICES["v100-pcie-16gb"], LINKS["pcie3-x16"], accelerators=2, training=True
        )
        return next(node.transfer_time for node in problem.nodes if node.id == "joined/backward")

    assert gradient_time("add") == pytest.approx(1e3 * 4 * 1000 / 15.75e9, abs=1e-6)
    assert gradient_time("concat") == pytest.approx(2 * gradient_time("add"), abs=2e-6)


def test_network_inputs_get_no_gradient() -> None:
    problem = to_placement(
        small(True), DEVICES["v100-pcie-16gb"], LINKS["pcie3-x16"], accelerators=2, training=True
    )
    times = {node.id: node.transfer_time for node in problem.nodes}
    assert times["fc/backward"] == 0
    assert times["out/backward"] > 0


def test_problems_for_training_obey_the_rules_of_the_published_ones() -> None:
    """Forward before backward, one colour per layer, and outputs that nobody reads cost nothing."""
    problem = to_placement(
        build("gnmt"), DEVICES["v100-pcie-16gb"], LINKS["pcie3-x16"], accelerators=2, training=True
    )
    colours = [node.color for node in problem.nodes]
    assert len(problem.nodes) == 2 * len(build("gnmt").layers)
    assert all(colours.count(colour) == 2 for colour in colours)
    mirrored = {(v, u) for u, v in problem.edges}
    forward = [edge for edge in problem.edges if not any(str(end).endswith("/backward") for end in edge)]
    assert all((f"{u}/backward", f"{v}/backward") in mirrored for u, v in forward)


@pytest.mark.parametrize("name", ["resnet50", "inception_v3", "densenet121", "bert-base-operators", "gnmt"])
def test_a_faster_device_never_makes_a_node_slower(name: str) -> None:
    link = LINKS["pcie4-x16"]
    slow, fast = (
        to_placement(build(name), DEVICES[device], link, accelerators=2)
        for device in ("v100-pcie-16gb", "h100-80gb")
    )
    assert all(a.accelerator_time >= b.accelerator_time for a, b in zip(slow.nodes, fast.nodes, strict=True))
