"""A schedule's value against memory: proven points by hand and by the published optima; goes on where it was left."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import pipeplan
from pipeplan.instances.base.errors import UsageError
from pipeplan.instances.schedule.pipelines import divided_pipeline, equal_stages
from pipeplan.instances.schedule.problem import ScheduleProblem
from pipeplan.studies.pareto import schedules
from pipeplan.studies.pareto.curve import Settings
from pipeplan.studies.pareto.schedules import sweep

Plan = Callable[..., Any]


def small(micro_batches: int | None = 3) -> ScheduleProblem:
    """Two stages of 1, 1 and 1, which take 2 and give back 1 and 1."""
    return divided_pipeline(equal_stages(2, 1, 1, 1), micro_batches, 4, name="small")


def test_a_curve_by_hand() -> None:
    """Nothing passes with 1. With 2 each micro-batch goes alone, and device 0 starts the next one after 5: 3 x 5.

    With 4 device 0 runs F F and idles until the first gradient is there at 3: 9 passes and 1. With room for a third F
    it never idles.
    """
    curve = sweep(small(), Settings(chosen=(1, 2, 4, 12), options={"objective": "span"}))
    assert curve.complete
    assert [point.certified for point in curve.points] == [True] * 4
    assert [point.value for point in curve.points] == [None, 15, 10, 9]
    for point in curve.points[1:]:
        assert point.need is not None
        assert point.need <= point.limit
        assert point.value is not None
        assert point.rival is None or point.rival >= point.value
        assert point.bubble == pytest.approx(1 - 9 / point.value)


def test_levels_lie_between_the_least_memory_and_that_of_the_unlimited_optimum() -> None:
    curve = sweep(small(), Settings(levels=3, options={"objective": "makespan"}))
    assert curve.ends is not None
    assert curve.ends.least_proven
    assert curve.ends.lower == 2 == curve.points[0].limit
    assert curve.points[-1].value == curve.ends.best.value
    # Idle over what is minimised, which is longer than the span of any device.
    assert [point.bubble for point in curve.points] == pytest.approx([1 - 9 / (p.value or 0) for p in curve.points])


@pytest.mark.slow
def test_the_published_optima_are_points_of_one_curve() -> None:
    """4 x 12 with 5, 6 and 4: 201, 193, 188 and 181 in 8, 10, 12 and 16 halves of activations."""
    problem = pipeplan.load_packaged("zero-bubble-4x12")
    curve = sweep(problem, Settings(chosen=(8, 10, 12, 16), options={"objective": "span"}))
    assert [(point.value, point.certified) for point in curve.points] == [
        (201, True), (193, True), (188, True), (181, True)
    ]  # fmt: skip


def test_what_has_no_curve_is_refused() -> None:
    problem = small()
    bare = problem.replace(blocks=tuple(replace(block, memory={}) for block in problem.blocks))
    with pytest.raises(UsageError, match="takes any memory"):
        sweep(bare)


def test_the_command_writes_table_points_csv_and_picture_and_goes_on(
    plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    instance = tmp_path / "small.json"
    pipeplan.save(small(), instance)
    files = {name: tmp_path / name for name in ("points.jsonl", "points.csv", "curve.svg")}
    asked = (
        "pareto",
        instance,
        "--objective",
        "span",
        "--memory",
        "2",
        "--memory",
        "4",
        "--output",
        files["points.jsonl"],
    )
    said = plan(*asked, "--csv", files["points.csv"], "--picture", files["curve.svg"])
    assert said.code == 0, said.err
    assert "2 half-activation" in said.out
    assert "smallest memory with any schedule: 2 half-activation (proven)" in said.out
    rows = list(csv.DictReader(files["points.csv"].read_text().splitlines()))
    assert [(float(row["memory"]), row["certified"]) for row in rows] == [(2, "yes"), (4, "yes")]
    assert "</svg>" in files["curve.svg"].read_text()
    monkeypatch.setattr(schedules, "solve", None)  # everything is in the file
    again = plan(*asked, "--json").json
    assert [point["value"] for point in again["points"]] == [float(row["value"]) for row in rows]
    assert again["problem"]["memory_unit"] == "half-activation"
    assert json.loads(files["points.jsonl"].read_text().splitlines()[0])["settings"]["objective"] == "span"


def test_another_objective_is_another_curve(plan: Plan, tmp_path: Path) -> None:
    instance, points = tmp_path / "small.json", tmp_path / "points.jsonl"
    pipeplan.save(small(), instance)
    assert plan("pareto", instance, "--objective", "span", "--memory", "4", "--output", points).code == 0
    said = plan("pareto", instance, "--objective", "makespan", "--memory", "4", "--output", points)
    assert (said.code, "settings.objective" in said.err) == (2, True)


def test_options_of_other_curves_mean_nothing(plan: Plan) -> None:
    assert "--objective says nothing" in plan("pareto", "golden-4", "--objective", "span").err
    assert "--gpus says nothing" in plan("pareto", "zero-bubble-4x12", "--gpus", "5").err
