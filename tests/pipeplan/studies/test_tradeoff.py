"""Load against latency: the curve is that of enumeration, goes on where it was left, and refuses nonsense."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from oracles.limited_latency import best_load, tradeoffs
from problems.placements import random_placement

from pipeplan.instances.base.errors import InputError
from pipeplan.planners.options import SolveOptions
from pipeplan.studies.pareto.stored import opened
from pipeplan.studies.pareto.tradeoff import settings_of, sweep

Plan = Callable[..., Any]
ONE = SolveOptions(time_limit_s=600, threads=1)


@pytest.mark.parametrize("seed", [1, 2, 5])
@pytest.mark.parametrize(("contiguous", "pieces"), [(True, 1), (False, 2)])
def test_the_curve_is_that_of_enumeration(seed: int, contiguous: bool, pieces: int) -> None:
    problem = random_placement(seed, 5, training=False)
    limits = tuple(latency for latency, _ in tradeoffs(problem, pieces, contiguous) if latency > 0)
    settings = settings_of(
        latency_limits=limits, non_contiguous=not contiguous, subgraphs_per_device=pieces, limits=ONE
    )
    curve = sweep(problem, settings)
    assert [point.limit for point in curve.points] == list(limits)
    for point in curve.points:
        assert point.certified, point
        assert point.value == pytest.approx(best_load(problem, point.limit, pieces, contiguous), rel=2e-6)
        assert point.need is not None
        assert point.need <= point.limit * (1 + 1e-9)


def test_levels_lie_between_the_quickest_plan_and_the_best_one() -> None:
    problem = random_placement(5, 6, training=False)
    curve = sweep(problem, settings_of(levels=4, limits=ONE))
    assert curve.ends is not None
    assert curve.complete
    assert curve.points[-1].value == pytest.approx(curve.ends.best.value, rel=2e-6)
    loads = [point.value for point in curve.points if point.value is not None]
    assert loads == sorted(loads, reverse=True)


def test_the_command_writes_table_points_csv_and_picture_and_goes_on(plan: Plan, tmp_path: Path) -> None:
    files = {name: tmp_path / name for name in ("points.jsonl", "points.csv", "curve.svg")}
    asked = ("pareto", "tiny-chain", "--points", 3, "--threads", 1, "--output", files["points.jsonl"])
    said = plan(*asked, "--csv", files["points.csv"], "--picture", files["curve.svg"])
    assert said.code == 0
    assert "least load without a limit: 6 ms (proven)" in said.out
    lines = files["points.jsonl"].read_text().splitlines()
    assert json.loads(lines[0])["problem"]["kind"] == "placement"
    rows = list(csv.DictReader(files["points.csv"].read_text().splitlines()))
    assert [row["certified"] for row in rows] == ["yes"] * len(rows)
    assert files["curve.svg"].read_text().lstrip().startswith("<?xml")

    again = plan(*asked, "--json").json
    assert files["points.jsonl"].read_text().splitlines() == lines  # nothing was done twice
    assert [point["max_load"] for point in again["points"]] == [float(row["max_load"]) for row in rows]


def test_limits_can_be_chosen(plan: Plan) -> None:
    facts = plan(
        "pareto", "tiny-chain", "--latency-limit", "20ms", "--latency-limit", "0.1ms", "--threads", 1, "--json"
    ).json
    assert [(p["latency_limit"], p["stop"]) for p in facts["points"]] == [(0.1, "infeasible"), (20, "proven")]


def test_what_makes_no_sense_is_refused_in_one_sentence(plan: Plan) -> None:
    wrong = {
        ("tiny-chain", "--memory", "3GB"): "--memory says nothing about the curve of a placement problem",
        ("tiny-chain", "--method", "dp"): "--method says nothing",
        ("tiny-chain", "--points", 1): "points is 1",
        ("tiny-chain", "--points", 3, "--latency-limit", "3"): "give one of them",
        ("tiny-chain", "--latency-limit", "3 apples"): "3 apples",
        ("tiny-chain", "--subgraphs-per-device", 2): "--non-contiguous",
        ("golden-4", "--latency-limit", "3"): "--latency-limit says nothing about the curve of a chain problem",
        ("resnet50-training",): "backward nodes",
    }
    for arguments, words in wrong.items():
        said = plan("pareto", *arguments)
        assert said.code == 2, arguments
        assert words in said.err
        assert said.err.count("\n") == 1


def test_a_stored_plan_is_judged_anew(tmp_path: Path) -> None:
    problem, path = random_placement(5, 5, training=False), tmp_path / "points.jsonl"
    settings = settings_of(levels=2, limits=ONE)
    facts: dict[str, object] = {"hash": problem.hash}
    sweep(problem, settings, opened(path, facts, {}, True))
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for line in lines:
        if line.get("plan"):
            line["plan"]["devices"] = line["plan"]["devices"][:1]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    with pytest.raises(InputError, match="is rejected by the referee"):
        sweep(problem, settings, opened(path, facts, {}, True))
