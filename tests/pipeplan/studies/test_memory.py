"""Values against memory, of stagings and schedules: enumeration, points by hand and by published optima; a sweep goes
on where it was left."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from command_line import Plan, done, refused
from oracles.leveled_staging import best_leveled
from oracles.staging import best_stages
from problems.stagings import random_staging

import pipeplan
from pipeplan.instances.base.errors import InputError, UsageError
from pipeplan.instances.catalogue import load_packaged
from pipeplan.instances.schedule.generators import divided_pipeline, equal_stages
from pipeplan.instances.schedule.problem import ScheduleProblem
from pipeplan.instances.staging.problem import DeviceType, StagingLevel, StagingProblem
from pipeplan.studies import memory
from pipeplan.studies.sweep import Curve, NothingKnownError, Settings, sweep


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
        (11.0, None), (12.0, 6.0), (21.0, 6.0), (22.0, 4.0),
    ]  # fmt: skip
    assert all(point.certified for point in curve.points)
    assert curve.ends is not None
    assert curve.ends.lower == 12.0 == curve.ends.least.need


def test_devices_with_memories_of_their_own_have_no_curve() -> None:
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

    monkeypatch.setattr(memory, "solve", solve)
    curve = sweep(load_packaged("tiny-levels"), Settings(chosen=(12.0, 20.0, 22.0)))
    assert not curve.complete
    assert [point.limit for point in curve.points] == [12.0, 22.0]


# ---- schedules: points by hand and by the published optima -----------------------------------------------------


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


def test_a_schedule_without_memory_has_no_curve() -> None:
    problem = small()
    bare = problem.replace(blocks=tuple(replace(block, memory={}) for block in problem.blocks))
    with pytest.raises(UsageError, match="takes any memory"):
        sweep(bare)


# ---- the command ---------------------------------------------------------------------------------------


ASKED = {
    "tiny-stages": (("--points", "3"), "smallest memory with any plan"),
    "tiny-levels": (("--points", "3"), "smallest memory with any plan: 12 B (proven)"),
    "small": (
        ("--objective", "span", "--memory", "2", "--memory", "4", "--memory", "12"),
        "smallest memory with any schedule: 2 half-activation (proven)",
    ),
}
"""The options, and what is said, by instance."""


@pytest.mark.sweeps
@pytest.mark.parametrize("instance", ASKED)
def test_the_command_writes_table_points_csv_and_picture_and_goes_on(
    plan: Plan, tmp_path: Path, instance: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {name: tmp_path / name for name in ("points.jsonl", "points.csv", "curve.svg")}
    pipeplan.save(small(), tmp_path / "small.json")
    options, words = ASKED[instance]
    problem = tmp_path / "small.json" if instance == "small" else instance
    asked = ("pareto", problem, *options, "--output", files["points.jsonl"])
    said = done(plan(*asked, "--csv", files["points.csv"], "--picture", files["curve.svg"]))
    assert words in said.out
    rows = list(csv.DictReader(files["points.csv"].read_text().splitlines()))
    assert [row["certified"] for row in rows] == ["yes"] * 3
    assert "</svg>" in files["curve.svg"].read_text()
    monkeypatch.setattr(memory, "solve", None)  # everything is in the file
    again = plan(*asked, "--json").json
    assert [point["value"] for point in again["points"]] == [float(row["value"]) for row in rows]
    head = json.loads(files["points.jsonl"].read_text().splitlines()[0])
    assert head["problem"]["kind"] == again["problem"]["kind"] == ("schedule" if instance == "small" else "staging")
    assert again["problem"].get("memory_unit") == ("half-activation" if instance == "small" else None)
    assert head["settings"].get("objective") == ("span" if instance == "small" else None)


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
    refused(plan("pareto", "tiny-levels", "--points", 3, "--output", file), "is rejected by the referee")


def test_what_belongs_to_chains_is_refused(plan: Plan) -> None:
    said = plan("pareto", "tiny-stages", "--method", "contiguous")
    refused(said, "--method says nothing about the curve of a staging problem")


def test_another_objective_is_another_curve(plan: Plan, tmp_path: Path) -> None:
    instance, points = tmp_path / "small.json", tmp_path / "points.jsonl"
    pipeplan.save(small(), instance)
    assert plan("pareto", instance, "--objective", "span", "--memory", "4", "--output", points).code == 0
    said = plan("pareto", instance, "--objective", "makespan", "--memory", "4", "--output", points)
    refused(said, "settings.objective")


def test_options_of_other_curves_mean_nothing(plan: Plan) -> None:
    assert "--objective says nothing" in plan("pareto", "golden-4", "--objective", "span").err
    assert "--gpus says nothing" in plan("pareto", "zero-bubble-4x12", "--gpus", "5").err
