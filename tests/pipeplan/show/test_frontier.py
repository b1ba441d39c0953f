"""The proven frontier of the explorer: its points are schedules that the referee accepts, and no rule is below."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from fractions import Fraction
from itertools import pairwise
from typing import Any

import pytest
from frontier import LETTERS, PASSES, PICTURED, RULES, SHAPES, problem_of

import pipeplan
from pipeplan.instances.schedule.plan import SchedulePlan
from pipeplan.show import page

GRID: list[dict[str, Any]] = json.loads(page.asset("frontier.json"))
WORD = re.compile(r"(\d*)([FIWGJX])([a-z])")
ALONE = {letter: (kind, chunk) for kind, letters in LETTERS.items() for chunk, letter in enumerate(letters)}


def name_of(point: dict[str, Any]) -> str:
    return f"{point['shape']}-{point['stages']}x{point['batches']}-{point['passes']}"


def plan_of(point: dict[str, Any], rows: list[str]) -> SchedulePlan:
    """What the page draws, read again: each device's passes with the waits between them."""
    problem = problem_of(point["shape"], point["stages"], point["batches"], tuple(point["passes"]), None)
    starts: dict[str, dict[int, Fraction]] = defaultdict(dict)
    for device, text in zip(problem.devices, rows, strict=True):
        own = [block for block in problem.blocks if block.devices == (device.name,)]
        chunks = sorted({block.stage for block in own}, key=str)
        by_pass = {(block.kind, chunks.index(block.stage)): block for block in own}
        now = Fraction(0)
        assert "".join(match[0] for match in WORD.finditer(text)) == text
        for wait, letter, batch in WORD.findall(text):
            block = by_pass[ALONE[letter]]
            now += Fraction(wait or 0)
            starts[block.id][ord(batch) - ord("a")] = now
            now += Fraction(block.time)
    return SchedulePlan({block: tuple(own[n] for n in range(point["batches"])) for block, own in starts.items()})


def test_the_grid_is_whole() -> None:
    wanted = {(shape, *size, passes) for shape in SHAPES for size in SHAPES[shape][2] for passes in PASSES}
    assert {(own["shape"], own["stages"], own["batches"], tuple(own["passes"])) for own in GRID} == wanted
    for point in GRID:
        assert {own["name"] for own in point["rules"]} <= set(RULES[point["shape"]])
        assert point["best"], name_of(point)


@pytest.mark.at_once(6)
@pytest.mark.parametrize("point", GRID, ids=name_of)
def test_every_schedule_is_one_that_the_referee_accepts(point: dict[str, Any]) -> None:
    for own in [*point["rules"], *point["best"]]:
        limit = own.get("limit", own["memory"])
        problem = problem_of(point["shape"], point["stages"], point["batches"], tuple(point["passes"]), limit)
        plan = plan_of(point, own["passes"])
        assert not pipeplan.verify(problem, plan), own["name"]
        found = pipeplan.evaluate(problem, plan)
        assert found.span == own["time"]
        assert max(device.peak for device in found.devices) == own["memory"] <= limit


def test_no_rule_lies_below_the_frontier_and_more_memory_is_never_worse() -> None:
    for point in GRID:
        best = point["best"]
        for one, other in pairwise(best):
            assert one["limit"] < other["limit"]
            assert one["time"] > other["time"]
        assert all(own["bound"] <= own["time"] for own in best)
        for rule in point["rules"]:
            within = [own for own in best if own["limit"] <= rule["memory"]]
            assert min(own["time"] for own in within) <= rule["time"], (name_of(point), rule["name"])
            assert max(own["limit"] for own in within) <= rule["memory"]


def test_most_points_are_proven() -> None:
    one = [own for point in GRID if point["shape"] == "one" for own in point["best"]]
    assert sum(own["bound"] >= own["time"] * (1 - 1e-9) for own in one) >= 0.75 * len(one)


def test_the_line_of_the_picture_is_proven_whole() -> None:
    (point,) = (
        own for own in GRID if [own[key] for key in ("shape", "stages", "batches", "passes")] == list(PICTURED)
    )
    assert all(own["bound"] >= own["time"] * (1 - 1e-9) for own in point["best"])
