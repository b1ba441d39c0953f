"""PipeDream's files as profiles, and as problems of every kind: placements are those that were published."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from problems.malformed import PROFILE

from pipeplan import GraphStage, InputError, Link, Node, PlacementProblem, StageGraphPlan, load, load_profile
from pipeplan.instances.graph_pipeline.referee import evaluate_stage_graph
from pipeplan.instances.networks.profile.pipedream import read_graph_txt

ON: dict[str, Any] = {"devices": 2, "memory_bytes": math.inf, "bandwidth": 1000.0}
CLUSTER = {**ON, "cpus": 1, "cpu_slowdown": 10.0}

PUBLISHED_CLUSTER = {**CLUSTER, "devices": 6, "memory_bytes": 17185374208.0, "bandwidth": 1000.0 * 2**31}
"""What turns PipeDream's profiles into the layer graphs that Tarnawski et al. published."""


@pytest.fixture
def profile_file(tmp_path: Path) -> Path:
    path = tmp_path / "small.graph.txt"
    path.write_text(PROFILE)
    return path


def nodes_of(problem: PlacementProblem) -> dict[Any, Node]:
    return {node.id: node for node in problem.nodes}


def test_inference_has_the_forward_nodes_only(profile_file: Path) -> None:
    problem = load(profile_file, **CLUSTER, training=False)
    assert (problem.name, problem.time_unit, problem.has_backward) == ("small", "ms", False)
    assert problem.edges == (("n1", "n2"), ("n2", "n3"))
    node = nodes_of(problem)["n2"]
    # 8 bytes of activations at 1000 bytes/s take 8 ms; 16 bytes of parameters stay in memory with them.
    assert node == Node("n2", 1.0, 10.0, size_bytes=24.0, transfer_time=8.0, name="Linear(2, 2)")


def test_training_adds_a_backward_node_of_the_same_colour(profile_file: Path) -> None:
    problem = load(profile_file, **CLUSTER)
    nodes = nodes_of(problem)
    # Several outputs are summed, and unread ones are not transferred.
    assert (nodes["n3"].size_bytes, nodes["n3"].transfer_time) == (8.0 + 4.0 + 16.0, 0.0)
    assert problem.edges[2:] == (("n1/backward", "n2/backward"), ("n2/backward", "n3/backward"))
    assert nodes["n2"].color == nodes["n2/backward"].color == "n2"
    assert nodes["n2/backward"] == Node(
        "n2/backward", 2.0, 20.0, size_bytes=24.0, transfer_time=8.0, backward=True, color="n2", name="Linear(2, 2)"
    )


def test_a_stage_of_somebody_s_plan_is_ignored() -> None:
    with_stages = PROFILE.replace("parameter_size=16.0", "parameter_size=16.0 -- stage_id=3")
    assert read_graph_txt(with_stages) == read_graph_txt(PROFILE)


def test_a_description_may_hold_dashes_and_edges_may_come_first() -> None:
    lines = PROFILE.replace("Linear(2, 2)", "a -- b").splitlines()
    assert read_graph_txt("\n".join(lines[3:] + lines[:3])).nodes[1].modules == ("a -- b",)


def test_errors_name_the_layer_the_line_or_the_circle(profile_file: Path) -> None:
    with pytest.raises(InputError, match="layer 'n2', size_bytes"):
        load(profile_file, devices=1, memory_bytes=30.0, bandwidth=1.0)
    with pytest.raises(InputError, match=r"edges contain the cycle 'n2' -> 'n3' -> 'n2'"):
        read_graph_txt(PROFILE + "\n\tn3 -- n2\n")
    with pytest.raises(InputError, match=r"line 2, id is a text of 10001 characters"):
        read_graph_txt(PROFILE.replace("n2", "n" * 10_001))
    profile_file.write_text(PROFILE + "\n\n\tn9 -- n1\n")
    with pytest.raises(InputError, match=r"small\.graph\.txt: line 8 names the unknown node 'n9'"):
        load(profile_file, **CLUSTER)


# ---- every kind ----------------------------------------------------------------------------------------


def test_a_graph_pipeline_leaves_the_input_out(profile_file: Path) -> None:
    """n2 takes 1 + 2 ms for 4 samples and puts out 8 bytes of them; n3 keeps two outputs, 8 and 4 bytes."""
    profile = load_profile(profile_file).replace(micro_batch=4)
    problem = profile.to_graph_pipeline(devices=2, memory_bytes=math.inf, bandwidth=1000.0, batch=16)
    assert [operator.id for operator in problem.operators] == ["n2", "n3"]
    assert problem.edges == (("n2", "n3"),)
    second, third = problem.operators
    assert (second.forward(4), second.backward(8), second.weight_bytes) == (1, 4, 16)
    assert (second.output_bytes, third.stash_bytes, second.name) == (2, 3, "Linear(2, 2)")
    assert (problem.link, problem.time_unit) == (Link(1.0), "ms")
    # A micro-batch of 4 takes 3 ms in either stage, and 8 bytes at 1 byte/ms each way between them.
    plan = StageGraphPlan((GraphStage(("n2",), 1, 4, 1, 8), GraphStage(("n3",), 1, 4, 1, 4)), ((0, 1),))
    assert evaluate_stage_graph(problem, plan).time_per_sample == pytest.approx((3 + 2 * 8) / 4)


# ---- the published profiles ----------------------------------------------------------------------------


@pytest.mark.workloads
@pytest.mark.parametrize("training", [True, False])
def test_every_published_profile_is_read(workloads: Path, training: bool) -> None:
    files = sorted((workloads / "pipedream").glob("*.graph.txt"))
    assert len(files) >= 3
    for path in files:
        lines = path.read_text().splitlines()
        edges = sum(line.startswith("\t") for line in lines)
        problem = load(path, **PUBLISHED_CLUSTER, training=training)
        factor = 2 if training else 1
        assert (len(problem.nodes), len(problem.edges)) == (factor * (len(lines) - edges), factor * edges)
        assert problem.has_backward == training


@pytest.mark.workloads
def test_the_lowering_gives_the_published_layer_graph(workloads: Path) -> None:
    published = load(workloads / "tarnawski" / "throughput" / "layer" / "resnet50_inference.json")
    ours = load(workloads / "pipedream" / "resnet50.graph.txt", **PUBLISHED_CLUSTER, training=False)
    assert ours.edges == tuple((f"node{u}", f"node{v}") for u, v in published.edges)
    assert (ours.accelerators, ours.cpus, ours.memory_bytes) == (6, 1, published.memory_bytes)
    for mine, theirs in zip(ours.nodes, published.nodes, strict=True):
        assert mine.id == f"node{theirs.id}"
        assert (mine.accelerator_time, mine.size_bytes) == (theirs.accelerator_time, theirs.size_bytes)
        assert mine.cpu_time == pytest.approx(theirs.cpu_time, rel=1e-12)
        assert mine.transfer_time == pytest.approx(theirs.transfer_time, rel=1e-12)


def test_a_profile_says_how_many_samples_were_measured(plan: Any, profile_file: Path, tmp_path: Path) -> None:
    out = tmp_path / "my.json"
    said = plan("import", "pipedream", profile_file, "--micro-batch", 4, "-o", out)
    assert (said.code, said.out.partition(",")[0]) == (0, "a profile of 3 nodes with 32 B of weights")
    told, silent = load_profile(out), load_profile(profile_file)
    assert told == silent.replace(micro_batch=4, source={**silent.source, "samples": 4})
    said = plan("import", "pipedream", profile_file, "--micro-batch", 0, "-o", out)
    assert (said.code, said.err) == (2, "Error: micro_batch is 0; give a whole number from 1 to 10000000.\n")
