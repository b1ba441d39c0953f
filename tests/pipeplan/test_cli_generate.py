"""`plan generate`: random problems by seed and known networks, with options that belong to somebody."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import Plan

import pipeplan
from pipeplan.instances.chain.generators import resnet_like
from pipeplan.instances.placement.generators import GENERATORS


@pytest.mark.parametrize("name", GENERATORS)
def test_the_same_seed_gives_the_same_problem(plan: Plan, tmp_path: Path, name: str) -> None:
    first, again, other = tmp_path / "first.json", tmp_path / "again.json", tmp_path / "other.json"
    for path, seed in ((first, 1), (again, 1), (other, 2)):
        said = plan("generate", name, "--nodes", 8, "--seed", seed, "-o", path)
        assert (said.code, said.err) == (0, f"wrote {path}\n")
    assert first.read_bytes() == again.read_bytes()
    assert pipeplan.load(first).hash == pipeplan.load(again).hash != pipeplan.load(other).hash


def test_words_are_those_of_the_other_commands(plan: Plan, tmp_path: Path) -> None:
    path = tmp_path / "made.json"
    plan(
        "generate", "chain", "--devices", 3, "--cpus", 2, "--memory", "2GiB", "--training", "--nodes", 5, "-o", path
    )
    problem = pipeplan.load(path)
    assert (problem.accelerators, problem.cpus, problem.memory_bytes) == (3, 2, 2 * 2**30)
    assert problem.has_backward
    assert plan("solve", path, "--planner", "greedy").code == 0


def test_flags_that_are_on_can_be_turned_off(plan: Plan) -> None:
    assert any(node.get("backward") for node in plan("generate", "dnn").json["nodes"])
    assert not any(node.get("backward") for node in plan("generate", "dnn", "--no-training").json["nodes"])


def test_without_a_name_everything_is_listed(plan: Plan) -> None:
    rows = plan("generate", "--json").json
    text = plan("generate").out
    assert {"layered", "resnet-like", "mmt"} <= {row["name"] for row in rows}
    assert all(row["name"] in text for row in rows)


def test_what_is_printed_is_a_file(plan: Plan, tmp_path: Path) -> None:
    path = tmp_path / "printed.json"
    path.write_text(plan("generate", "chain", "--nodes", 3).out)
    assert len(pipeplan.load(path).nodes) == len(json.loads(path.read_text())["nodes"]) == 3


def test_a_random_chain_is_the_same_in_python(plan: Plan, tmp_path: Path) -> None:
    path = tmp_path / "made.json"
    words = "resnet-like --layers 8 --gpus 3 --seed 5 --memory 1KiB"
    assert plan("generate", *words.split(), "-o", path).code == 0
    assert pipeplan.load(path).hash == resnet_like(8, 3, 5, 1024).hash
