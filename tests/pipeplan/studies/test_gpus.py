"""Time of an iteration against the number of GPUs: every point is the optimum there, and a plan serves more GPUs."""

from __future__ import annotations

from typing import Any

import pytest
from command_line import Plan, done, has

import pipeplan
from pipeplan.instances.training.kind_functions import with_devices
from pipeplan.studies.gpus import devices_of
from pipeplan.studies.sweep import sweep


def test_each_point_is_the_optimum_on_so_many_gpus() -> None:
    problem: Any = pipeplan.load_packaged("tiny-training")
    found = sweep(problem)
    assert found.complete
    assert [point.limit for point in found.points] == [1, 2, 4]
    best = float("inf")
    for point in found.points:
        alone = pipeplan.solve(with_devices(problem, int(point.limit)))
        best = min(best, alone.objective or best)
        assert point.value == (None if best == float("inf") else best)
        if point.plan is not None:
            assert devices_of(point.plan) <= point.limit
            assert point.bound is not None
            assert point.bound <= point.value * (1 + 1e-9)


@pytest.mark.sweeps
def test_the_command_draws_json_table_and_picture(plan: Plan, tmp_path: Any) -> None:
    picture, report = tmp_path / "curve.svg", tmp_path / "curve.html"
    told = done(
        plan(
            "pareto", "tiny-training", "--gpus", 2, "--gpus", 4, "--json", "--picture", picture, "--report", report
        )
    )
    assert [point["gpus"] for point in told.json["points"]] == [2, 4]
    assert picture.stat().st_size > 1000
    assert report.stat().st_size > 10_000
    said = plan("pareto", "tiny-training", "--points", 2)
    has(said.out, "time of an iteration in ms", "GPU time")


def test_a_run_goes_on_where_it_was_cut(plan: Plan, tmp_path: Any) -> None:
    path = tmp_path / "points.jsonl"
    first = plan("pareto", "tiny-training", "--points", 2, "-o", path, "--json").json
    second = plan("pareto", "tiny-training", "--points", 2, "-o", path, "--json").json
    assert [point["value"] for point in first["points"]] == [point["value"] for point in second["points"]]


@pytest.mark.parametrize("words", [("--gpus", 3, "--memory", "4GiB"), ("--gpus", 0)])
def test_what_makes_no_sense_is_refused(plan: Plan, words: tuple[Any, ...]) -> None:
    said = plan("pareto", "tiny-training", *words)
    assert said.code == 2
    assert said.err.count("Error") == 1
