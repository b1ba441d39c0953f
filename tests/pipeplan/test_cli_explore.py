"""`plan explore`: the page alone, or with the stages of a plan."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import Plan, has, refused


def test_without_a_plan_the_page_has_equal_stages(
    plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    said = plan("explore")
    assert (said.code, said.out) == (0, "page: explore.html; open it in a browser\n")
    assert said.err == "wrote explore.html\n"
    text = (tmp_path / "explore.html").read_text("utf-8")
    assert 'id="stages"' in text
    assert plan("explore", "--json", "-o", "again.html").json == {"page": "again.html", "bytes": len(text.encode())}
    assert (tmp_path / "again.html").read_text("utf-8") == text


def test_with_a_plan_its_stages_are_given_and_its_cluster_is_that_of_the_result(plan: Plan, tmp_path: Path) -> None:
    result, page = tmp_path / "result.json", tmp_path / "page.html"
    assert plan("solve", "golden-4", "--memory", 40, "--planner", "contiguous", "-o", result).code == 0
    assert plan("explore", "golden-4", result, "-o", page).code == 0
    text = page.read_text("utf-8")
    assert "<title>Explore a pipeline: golden-4</title>" in text
    assert 'id="stages"' not in text
    has(text, 'id="limit"', 'value="40.0"')
    assert plan("explore", "golden-4", result, "--memory", "none", "-o", page).code == 0
    assert 'id="limit"' not in page.read_text("utf-8")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("tiny-stages",), "There is no plan to explore; name its file after tiny-stages, or name neither."),
        (
            ("--devices", 2),
            "There is no plan whose cluster could change; name INSTANCE and PLAN, or drop the options.",
        ),
    ],
)
def test_half_of_a_plan_is_refused(plan: Plan, words: tuple[object, ...], sentence: str) -> None:
    said = plan("explore", *words)
    assert (said.code, " ".join(said.err.split())) == (2, f"Error: {sentence}")


def test_a_plan_that_the_sliders_cannot_say_is_refused(plan: Plan, tmp_path: Path) -> None:
    result = tmp_path / "result.json"
    assert plan("solve", "tiny-chain", "--planner", "dp", "-o", result).code == 0
    said = plan("explore", "tiny-chain", result, "-o", tmp_path / "page.html")
    refused(said, "of this plan it has no backward passes; `plan simulate` shows it.")
