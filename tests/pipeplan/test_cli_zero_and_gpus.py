"""`--zero`, `--sequence`, `--micro-batch` and GPUs by name on the command line, as far as a server's file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import Plan, done, has, refused

CLUSTER = ("--devices", 8, "--memory", "20GB", "--bandwidth", "300GB/s")
TRAINED = ("--optimizer", "adam-mixed", "--data-parallel", "--batch", 64)


@pytest.mark.slow
def test_least_memory_is_asked_with_zero(plan: Plan) -> None:
    words = ("memory", "llama-3-8b", *CLUSTER[:2], *CLUSTER[4:], *TRAINED, "--points", 0)
    for zero in (1, 3):
        said = done(plan(*words, "--zero", zero))
        assert "30.4 GiB of memory per device is the least" in said.out  # eight stages, which divide nothing


@pytest.mark.sweeps
def test_a_result_says_its_stage_and_is_verified_with_it(plan: Plan, tmp_path: Path) -> None:
    target = tmp_path / "z.json"
    words = ("--devices", 8, "--memory", "80GB", "--bandwidth", "300GB/s", *TRAINED, "--zero", 1)
    assert plan("solve", "llama-3-8b", *words, "--gap", 0.05, "-o", target).code == 0
    assert json.loads(target.read_text())["asked"]["cluster"]["zero"] == 1
    said = done(plan("verify", "llama-3-8b", target))
    assert "--zero 1" in said.err


def test_sequence_and_micro_batch_of_a_packaged_model(plan: Plan) -> None:
    words = ("solve", "llama-3-8b", "--devices", 8, "--memory", "80GB", "--bandwidth", "300GB/s")
    said = done(plan(*words, "--sequence", 8192, "--micro-batch", 2, "--planner", "equi"))
    assert "made anew for --sequence 8192 and --micro-batch 2" in " ".join(said.err.split())
    refused(plan("solve", "resnet-50", *words[2:], "--micro-batch", 2), "plan import hf config.json --batch 2")


@pytest.mark.slow
def test_graph_pipelines_keep_their_own_micro_batch(plan: Plan) -> None:
    said = plan("solve", "case-study", "--micro-batch", 4, "--planner", "graphpipe", "--time-limit", 600, "--json")
    assert said.code in (0, 2)
    assert "language models" not in said.err


@pytest.mark.parametrize("kind", ["staging", "placement"])
def test_mixed_gpus_as_far_as_a_server(plan: Plan, tmp_path: Path, kind: str) -> None:
    target = tmp_path / "mixed.json"
    mixed = ("--devices", "2xa100-80gb,2xt4-16gb", "--kind", kind)
    assert plan("solve", "llama-3-8b", "--inference", *mixed, "-o", target).code == 0
    assert json.loads(target.read_text())["asked"]["cluster"]["devices"] == "2xa100-80gb,2xt4"
    for server in ("vllm", "sglang"):
        said = done(plan("export", target, "llama-3-8b", "--inference", "--to", server))
        counts = [int(count) for count in said.out.strip().partition("=")[2].split(",")]
        assert sum(counts) == 32
        told = " ".join(said.err.split())
        has(told, "on a100-80gb", "on t4", "CUDA_VISIBLE_DEVICES", "t4 has no bfloat16")
    assert plan("verify", "llama-3-8b", target).code == 0


def test_mistakes_end_in_one_sentence(plan: Plan) -> None:
    for words, answer in (
        (("llama-3-8b", "--devices", "2xa100-80gb,2xt5"), "no GPU named 't5'"),
        (("llama-3-8b", "--devices", "2xa100-80gb,2xt4", "--kind", "chain"), "devices of one type"),
        (("bert-large-training", "--devices", "2xa100-80gb,2xt4"), "already holds its times"),
        (("llama-3-8b", *CLUSTER, "--zero", 1), "add --data-parallel"),
    ):
        said = plan("solve", *words)
        assert said.code == 2
        assert "Traceback" not in said.err
        assert answer in " ".join(said.err.replace("│", " ").split())
