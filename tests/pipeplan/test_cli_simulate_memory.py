"""`plan simulate` tells where a schedule needs more memory than the devices have, and is no verdict."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from command_line import has
from typer.testing import CliRunner

import pipeplan
from pipeplan.cli.app import app
from pipeplan.instances.files import problem_to_text
from pipeplan.instances.registry import Problem
from pipeplan.instances.staging.problem import DeviceType
from pipeplan.show.views import view_of_simulation


def given(problem: Problem, limit: float | None) -> Problem:
    changed: Problem = problem.replace(memory_bytes=limit)
    return changed


def typed(problem: Any, limit: float | None) -> Problem:
    """The same devices as two types, only one of which has as much as it takes."""
    devices = problem.devices
    kinds = (DeviceType("plenty", 1, 1.0), DeviceType("small", devices - 1, 1.0, limit))
    layers = tuple(
        layer.__class__(layer.id, {t: ways for t, ways in layer.configurations.items() if t == 1})
        for layer in problem.layers
    )
    changed: Problem = problem.replace(layers=layers, memory_bytes=None, device_types=kinds)
    return changed


LARGE = 1e15

CASES: dict[str, tuple[str, Callable[[Any, float | None], Problem]]] = {
    "staging": ("tiny-stages", given), "levels": ("tiny-levels", given), "types": ("tiny-stages", typed),
    "graph-pipeline": ("tiny-graph", given), "chain": ("figure-4", given), "placement": ("tiny-chain", given),
}  # fmt: skip


def simulated(folder: Path, problem: Problem, plan: Any, *words: str) -> tuple[dict[str, Any], str]:
    files = [folder / "problem.json", folder / "plan.json"]
    files[0].write_text(problem_to_text(problem))
    files[1].write_text(json.dumps(plan.to_json()))
    batches = ["--micro-batches", "6"] if problem.kind in ("placement", "chain") else []
    said = CliRunner().invoke(app, ["simulate", *map(str, files), "--json", *batches, *words])
    assert said.exit_code == 0, said.output
    return json.loads(said.stdout), said.stderr


@pytest.mark.sweeps("graph-pipeline", "placement")
@pytest.mark.parametrize("case", CASES)
def test_gpipe_needs_more_than_there_is(tmp_path: Path, case: str) -> None:
    instance, limited = CASES[case]
    problem = limited(pipeplan.load_packaged(instance), LARGE)
    plan = pipeplan.solve(problem).plan
    batches = 6 if problem.kind in ("placement", "chain") else None
    stages = pipeplan.simulate(problem, plan, schedule="gpipe", micro_batches=batches).stages
    held = max(stage.memory_bytes for stage in stages if stage.limit_bytes == LARGE)

    less = limited(problem, held * 0.99)
    facts, words = simulated(tmp_path, less, plan, "--schedule", "gpipe")
    has(words, "with this schedule a device of", "more than its memory of")
    assert facts["over_memory"] == [
        stage.name for stage in stages if stage.limit_bytes == LARGE and stage.memory_bytes == held
    ]
    again = pipeplan.simulate(less, plan, schedule="gpipe", micro_batches=batches)
    limits = {stage.name: stage.limit_bytes for stage in again.stages}
    assert held * 0.99 in limits.values()
    assert all(curve.limit == limits[curve.name] for curve in view_of_simulation(less, again).memory)

    enough, words = simulated(tmp_path, limited(problem, held), plan, "--schedule", "gpipe")
    assert "more than its memory of" not in words
    assert "over_memory" not in enough
