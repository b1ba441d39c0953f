"""`plan generate`: pipelines and known networks, with options that belong to somebody."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import Plan

import pipeplan
from pipeplan.studies.generate import GENERATORS, PARAMETERS


def test_the_same_seed_gives_the_same_problem(plan: Plan, tmp_path: Path) -> None:
    first, again, other = tmp_path / "first.json", tmp_path / "again.json", tmp_path / "other.json"
    for path, seed in ((first, 1), (again, 1), (other, 2)):
        said = plan("generate", "uneven-pipeline", "--stages", 2, "--seed", seed, "-o", path)
        assert (said.code, said.err) == (0, f"wrote {path}\n")
    assert first.read_bytes() == again.read_bytes()
    assert pipeplan.load(first).hash == pipeplan.load(again).hash != pipeplan.load(other).hash


def test_words_are_those_of_the_other_commands(plan: Plan, tmp_path: Path) -> None:
    path = tmp_path / "made.json"
    plan("generate", "mmt", "--devices", 3, "--memory", "2GiB", "--layers", 1, "-o", path)
    problem = pipeplan.load(path)
    assert (problem.devices, problem.memory_bytes) == (3, 2 * 2**30)


def test_flags_that_are_on_can_be_turned_off(plan: Plan) -> None:
    names = [
        {operator["id"] for operator in plan("generate", "case-study", *more).json["operators"]}
        for more in ((), ("--no-join",))
    ]
    assert names[0] - names[1] == {"concat"}


def test_without_a_name_everything_is_listed(plan: Plan) -> None:
    rows = plan("generate", "--json").json
    text = plan("generate").out
    assert {"pipeline", "v-shape", "mmt"} <= {row["name"] for row in rows}
    assert all(row["name"] in text for row in rows)


def test_every_parameter_is_explained_and_every_explained_one_is_some_generators() -> None:
    assert {name for generator in GENERATORS.values() for name in generator.parameters} == set(PARAMETERS)


@pytest.mark.parametrize("name", GENERATORS)
def test_every_parameter_may_be_left_out(name: str) -> None:
    assert pipeplan.generate(name) == GENERATORS[name].build()


def test_what_is_printed_is_a_file(plan: Plan, tmp_path: Path) -> None:
    path = tmp_path / "printed.json"
    path.write_text(plan("generate", "pipeline", "--stages", 3).out)
    assert len(pipeplan.load(path).blocks) == len(json.loads(path.read_text())["blocks"]) == 9
