"""What every command must do for every kind: answer with what can be read again, or refuse in one sentence."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from command_line import Plan
from kind_commands import COMMANDS, SMALLEST

import pipeplan
from pipeplan.instances.registry import KINDS, any_plan_from_json
from pipeplan.kinds import SHOWN
from pipeplan.planners.kinds import PLANNED


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A stored result of every kind."""
    folder = tmp_path_factory.mktemp("results")
    paths = {}
    for kind, instance in SMALLEST.items():
        paths[kind] = folder / f"{kind}.json"
        pipeplan.save(pipeplan.solve(instance), paths[kind])
    return paths


def test_every_kind_has_its_row() -> None:
    assert set(SMALLEST) == set(KINDS) == set(SHOWN) == set(PLANNED)


@pytest.mark.sweeps("compare-chain", "compare-graph-pipeline", "compare-staging")
@pytest.mark.slow("compare-placement", "compare-schedule", "compare-training")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_answers_or_refuses(
    plan: Plan, results: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, kind: str
) -> None:
    monkeypatch.chdir(tmp_path)
    command = COMMANDS[name]
    words = command.spelled(kind, SMALLEST[kind], str(results[kind]))
    said = plan(*words, *(["--json"] if command.json else []))
    assert "Traceback" not in said.out + said.err
    if not command.is_able(kind):
        assert said.code == 2
        sentence = " ".join(said.err.split())
        assert sentence.startswith("Error: ")
        assert sentence.endswith(".")
        return
    assert said.code == 0, said.err
    if command.json:
        assert isinstance(said.json, dict)
    for file in tmp_path.glob("made*.json"):
        assert json.loads(file.read_text("utf-8"))


TIMES = {"period", "starts", "transfers"}


def whole_numbers(data: Any) -> Iterator[tuple[Any, Any]]:
    """Every whole number in a plan that is no time, as what holds it and its key."""
    for key, value in data.items() if isinstance(data, dict) else enumerate(data):
        if key not in TIMES and isinstance(value, (dict, list)):
            yield from whole_numbers(value)
        elif key not in TIMES and type(value) is int:
            yield data, key


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "schedule"])  # which has times alone
@pytest.mark.parametrize("number", [-1, 10**30])
def test_no_plan_counts_from_the_end(results: dict[str, Path], kind: str, number: int) -> None:
    """Python would take -1 as the last device, layer or node: the reader refuses it, or the referee."""
    problem = pipeplan.load(SMALLEST[kind])
    data = json.loads(results[kind].read_text("utf-8"))["plan"]
    places = [*whole_numbers(data)]
    # The devices of placements have names, and their nodes are those of the problem.
    assert places or kind == "placement"
    for place, key in places:
        before, place[key] = place[key], number
        with suppress(pipeplan.InputError):
            assert pipeplan.verify(problem, any_plan_from_json(data)), (place, key)
        place[key] = before
