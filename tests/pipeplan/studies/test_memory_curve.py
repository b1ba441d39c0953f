"""Time against memory for stagings: enumeration at every memory, flat and on levels; goes on where it was left."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from oracles.leveled_staging import best_leveled
from oracles.staging import best_stages
from problems.stagings import random_staging

import pipeplan
from pipeplan.instances.base.errors import InputError
from pipeplan.instances.catalogue import load_packaged
from pipeplan.instances.staging.problem import DeviceType, StagingLevel, StagingProblem
from pipeplan.studies.pareto import stagings
from pipeplan.studies.pareto.curve import Curve, NothingKnownError, Settings
from pipeplan.studies.pareto.stagings import sweep

Plan = Callable[..., Any]


def leveled(seed: int) -> StagingProblem:
    flat = random_staging(seed, layers=(2, 3), exact_batches=False)
    levels = (StagingLevel(2, flat.bandwidth), StagingLevel(2, flat.bandwidth / 4))
    return flat.replace(devices=4, levels=levels)


def check(curve: Curve, best: Callable[[StagingProblem], Any]) -> None:
    """Every point is proven, and what enumeration finds."""
    assert curve.complete
    assert curve.points
    for point in curve.points:
        expected = best(curve.problem.replace(memory_bytes=point.limit))
        assert point.certified, point
        assert point.value == (None if expected is None else pytest.approx(expected[0], rel=1e-6))
        if point.value is not None and point.rival is not None:
            assert point.rival >= point.value * (1 - 1e-9)


@pytest.mark.parametrize("seed", range(8))
def test_flat_curves_are_those_of_enumeration(seed: int) -> None:
    check(sweep(random_staging(seed, layers=(2, 3), exact_batches=False), Settings(levels=5)), best_stages)


@pytest.mark.parametrize("seed", range(6))
def test_curves_on_levels_are_those_of_enumeration(seed: int) -> None:
    check(sweep(leveled(seed), Settings(levels=4)), lambda problem: best_leveled(problem, "precise"))


@pytest.mark.parametrize("make", [lambda seed: random_staging(seed, layers=(2, 3), exact_batches=False), leveled])
@pytest.mark.parametrize("seed", range(4))
def test_the_ends_are_ends(seed: int, make: Callable[[int], StagingProblem]) -> None:
    """No plan with what is called too little, one with the least, and the best without a limit at the last level."""
    problem = make(seed)
    ends = sweep(problem, Settings(levels=3)).ends
    assert ends is not None
    too_little = pipeplan.solve(problem.replace(memory_bytes=math.nextafter(ends.lower, 0.0)))
    assert ends.lower == 0 or too_little.stop == pipeplan.Stop.INFEASIBLE
    assert pipeplan.solve(problem.replace(memory_bytes=ends.least.need)).plan is not None
    assert ends.best.value == pytest.approx(pipeplan.solve(problem.replace(memory_bytes=None)).objective)


def test_tiny_levels_by_hand() -> None:
    """A layer on each device holds 10 and one byte for each micro-batch in flight; both on one hold 20 and two.

    With 12 bytes two are in flight on the first stage, as in the optimum of `tiny-levels`. With 22 a copy of both
    layers stands on each device, without any transfer: 16 / 4.
    """
    curve = sweep(load_packaged("tiny-levels"), Settings(chosen=(11.0, 12.0, 21.0, 22.0)))
    assert [(point.limit, point.value) for point in curve.points] == [
        (11.0, None),
        (12.0, 6.0),
        (21.0, 6.0),
        (22.0, 4.0),
    ]
    assert all(point.certified for point in curve.points)
    assert curve.ends is not None
    assert curve.ends.lower == 12.0 == curve.ends.least.need


def test_settings_that_make_no_sense_are_refused() -> None:
    with pytest.raises(InputError, match="points is 1"):
        sweep(load_packaged("tiny-stages"), Settings(levels=1))
    kinds = (DeviceType("big", 2, 1.0, 40.0), DeviceType("small", 2, 0.5, 20.0))
    typed = load_packaged("tiny-stages").replace(memory_bytes=None, device_types=kinds)
    with pytest.raises(InputError, match="device_types have memories of their own"):
        sweep(typed)


def test_no_time_is_said() -> None:
    nothing = pipeplan.SolveOptions(time_limit_s=0.0)
    with pytest.raises(NothingKnownError, match="give a longer --time-limit"):
        sweep(load_packaged("tiny-stages"), Settings(limits=nothing))


def test_an_interrupt_keeps_what_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[StagingProblem] = []

    def solve(problem: StagingProblem, **how: Any) -> pipeplan.Result:
        asked.append(problem)
        if problem.memory_bytes == 20.0:
            raise KeyboardInterrupt
        return pipeplan.solve(problem, **how)

    monkeypatch.setattr(stagings, "solve", solve)
    curve = sweep(load_packaged("tiny-levels"), Settings(chosen=(12.0, 20.0, 22.0)))
    assert not curve.complete
    assert [point.limit for point in curve.points] == [12.0, 22.0]


# ---- the command ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("instance", ["tiny-stages", "tiny-levels"])
def test_the_command_writes_table_points_csv_and_picture_and_goes_on(
    plan: Plan, tmp_path: Path, instance: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {name: tmp_path / name for name in ("points.jsonl", "points.csv", "curve.svg")}
    asked = ("pareto", instance, "--points", 3, "--output", files["points.jsonl"])
    said = plan(*asked, "--csv", files["points.csv"], "--picture", files["curve.svg"])
    assert said.code == 0, said.err
    assert "smallest memory with any plan" in said.out
    assert "(proven)" in said.out
    rows = list(csv.DictReader(files["points.csv"].read_text().splitlines()))
    assert [row["certified"] for row in rows] == ["yes"] * 3
    assert "</svg>" in files["curve.svg"].read_text()
    monkeypatch.setattr(stagings, "solve", None)  # everything is in the file
    again = plan(*asked, "--json").json
    assert [point["value"] for point in again["points"]] == [float(row["value"]) for row in rows]
    assert json.loads(files["points.jsonl"].read_text().splitlines()[0])["problem"]["kind"] == "staging"


def test_memories_in_place_of_levels(plan: Plan) -> None:
    data = plan("pareto", "tiny-stages", "--memory", "35B", "--memory", "50B", "--json").json
    assert [(point["memory_bytes"], point["value"]) for point in data["points"]] == [(35.0, 6.0), (50.0, 5.0)]
    assert plan("pareto", "tiny-stages", "--memory", "35B", "--points", 3).code == 2


def test_a_plan_that_was_changed_does_not_stand(plan: Plan, tmp_path: Path) -> None:
    file = tmp_path / "points.jsonl"
    assert plan("pareto", "tiny-levels", "--points", 3, "--output", file).code == 0
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    for line in lines:
        if line.get("record") == "point" and line["plan"] is not None:
            line["plan"]["stages"] = line["plan"]["stages"] * 2
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    said = plan("pareto", "tiny-levels", "--points", 3, "--output", file)
    assert said.code == 2
    assert "is rejected by the referee" in said.err


def test_what_belongs_to_chains_is_refused(plan: Plan) -> None:
    said = plan("pareto", "tiny-stages", "--method", "contiguous")
    assert said.code == 2
    assert "--method says nothing about the curve of a staging problem" in said.err
