"""GPUs by name: times by their figures, memory each its own, links; and where a problem has one type of devices."""

from __future__ import annotations

from typing import Any

import pytest
from problems.profiles import DIAMOND, ROW

import pipeplan
from pipeplan.instances.base.cluster import Cluster
from pipeplan.instances.base.errors import InputError, UsageError
from pipeplan.instances.lowering import lower
from pipeplan.instances.physics.hardware import DEVICES, GPUS, devices_given
from pipeplan.instances.placement.problem import PlacementProblem
from pipeplan.instances.staging.problem import StagingProblem

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


def test_no_limit_is_one_of_none_of_them() -> None:
    problem = lower(ROW, kind="staging", devices="1xh100,1xt4", memory_bytes=float("inf")).problem
    assert [kind.memory_bytes for kind in problem.device_types] == [None, None]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"kind": "chain"}, "A chain problem has devices of one type"),
        ({"kind": "graph-pipeline", "batch": 4}, "give --kind staging or --kind placement"),
        ({"kind": "staging", "memory_bytes": 1e9}, "drop --memory"),
        ({"kind": "staging", "levels": ((2, 1e9), (2, 1e8))}, "levels"),
    ],
)
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
