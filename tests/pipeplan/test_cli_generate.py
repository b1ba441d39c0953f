"""`plan generate`: random problems by seed and known networks, with options that belong to somebody."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import pipeplan
from pipeplan.instances.physics.hardware import GPUS
from pipeplan.instances.placement.generators import GENERATORS
from pipeplan.instances.staging.problem import StagingProblem

Plan = Callable[..., Any]


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


def test_networks_on_hardware(plan: Plan, tmp_path: Path) -> None:
    path = tmp_path / "vgg.json"
    report = plan("generate", "vgg16", "--hardware", "a100-40gb", "-o", path, "--json").json
    assert (report["file"], report["problem"]["name"]) == (str(path), "vgg16")
    assert pipeplan.load(path).memory_bytes == GPUS["a100-40gb"].memory_bytes
    assert plan("generate", "vgg16", "--memory", "none").json.get("memory_bytes") is None


def test_without_a_name_everything_is_listed(plan: Plan) -> None:
    rows = plan("generate", "--json").json
    text = plan("generate").out
    assert {"layered", "bert-large", "vgg16"} <= {row["name"] for row in rows}
    assert all(row["name"] in text for row in rows)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("nothing",), "choose one of chain"),
        (("chain", "--width", "3"), "'chain' has no parameter --width; it has --nodes, --devices"),
        (("vgg16", "--seed", "3"), "has no parameter --seed"),
        (("vgg16", "--hardware", "abacus"), "v100-16gb"),
        (("vgg16", "--link", "string"), "pcie3-x16"),
        (("vgg16", "--kind", "staging", "--micro-batches", 0), "--micro-batches is 0; give a whole number from 1"),
        (("chain", "--nodes", "0"), "nodes"),
        (("layered", "--density", "nan"), "density"),
        (("--seed", "3"), "Name what to generate"),
        (("chain", "-o", "no/folder/x.json"), "does not exist"),
    ],
)
def test_what_makes_no_sense(plan: Plan, arguments: tuple[str, ...], words: str) -> None:
    said = plan("generate", *arguments)
    assert (said.code, said.out) == (2, "")
    assert words in said.err
    assert len(said.err.splitlines()) == 1


def test_what_is_printed_is_a_file(plan: Plan, tmp_path: Path) -> None:
    path = tmp_path / "printed.json"
    path.write_text(plan("generate", "chain", "--nodes", 3).out)
    assert len(pipeplan.load(path).nodes) == len(json.loads(path.read_text())["nodes"]) == 3


def test_networks_become_stagings(plan: Plan, tmp_path: Path) -> None:
    path = tmp_path / "staging.json"
    given = ("--kind", "staging", "--memory", "4GiB", "--micro-batches", 5)
    assert plan("generate", "vgg16", *given, "-o", path).code == 0
    problem = pipeplan.load(path)
    assert isinstance(problem, StagingProblem)
    assert (len(problem.layers), problem.memory_bytes, problem.micro_batches) == (34, 4 * 2**30, 5)
