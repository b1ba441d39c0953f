"""The kernels of a profile, its times on other devices, and the packaged profiles, which have them."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import packaged_profiles
import pytest
from command_line import Plan, done, refused
from hypothesis import given
from hypothesis import strategies as st
from problems.profiles import DIAMOND, ROW, WORK

import pipeplan
from pipeplan import InputError, PlacementProblem, StagingProblem, UsageError
from pipeplan.instances.base.cluster import Cluster
from pipeplan.instances.lowering import lower, without_backward_passes
from pipeplan.instances.networks.profile import load_packaged_profile, packaged_profile_names
from pipeplan.instances.networks.profile.profile import Profile, profile_to_json
from pipeplan.instances.networks.profile.work import Kernels, merged, on_hardware
from pipeplan.instances.physics.hardware import DEVICES, GPUS, Hardware, devices_given
from pipeplan.instances.registry import KINDS

SLOW = Hardware("slow", 4.0, 8.0, 2.0, 100.0, efficiency=0.5, launch_s=0.25)
"""Two operations of 4 bytes, four of 2 bytes, and two bytes in a second."""

kernels = st.lists(
    st.builds(
        Kernels, st.sampled_from([0.0, 1.0, 3.0, 6e9]), st.sampled_from([0.0, 1.0, 2.0, 4e9]), st.integers(1, 3)
    ),
    max_size=20,
)


@given(kernels, st.sampled_from([SLOW, *DEVICES.values()]))
def test_sums_of_one_intensity_take_as_long_as_their_kernels(some: list[Kernels], device: Hardware) -> None:
    few = merged(some)
    assert sum(entry.seconds(device) for entry in few) == pytest.approx(
        sum(entry.seconds(device) for entry in some)
    )
    assert sum(entry.count for entry in few) == sum(entry.count for entry in some)
    ratios = [Fraction(entry.flops) / Fraction(entry.moved_bytes) if entry.moved_bytes else None for entry in few]
    assert len(set(ratios)) == len(ratios)


def test_times_on_a_device_by_hand() -> None:
    """12 s for 24 bytes and two launches, 4 s for 8 bytes and one; 24 s for 48 bytes and one."""
    row = Profile((DIAMOND.nodes[0],), (), name="row", time_unit="ms")
    slow = on_hardware(row, SLOW)
    assert (slow.time_unit, slow.nodes[0].forward, slow.nodes[0].backward) == ("s", 12.5 + 4.25, 24.25)
    assert slow.source["times"] == "analytic: slow, efficiency 0.5, 250000 us per kernel"
    fast = on_hardware(row, DEVICES["h100-80gb"])
    assert fast.nodes[0].forward < 1e-4
    assert without_backward_passes(slow).nodes[0].work == type(WORK)(WORK.forward)


def test_a_node_without_kernels_has_no_other_times() -> None:
    with pytest.raises(InputError, match="node 'left' does not say which kernels it runs; profile the model on"):
        on_hardware(DIAMOND, SLOW)


# ---- the packaged profiles -----------------------------------------------------------------------------

PUBLISHED = {
    "bert-large": 335_141_888, "densenet121": 7_978_856, "gpt2": 124_439_808, "gpt2-xl": 1_557_611_200,
    "inception-v3": 23_834_568, "vgg16": 138_357_544, "llama-3-8b": 8_030_261_248, "llama-3-70b": 70_553_706_496,
    "mixtral-8x7b": 46_702_792_704, "t5-large": 737_668_096, "whisper-medium": 763_857_920,
    "clip-vit-large-patch14": 427_616_513, "resnet-50": 25_557_032,
}  # fmt: skip
"""Parameters of the published weights."""


def test_parameters_are_those_of_the_published_weights() -> None:
    found = {}
    for name in packaged_profile_names():
        profile = load_packaged_profile(name)
        found[name] = (sum(node.parameter_bytes for node in profile.nodes) - profile.tied_bytes) / 2
    assert found == PUBLISHED


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_packaged_profile_is_small_and_says_what_it_is(name: str) -> None:
    path = Path(pipeplan.__file__).parent / "instances" / "packaged" / "profiles" / f"{name}.json"
    assert path.stat().st_size < 100_000
    profile = load_packaged_profile(name)
    assert profile.name == name
    how = {"transformers", "torch", "graph_sha256"} if profile.source["how"] == "torch-export" else set()
    assert {"config", "batch", "dtype", "times"} | how <= set(profile.source)
    again = on_hardware(profile, packaged_profiles.MADE_ON)
    for stored, node in zip(profile.nodes, again.nodes, strict=True):
        assert node.forward == pytest.approx(stored.forward, rel=1e-8)
        assert node.backward == pytest.approx(stored.backward, rel=1e-8)
        assert node.work is not None
        assert node.work.flops("backward") == pytest.approx(node.flops_backward, rel=1e-8)


@pytest.mark.parametrize("kind", [name for name, kind in KINDS.items() if kind.from_profile])
@pytest.mark.parametrize("name", PUBLISHED)
def test_a_packaged_profile_becomes_a_problem_of_every_kind(name: str, kind: str) -> None:
    cluster: Any = {"devices": 8, "memory_bytes": float("inf"), "bandwidth": 450e9}
    assert lower(load_packaged_profile(name), kind=kind, **cluster).problem.kind == kind


def test_llama_3_8b_on_four_devices(plan: Plan) -> None:
    """The head is worth three layers: 8, 9, 9 and 6 layers, as the specification's trial found."""
    on = ("--devices", 4, "--memory", "80GiB", "--bandwidth", "450GB/s")
    result = plan("solve", "llama-3-8b", *on, "--json").json
    assert result["found"] == "optimal"
    stages = [stage["nodes"] for stage in result["plan"]["stages"]]
    assert [sum(".layers." in layer for layer in layers) for layers in stages] == [8, 9, 9, 6]


def test_convert_puts_a_packaged_profile_on_named_devices(plan: Plan, tmp_path: Path) -> None:
    """`gpt2-xl` has the kernels of its nodes, which take the times of any device."""
    out = tmp_path / "p.json"
    done(plan("convert", "gpt2-xl", "--devices", "16xa100-80gb", "--bandwidth", "300GB/s", "-o", out))
    problem: Any = pipeplan.load(out)
    assert (problem.kind, problem.devices, problem.bandwidth) == ("staging", 16, 300e9)
    slower = on_hardware(load_packaged_profile("gpt2-xl"), DEVICES["a100-80gb"])
    assert problem.layers[1].configurations[1][0].time == pytest.approx(
        slower.nodes[1].forward + slower.nodes[1].backward
    )
    refused(
        plan("generate", "gpt2-xl"), "which every command reads by its name; `plan convert gpt2-xl --devices 4x"
    )


def test_lists_of_instances_name_the_packaged_profiles(plan: Plan) -> None:
    rows = {row["name"]: row for row in plan("instances", "--json").json if row["kind"] == "profile"}
    assert set(rows) == set(PUBLISHED)
    assert (rows["llama-3-8b"]["nodes"], rows["llama-3-8b"]["parameters"]) == (35, "16.1 GB")
    assert "meta-llama/Meta-Llama-3-8B" in rows["llama-3-8b"]["made of"]
    assert "llama-3-8b" in plan("instances").out


# ---- plan show -----------------------------------------------------------------------------------------


def test_a_profile_is_shown_without_a_cluster(plan: Plan, tmp_path: Path) -> None:
    path = tmp_path / "d.json"
    path.write_text(json.dumps(profile_to_json(DIAMOND)))
    assert plan("show", "gpt2", "--inference", "--json").json["profile"]["training"] is False
    said = done(plan("show", path))
    lines = [" ".join(line.split()) for line in said.out.splitlines()]
    assert lines[0] == "diamond: a profile of 4 nodes that form a graph, without a cluster"
    words = " ".join(lines)
    assert (
        "a micro-batch of 2 samples: forward 7.5 ms, backward 16 ms; 49 B of activations saved between them"
        in words
    )
    assert "weights 15 B, of which 4 B also occur in a second node" in words
    assert "stem 1 2 12.8 % 5 B 30 B" in lines
    report = plan("show", path, "--json").json
    assert report["profile"]["hash"] == DIAMOND.hash
    assert [node["readers"] for node in report["nodes"]] == [["left", "right"], ["head"], ["head"], []]
    assert sum(node["share"] for node in report["nodes"]) == pytest.approx(1)
    assert report["nodes"][0]["output_bytes"] == 16


# ---- GPUs by name: times by their figures, memory each its own, links -----------------------------------

MIXED = "2xa100-80gb,2xt4-16gb"


def test_nodes_that_know_their_kernels_take_the_roofline_of_each_gpu() -> None:
    profile = pipeplan.load_profile("llama-3-8b", training=False)
    lowered = lower(profile, kind="placement", devices=MIXED)
    problem: PlacementProblem = lowered.problem
    assert (problem.accelerators, problem.other_types[0].name, problem.other_types[0].count) == (2, "t4", 2)
    assert problem.memory_bytes == GPUS["a100-80gb"].memory_bytes
    assert problem.other_types[0].memory_bytes == GPUS["t4"].memory_bytes
    for node, own in zip(problem.nodes, profile.nodes, strict=True):
        assert own.work is not None
        assert node.accelerator_time == own.work.seconds("forward", DEVICES["a100-80gb"])
        assert node.other_times == (own.work.seconds("forward", DEVICES["t4"]),)
    assert any("by the roofline rule" in note for note in lowered.notes)


def test_measured_times_are_those_of_the_first_gpu_and_others_follow_from_peaks() -> None:
    lowered = lower(DIAMOND, kind="placement", devices="1xa100-80gb,1xt4", bandwidth=2000.0)
    for node in lowered.problem.nodes:
        assert node.other_times == (pytest.approx(node.accelerator_time * 312 / 65),)
    assert "taken as those of a100-80gb; t4 takes 4.8 times as long, by their peak rates" in " ".join(lowered.notes)


def test_a_staging_has_one_speed_for_each_type() -> None:
    problem: StagingProblem = lower(ROW, kind="staging", devices="1xa100-80gb,3xt4", bandwidth=2000.0).problem
    first, other = problem.device_types
    assert (problem.devices, problem.memory_bytes, first.devices, other.devices) == (4, None, 1, 3)
    assert (first.speed, other.speed) == (1, pytest.approx(65 / 312))
    assert (first.memory_bytes, other.memory_bytes) == (GPUS["a100-80gb"].memory_bytes, GPUS["t4"].memory_bytes)


def test_one_type_says_memory_and_links() -> None:
    lowered = lower(pipeplan.load_profile("llama-3-8b"), devices="8xh100-80gb")
    assert (lowered.problem.devices, lowered.problem.memory_bytes) == (8, GPUS["h100-80gb"].memory_bytes)
    assert lowered.problem.bandwidth == 450e9
    assert not lowered.problem.device_types
    assert lower(ROW, devices="16xh100-80gb").problem.bandwidth == 50e9 / 1e3  # between nodes, per ms
    assert lower(ROW, devices="2xh100", memory_bytes=1e9).problem.memory_bytes == 1e9


@pytest.mark.parametrize(("given", "message"), [
    ({"kind": "chain"}, "A chain problem has devices of one type"),
    ({"kind": "graph-pipeline", "batch": 4}, "give --kind staging or --kind placement"),
    ({"kind": "staging", "memory_bytes": 1e9}, "drop --memory"),
    ({"kind": "staging", "levels": ((2, 1e9), (2, 1e8))}, "levels"),
])  # fmt: skip
def test_what_mixed_gpus_cannot_be_is_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises((InputError, UsageError), match=message):
        lower(ROW, **{"devices": MIXED, **given})


def test_words_of_a_cluster_come_back() -> None:
    given = devices_given(" 2 x A100-80GB, 2xt4 ")
    assert given == {"devices": 4, "gpus": ((2, "a100-80gb"), (2, "t4"))}
    assert Cluster(**given).to_json()["devices"] == "2xa100-80gb,2xt4"
    assert devices_given("8") == {"devices": 8}
    with pytest.raises(InputError, match="as in 3xt4"):
        devices_given("1xt4,2xt4-16gb")
