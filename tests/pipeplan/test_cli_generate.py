"""`plan generate`: pipelines, with options that belong to somebody."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import Plan

import pipeplan
from pipeplan.instances.schedule.generators import GENERATORS
from pipeplan.studies.generate import PARAMETERS


def test_without_a_name_everything_is_listed(plan: Plan) -> None:
    rows = plan("generate", "--json").json
    text = plan("generate").out
    assert {"pipeline", "v-pipeline", "interleaved-pipeline"} == {row["name"] for row in rows}
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
