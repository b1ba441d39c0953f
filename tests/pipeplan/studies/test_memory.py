"""Values against memory: enumeration, points by hand and by published optima; a sweep goes on where it was
left."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from command_line import done
from oracles.leveled_staging import best_leveled
from oracles.staging import best_stages
from problems.stagings import random_staging

import pipeplan
from pipeplan import MemoryStudy, ScheduleProblem, SolveOptions, StagingLevel, StagingProblem, memory_study
from pipeplan.instances.base.json_file import write_json
from pipeplan.instances.schedule.generators import divided_pipeline, equal_stages
from pipeplan.instances.schedule.kind_functions import schedule_to_json
from pipeplan.studies import memory


def leveled(seed: int) -> StagingProblem:
    flat = random_staging(seed, layers=(2, 3))
    levels = (StagingLevel(2, flat.bandwidth), StagingLevel(2, flat.bandwidth / 4))
    return flat.replace(devices=4, levels=levels)


def check(study: MemoryStudy, best: Callable[[StagingProblem], Any]) -> None:
    """Every point is proven, and what enumeration finds."""
    assert study.complete
    assert study.points
    for point in study.points:
        expected = best(study.problem.replace(memory_bytes=point.limit))
        assert point.certified, point
        assert point.value == (None if expected is None else pytest.approx(expected[0], rel=1e-6))


@pytest.mark.parametrize("seed", range(8))
def test_flat_curves_are_those_of_enumeration(seed: int) -> None:
    check(memory_study(random_staging(seed, layers=(2, 3)), points=5), best_stages)


@pytest.mark.parametrize("seed", range(6))
def test_curves_on_levels_are_those_of_enumeration(seed: int) -> None:
    check(memory_study(leveled(seed), points=4), best_leveled)


def test_an_interrupt_keeps_what_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[StagingProblem] = []

    def solve(problem: StagingProblem, **how: Any) -> pipeplan.Result:
        asked.append(problem)
        if len(asked) == 3:
            raise KeyboardInterrupt
        return pipeplan.solve(problem, **how)

    monkeypatch.setattr(memory, "solve", solve)
    study = memory_study("tiny-levels", points=4)
    assert not study.complete
    assert [point.limit for point in study.points] == [12.0, 22.0]


def test_a_curve_by_hand() -> None:
    """Two stages of 1, 1 and 1, which take 2 and give back 1 and 1; three micro-batches.

    With 2 each micro-batch goes alone, and device 0 starts the next one after 5: 3 x 5. With 4 device 0 runs F F and
    idles until the first gradient is there at 3: 9 passes and 1. With room for a third F it never idles.
    """
    problem = divided_pipeline(equal_stages(2, 1, 1, 1), 3, 4, name="small")
    study = memory_study(problem, options={"objective": "span"}, points=9)
    assert study.least.proven
    assert all(point.certified for point in study.points)
    values = {point.limit: point.value for point in study.points}
    assert (values[2], values[4], min(values.values())) == (15, 10, 9)


SMALL = divided_pipeline(equal_stages(2, 1, 2, 1), None, 3, lag=1.1, name="small")
LIMITS = SolveOptions(time_limit_s=600, threads=1)


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
    assert "small: 2 half-activation of memory per device is the smallest amount with a plan (proven" in said.out
    assert "more memory does not help" in said.out
    assert "bytes" not in said.out
