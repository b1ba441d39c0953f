"""What every command must do for every kind: answer with what can be read again, or refuse in one sentence."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from problems.trainings import random_training

import pipeplan
from pipeplan.instances.registry import KINDS, any_plan_from_json
from pipeplan.kinds import SHOWN
from pipeplan.planners.kinds import PLANNED
from pipeplan.planners.registry import default_method, second_methods

Plan = Callable[..., Any]

SMALLEST = {
    "placement": "tiny-chain",
    "chain": "golden-4",
    "staging": "tiny-stages",
    "graph-pipeline": "tiny-graph",
    "schedule": "v-shape-4",
}
"""Packaged ones. Those of trainings take the second method half a minute, so that one of two GPUs is written."""


def always(kind: str) -> bool:
    return True


def has_a_second_method(kind: str) -> bool:
    """The methods for chains share their arithmetic."""
    return bool(second_methods(default_method(kind)))


OF_ONE_BATCH = {"placement", "chain"}
"""Kinds that do not say how many micro-batches there are: `plan simulate` asks for them."""

OF_INFERENCE = {"placement"}
"""Kinds whose smallest instance has no backward passes, which schedules need."""


class Command(NamedTuple):
    """`INSTANCE` and `RESULT` stand for those of the kind, `FILE` for what the command writes."""

    words: str
    is_able: Callable[[str], bool] = always
    json: bool = True
    """Does it take `--json`?"""


COMMANDS = {
    "solve": Command("solve INSTANCE"),
    "solve and check": Command("solve INSTANCE --cross-check", has_a_second_method),
    "verify": Command("verify INSTANCE RESULT"),
    "verify the proof": Command("verify INSTANCE RESULT --proof"),
    "show a problem": Command("show INSTANCE"),
    "show a plan": Command("show INSTANCE RESULT"),
    "simulate": Command(
        "simulate INSTANCE RESULT", lambda kind: KINDS[kind].pipeline is not None and kind not in OF_ONE_BATCH
    ),
    "schedule": Command(
        "schedule INSTANCE RESULT --micro-batches 2",
        lambda kind: KINDS[kind].to_schedule is not None and kind not in OF_INFERENCE,
    ),
    "memory": Command("memory INSTANCE --points 2", lambda kind: PLANNED[kind].least_memory is not None),
    "pareto": Command("pareto INSTANCE --points 2", lambda kind: SHOWN[kind].pareto is not None),
    "sensitivity": Command("sensitivity INSTANCE", lambda kind: KINDS[kind].upgrades is not None),
    "convert": Command("convert INSTANCE -o FILE.json --to own"),
    "convert to a published format": Command(
        "convert INSTANCE -o FILE.json --to published", lambda kind: KINDS[kind].write_published is not None
    ),
    "report": Command("report RESULT INSTANCE -o FILE.html", json=False),
    "compare": Command("compare INSTANCE -m METHOD -o FILE --jobs 1 --time-limit 20"),
}


@pytest.fixture(scope="module")
def instances(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The smallest instance of every kind, by its name or its file."""
    path = tmp_path_factory.mktemp("instances") / "training.json"
    pipeplan.save(random_training(1, devices=2), path)
    return {**SMALLEST, "training": str(path)}


@pytest.fixture(scope="module")
def results(instances: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A stored result of every kind."""
    folder = tmp_path_factory.mktemp("results")
    paths = {}
    for kind, instance in instances.items():
        paths[kind] = folder / f"{kind}.json"
        pipeplan.save(pipeplan.solve(instance), paths[kind])
    return paths


def test_every_kind_has_its_row(instances: dict[str, str]) -> None:
    assert set(instances) == set(KINDS) == set(SHOWN) == set(PLANNED)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_answers_or_refuses(
    plan: Plan,
    instances: dict[str, str],
    results: dict[str, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    kind: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    command = COMMANDS[name]
    method = default_method(kind).name
    stands_for = {"INSTANCE": instances[kind], "RESULT": results[kind], "FILE": "made", "METHOD": method}
    words = [str(stands_for.get(word, word)).replace("FILE.", "made.") for word in command.words.split()]
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
def test_no_plan_counts_from_the_end(
    instances: dict[str, str], results: dict[str, Path], kind: str, number: int
) -> None:
    """Python would take -1 as the last device, layer or node: the reader refuses it, or the referee."""
    problem = pipeplan.load(instances[kind])
    data = json.loads(results[kind].read_text("utf-8"))["plan"]
    places = [*whole_numbers(data)]
    # The devices of placements have names, and their nodes are those of the problem.
    assert places or kind == "placement"
    for place, key in places:
        before, place[key] = place[key], number
        with suppress(pipeplan.InputError):
            assert pipeplan.verify(problem, any_plan_from_json(data)), (place, key)
        place[key] = before
