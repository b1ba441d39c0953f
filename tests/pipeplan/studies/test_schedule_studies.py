"""What memory and better devices are worth to a schedule, in the unit in which its problem counts memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from command_line import done
from oracles.schedule import least_period

import pipeplan
from pipeplan.instances.base.json_file import write_json
from pipeplan.instances.schedule.generators import divided_pipeline, equal_stages
from pipeplan.instances.schedule.kind_functions import schedule_to_json, with_memory
from pipeplan.instances.schedule.problem import ScheduleProblem
from pipeplan.planners.options import SolveOptions
from pipeplan.studies.memory import memory_study
from pipeplan.studies.sensitivity import variants
from pipeplan.studies.stage_schedule import best_rule, rule_schedules

SMALL = divided_pipeline(equal_stages(2, 1, 2, 1), None, 3, lag=1.1, name="small")
BYTES = replace(SMALL, memory_unit="bytes")
LIMITS = SolveOptions(time_limit_s=600, threads=1)


@pytest.mark.slow
def test_every_point_of_the_study_is_the_optimum_with_so_much_memory() -> None:
    study = memory_study(SMALL, limits=LIMITS)
    assert study.least.memory_bytes == 2
    assert study.complete
    assert len(study.points) > 1
    for point in study.points:
        optimum = least_period(with_memory(SMALL, point.memory_bytes))
        assert optimum is not None
        assert point.certified
        assert point.value == pytest.approx(float(optimum), rel=1e-12)
    best = study.no_more_helps
    assert best is not None
    assert best.value == 4  # the work of a device
    assert len({point.memory_bytes for point in study.points}) == len(study.points)


def test_where_the_value_without_a_limit_is_missing_nothing_is_said_of_more_memory() -> None:
    study = memory_study(SMALL, limits=LIMITS, points=2)
    assert study.no_more_helps is not None
    assert replace(study, open_above=True).no_more_helps is None
    assert replace(study, open_above=True).to_json()["no_more_helps_from_bytes"] is None


def written(problem: ScheduleProblem, folder: Path) -> Path:
    path = folder / "small.json"
    write_json(str(path), schedule_to_json(problem))
    return path


def test_the_command_says_the_unit(plan: Callable[..., Any], tmp_path: Path) -> None:
    said = done(plan("memory", written(SMALL, tmp_path), "--points", 2))
    assert "small: 2 half-activation of memory per device is the least with a plan (proven" in said.out
    assert "more memory does not help" in said.out
    assert "bytes" not in said.out


# ---- better devices ------------------------------------------------------------------------------------


def changes(problem: ScheduleProblem) -> dict[str, Any]:
    return {variant.change: variant.problem for variant in variants(problem)}


def test_more_memory_is_a_share_where_it_is_not_counted_in_bytes() -> None:
    found = changes(SMALL)
    assert [device.memory for device in found["10 % more memory"].devices] == [3.3, 3.3]
    assert [device.memory for device in changes(BYTES)["1 GB more memory"].devices] == [3 + 1e9] * 2


def test_one_device_at_a_time_is_faster_and_so_are_all_lags() -> None:
    found = changes(SMALL)
    assert list(found) == [
        "10 % more memory", "d0 1.1 times as fast", "d1 1.1 times as fast", "10 % more bandwidth",
    ]  # fmt: skip
    assert [block.time for block in found["d1 1.1 times as fast"].blocks] == [1, 2, 1, 0.9091, 1.818, 0.9091]
    assert {edge.lag for edge in found["10 % more bandwidth"].edges} == {0, 1}


def test_links_and_devices_without_limits_get_no_more() -> None:
    free = with_memory(SMALL, None)
    assert "10 % more memory" not in changes(free)


@pytest.mark.sweeps
def test_the_command_says_what_each_change_is_worth(plan: Callable[..., Any], tmp_path: Path) -> None:
    said = done(plan("sensitivity", written(SMALL, tmp_path), "--time-limit", "600s"))
    assert said.out.startswith("as it is (2 devices, 3 half-activation): ")
    assert "10 % more memory (3.3 half-activation)" in said.out
    for change, better in changes(SMALL).items():
        assert change in said.out
        optimum = least_period(better)
        assert optimum is not None
        assert f"{float(optimum):.7g}" in said.out


@pytest.mark.sweeps
def test_no_change_makes_the_optimum_worse() -> None:
    base = pipeplan.solve(SMALL, limits=LIMITS).objective
    assert base is not None
    for change, better in changes(SMALL).items():
        value = pipeplan.solve(better, limits=LIMITS).objective
        assert value is not None
        assert value <= base + 1e-9, change


def test_of_rules_that_are_as_fast_the_one_with_the_least_memory_is_named() -> None:
    """GPipe holds all micro-batches and 1F1B one for each device; on equal stages both take as long."""
    problem = replace(pipeplan.load_packaged("v-shape-4"), micro_batches=8)
    rules = {known.rival.name: known for known in rule_schedules(problem, "makespan", LIMITS)}
    assert rules["gpipe"].rival.value == rules["1f1b"].rival.value
    assert rules["gpipe"].rival.peak == 8 > rules["1f1b"].rival.peak == 4
    assert best_rule([rules["gpipe"], rules["1f1b"]]) is rules["1f1b"]
