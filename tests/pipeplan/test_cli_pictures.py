"""Pictures, memory over time and the unrolled pipeline on the command line; what an instance needs at least."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import Plan, done, has, refused


@pytest.fixture
def result(plan: Plan, tmp_path: Path) -> Path:
    path = tmp_path / "result.json"
    done(plan("solve", "golden-4", "--output", path, "--picture", tmp_path / "solved.svg"))
    return path


@pytest.mark.slow
def test_solve_and_show_draw_the_same_picture(plan: Plan, result: Path, tmp_path: Path) -> None:
    assert plan("show", "golden-4", result, "--picture", tmp_path / "shown.svg").code == 0
    assert (tmp_path / "shown.svg").read_bytes() == (tmp_path / "solved.svg").read_bytes()


@pytest.mark.slow("words1")
@pytest.mark.parametrize("words", [("show", "golden-4", "RESULT"), ("solve", "golden-4")])
def test_terminal_and_picture_show_one_view_of_a_plan(
    plan: Plan, result: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    """A view costs an evaluation by the referee, and often a simulation."""
    from pipeplan.show.views import chain

    views, make = [], chain.view
    monkeypatch.setattr(chain, "view", lambda *asked: views.append(make(*asked)) or views[-1])
    named = [result if word == "RESULT" else word for word in words]
    assert plan(*named, "--picture", tmp_path / "drawn.svg").code == 0
    assert len(views) == 1
    assert plan(*named, "--json").code == 0
    assert len(views) == 1, "machines are told facts, no view"


@pytest.mark.slow
def test_a_pattern_shows_its_memory_over_the_period(plan: Plan, result: Path) -> None:
    said = plan("show", "golden-4", result).out
    assert "memory over the same period; a full block is the limit, 34 B" in said
    assert "everything repeats" not in said


@pytest.mark.slow
def test_the_pipeline_is_unrolled_on_demand(plan: Plan, result: Path) -> None:
    said = plan("show", "golden-4", result, "--unrolled").out
    has(said, "gpu0 |00", "^ from here on everything repeats")


def test_what_cannot_be_drawn_is_refused_before_the_work(plan: Plan, tmp_path: Path) -> None:
    for arguments, words in (
        (("solve", "golden-4", "--picture", tmp_path / "plan.gif"), "name a file that ends in .svg, .png or .pdf"),
        (("solve", "golden-4", "--picture", tmp_path / "no" / "plan.svg"), "a folder that does not exist"),
        (("show", "golden-4", "--picture", tmp_path / "plan.svg"), "There is no plan to draw"),
        (("show", "tiny-stages", "plan.json", "--unrolled"), "--unrolled is for patterns of chains"),
    ):
        refused(plan(*arguments), words)
    assert not list(tmp_path.iterdir())


def test_no_plan_no_picture(plan: Plan, tmp_path: Path) -> None:
    said = plan("solve", "golden-4", "--memory", 8, "--picture", tmp_path / "plan.svg")
    assert said.code == 1
    assert not (tmp_path / "plan.svg").exists()


def test_why_there_is_no_plan_is_said_to_people_and_machines(plan: Plan) -> None:
    said = plan("solve", "golden-4", "--memory", 8)
    told = plan("solve", "golden-4", "--memory", 8, "--json").json["messages"]
    assert any("needs 29 B (proven to be the least)" in message for message in told)
    assert all(f"Note: {message}" in said.err for message in told)


def test_an_instance_alone_is_shown_with_what_it_needs_at_least(plan: Plan) -> None:
    said = done(plan("show", "golden-4"))
    assert "29 B (proven to be the least) per GPU" in said.out
    facts = plan("show", "golden-4", "--json").json
    assert facts["smallest_memory"]["memory_bytes"] == 29
    assert facts["smallest_memory"]["terms"]["weights"] == 12
    assert "smallest_memory" not in plan("show", "tiny-stages", "--json").json
