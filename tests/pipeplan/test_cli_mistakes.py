"""More than two hundred plausible mistakes: each answer is one sentence, names the place, and proposes what works."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import typer
from command_line import Plan, refused
from problems.mistaken_commands import COMMANDS, MISTAKES, OPTIONS, Mistake

import pipeplan
from pipeplan.cli.app import COMMANDS as OURS
from pipeplan.cli.app import GROUPS, app


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("mistakes")
    made = {name: folder / file for name, file in (("plan", "plan.json"), ("problem", "problem.json"))}
    pipeplan.save(pipeplan.solve("tiny-chain", planner="greedy"), made["plan"])
    pipeplan.save(pipeplan.load("tiny-chain"), made["problem"])
    made["text"] = folder / "text.txt"
    made["text"].write_text("Dear all, this is no problem.\n", "utf-8")
    made["folder"] = folder / "folder"
    made["folder"].mkdir()
    return made


def test_there_are_two_hundred() -> None:
    assert len({mistake.words for mistake in MISTAKES}) >= 200


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.words)
def test_a_mistake_is_answered_with_what_works(
    plan: Plan, files: dict[str, Path], monkeypatch: pytest.MonkeyPatch, mistake: Mistake
) -> None:
    monkeypatch.chdir(files["folder"].parent)
    done = plan(*(word.format_map(files) for word in mistake.words.split()))
    error = [line for line in done.err.splitlines() if line.startswith("Error: ")]
    assert (done.code, len(error)) == (2, 1), done
    assert "internal error" not in error[0]
    assert error[0].endswith("."), error
    assert (mistake.place or mistake.wrong) in error[0]
    if mistake.right is None:
        assert "did you mean" not in error[0]
    else:
        assert mistake.right in error[0]
    assert ";" in error[0] or "(did you mean" in error[0] or "--help" in error[0], error


def test_what_is_proposed_for_a_command_is_a_command() -> None:
    assert {right for right in COMMANDS.values() if right} <= {*OURS, *GROUPS}


def test_what_is_proposed_for_an_option_is_an_option(plan: Plan) -> None:
    solve: Any = typer.main.get_command(app).commands["solve"]  # type: ignore[attr-defined]
    listed = plan("solve", "--help-all").out + "".join(f"--{name} " for name in solve.callback.narrow)
    assert not [right for right in OPTIONS.values() if right and right not in listed]


KEYS = {
    ("tiny-chain", "accelerator_time", "acc_time"): 'nodes[0].acc_time is an unknown key; write "accelerator_time"',
    ("golden-4", "memory", "memory_bytes"): 'memory_bytes is an unknown key; write "memory"',
    ("tiny-stages", "micro_batches", "microbatches"): 'microbatches is an unknown key; write "micro_batches"',
}


@pytest.mark.parametrize(("name", "ours", "theirs"), KEYS)
def test_a_misnamed_key_of_a_file(plan: Plan, tmp_path: Path, name: str, ours: str, theirs: str) -> None:
    path = tmp_path / "problem.json"
    pipeplan.save(pipeplan.load(name), path)
    path.write_text(path.read_text("utf-8").replace(f'"{ours}"', f'"{theirs}"'), "utf-8")
    refused(plan("solve", path), KEYS[name, ours, theirs])
