"""Schedules that cannot be laid out, and problems without a shortest period: a sentence and an exit code."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from command_line import Plan, refused

TIMELESS = {
    "schema": "pipeplan.schedule/1",
    "name": "timeless",
    "devices": [{"name": "d0", "memory": 1}],
    "blocks": [{"id": "b0", "kind": "B", "devices": ["d0"], "time": 0}],
}
PROBLEM = {**TIMELESS, "blocks": [{"id": "b0", "kind": "F", "devices": ["d0"], "time": 5}]}


def written(folder: Path, name: str, data: dict[str, Any]) -> str:
    path = folder / name
    path.write_text(json.dumps(data), encoding="utf-8")
    return str(path)


@pytest.mark.parametrize("method", ["exact-schedule", "cp-periodic", "list-schedule"])
def test_nothing_that_takes_time_has_no_shortest_period(plan: Plan, tmp_path: Path, method: str) -> None:
    option = "--formulation" if "periodic" in method else "--planner"
    said = plan("solve", written(tmp_path, "timeless.json", TIMELESS), option, method)
    refused(said, "no period is the shortest")


@pytest.mark.parametrize("command", ["show", "verify"])
@pytest.mark.parametrize(
    ("period", "start", "code"),
    [
        (0, 0, 3),
        (-3, 0, 3),
        (7, "-1/" + "3" * 400, 3),
        ("1/" + "3" * 400, 0, 3),
        (7, "1" * 400, 2),
        ("1" * 400, 0, 2),
    ],
)
def test_a_schedule_that_cannot_be_laid_out_is_refused(
    plan: Plan, tmp_path: Path, command: str, period: int | str, start: int | str, code: int
) -> None:
    schedule = {"kind": "periodic-schedule", "period": period, "starts": {"b0": start}}
    said = plan(command, written(tmp_path, "problem.json", PROBLEM), written(tmp_path, "plan.json", schedule))
    assert said.code == code


@pytest.mark.parametrize("command", ["show", "verify"])
def test_a_start_beyond_all_floats_is_refused(plan: Plan, tmp_path: Path, command: str) -> None:
    problem = written(tmp_path, "problem.json", {**PROBLEM, "micro_batches": 1})
    schedule = written(tmp_path, "plan.json", {"kind": "schedule", "starts": {"b0": ["1" * 400]}})
    refused(plan(command, problem, schedule), "later than 1e300")
