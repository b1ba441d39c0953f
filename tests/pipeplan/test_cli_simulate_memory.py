"""`plan simulate` tells where a schedule needs more memory than the devices have, and is no verdict."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

import pipeplan
from pipeplan.cli.app import app
from pipeplan.instances.files import problem_to_text


@pytest.mark.parametrize("instance", ["tiny-stages", "tiny-graph"])
def test_gpipe_needs_more_than_there_is(tmp_path: Path, instance: str) -> None:
    problem = pipeplan.load_packaged(instance)
    plan = pipeplan.solve(problem).plan
    assert plan is not None
    held = pipeplan.simulate(problem, plan, schedule="gpipe").peak_memory_bytes
    least = pipeplan.simulate(problem, plan).peak_memory_bytes
    assert least < held
    problem = problem.replace(memory_bytes=least)
    files = [tmp_path / "problem.json", tmp_path / "plan.json"]
    files[0].write_text(problem_to_text(problem))
    files[1].write_text(json.dumps(plan.to_json()))
    asked = ["simulate", *map(str, files)]

    said = CliRunner().invoke(app, [*asked, "--schedule", "gpipe", "--json"])
    assert said.exit_code == 0
    assert "more than its memory of" in said.stderr
    facts = json.loads(said.stdout)
    assert (facts["memory_limit_bytes"], facts["peak_memory_bytes"]) == (least, held)
    assert facts["over_memory"] == [s["name"] for s in facts["stages"] if s["memory_bytes"] > least] != []

    planned = CliRunner().invoke(app, [*asked, "--json"])
    assert "more than its memory of" not in planned.stderr
    assert "over_memory" not in json.loads(planned.stdout)
