"""`--allocation FILE`: the allocation itself is stored, so that the file may go, and everybody checks it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from command_line import Plan, done, refused


@pytest.fixture
def solved(plan: Plan, tmp_path: Path) -> Path:
    """The result of a run whose file is gone."""
    given, result = tmp_path / "given.json", tmp_path / "result.json"
    given.write_text("[1, 0, 0, 1]", "utf-8")
    options = ("--planner", "exact-beaumont", "--allocation", given, "--output", result)
    assert plan("solve", "golden-4", *options).code == 0
    given.unlink()
    return result


def edited(result: Path, **options: Any) -> Path:
    data = json.loads(result.read_text("utf-8"))
    data["options"] |= options
    result.write_text(json.dumps(data), "utf-8")
    return result


def test_a_saved_result_needs_the_file_no_more(plan: Plan, solved: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    assert plan("report", solved, "--output", page).code == 0
    assert "<dt>allocation</dt><dd>[1, 0, 0, 1]</dd>" in page.read_text("utf-8")
    checked = plan("verify", "golden-4", solved, "--json")
    assert (checked.code, checked.json["options"]) == (0, {"allocation": [1, 0, 0, 1]})
    assert plan("show", "golden-4", solved).code == 0


def test_a_plan_of_another_allocation_is_rejected(plan: Plan, solved: Path, tmp_path: Path) -> None:
    result = edited(solved, allocation=[0, 1, 0, 1])
    checked = plan("verify", "golden-4", result, "--json")
    assert checked.code == 3
    assert [violation["rule"] for violation in checked.json["violations"]] == ["allocation"]
    assert plan("show", "golden-4", result).code == 3
    page = tmp_path / "page.html"
    assert plan("report", result, "--output", page).code == 0
    assert "Layers share GPUs as" in page.read_text("utf-8")


def test_an_old_result_that_names_a_file_says_that_this_was_not_checked(
    plan: Plan, solved: Path, tmp_path: Path
) -> None:
    result = edited(solved, allocation="long-gone.json")
    words = "the result names a file for its allocation, 'long-gone.json', and not the allocation itself"
    for command in ("verify", "show"):
        answer = done(plan(command, "golden-4", result))
        assert words in " ".join(answer.err.split())
    page = tmp_path / "page.html"
    assert plan("report", result, "--output", page).code == 0
    assert "was not checked" in page.read_text("utf-8")


def test_nonsense_is_refused_in_one_sentence(plan: Plan, solved: Path) -> None:
    refused(plan("verify", "golden-4", edited(solved, allocation=[[0], 1, 1, 0])), "puts layer 1 on GPU")
