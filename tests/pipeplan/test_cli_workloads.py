"""The whole way on published inputs: solve, save, verify; the values are the paper's (Table 1, layer graphs)."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import Plan, done, refused

PAPER = {
    "bert24_inference": 17.79, "bert24_training": 41.75, "resnet50_inference": 33.77,
    "inceptionv3_inference": 51.55, "gnmt_inference": 32.91,
}  # fmt: skip


@pytest.mark.workloads
@pytest.mark.parametrize("name", PAPER)
def test_contiguous_layer_graphs_from_the_command_line(
    plan: Plan, workloads: Path, tmp_path: Path, name: str
) -> None:
    instance = workloads / "tarnawski" / "throughput" / "layer" / f"{name}.json"
    saved = tmp_path / "result.json"
    said = plan("solve", instance, "--formulation", "ip-tarnawski", "--gap", "0.01", "--json", "--output", saved)
    done(said)
    result = said.json
    assert result["gap"] <= 0.01 * (1 + 1e-6)
    assert result["objective"] == pytest.approx(PAPER[name], rel=0.01)
    assert plan("verify", instance, saved, "--contiguity", "chain").code == 0


@pytest.mark.workloads
def test_a_published_split_is_verified_and_shown(plan: Plan, workloads: Path) -> None:
    """The experts' split of BERT-24 costs what the paper says, 20.08."""
    instance = workloads / "tarnawski" / "throughput" / "layer" / "bert24_inference.json"
    split = workloads / "tarnawski" / "experts" / "bert24_inference_expert.json"
    report = plan("verify", instance, split, "--json").json
    assert report["verified"] is True
    assert report["objective"] == pytest.approx(20.08, abs=0.005)
    assert "bottleneck" in plan("show", instance, split).out
    solved = plan("solve", instance, "--planner", "expert", "--split", split, "--json").json
    assert solved["objective"] == report["objective"]


@pytest.mark.workloads
def test_a_profile_needs_a_cluster(plan: Plan, workloads: Path) -> None:
    profile = workloads / "pipedream" / "vgg16.graph.txt"
    refused(plan("solve", profile), "--devices 4 --memory 40GB --bandwidth 300GB/s")
    cluster = ("--devices", 4, "--memory", "16GiB", "--bandwidth", "10GB/s")
    assert plan("solve", profile, *cluster, "--planner", "linear-dp", "--json").json["verified"] is True
