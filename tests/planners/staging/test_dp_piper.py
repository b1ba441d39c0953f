"""`dp-piper` and what it is compared with: brute force, the published program's values, restrictions, limits."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from oracles.staging import best_stages
from problems.stagings import random_staging

from pipeplan.instances.base.errors import InputError
from pipeplan.instances.base.result import Found, Result, Stop
from pipeplan.instances.catalogue import load_packaged
from pipeplan.instances.staging.kind_functions import staging_from_published
from pipeplan.instances.staging.problem import Configuration, Edge, Layer, StagingProblem
from pipeplan.instances.staging.referee.stages import verify_stages
from pipeplan.planners.options import SolveOptions
from pipeplan.planners.run.solve import solve
from pipeplan.planners.staging import model as tables

SEEDS = range(100)


def plan(problem: StagingProblem, planner: str = "dp-piper", **options: Any) -> Result:
    return solve(problem, planner=planner, options=options, limits=SolveOptions(threads=1))


def check(problem: StagingProblem, semantics: str) -> bool:
    """Equal to brute force; was there a plan?"""
    result, best = plan(problem, semantics=semantics), best_stages(problem, semantics)
    if best is None:
        assert (result.stop, result.found) == (Stop.INFEASIBLE, Found.NOTHING), result.messages
        return False
    assert (result.stop, result.found) == (Stop.PROVEN, Found.OPTIMAL), result.messages
    assert result.objective == pytest.approx(best[0], rel=1e-9)
    return True


@pytest.mark.parametrize("semantics", ["paper", "reference"])
@pytest.mark.parametrize("seeds", range(5))
def test_equals_brute_force(seeds: int, semantics: str) -> None:
    """Several configurations, weights that differ, degrees that some layers lack, tight memory, exactly N."""
    assert sum(check(random_staging(seed), semantics) for seed in SEEDS[seeds::5]) >= 10


@pytest.mark.sweeps
def test_compiled_loops_say_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "COMPILED_FROM", 0)
    for seed in SEEDS[::7]:
        for semantics in ("paper", "reference"):
            check(random_staging(seed), semantics)


@pytest.mark.sweeps
@pytest.mark.parametrize("seeds", range(5))
def test_the_published_greedy_is_never_better_than_the_exact_knapsack(seeds: int) -> None:
    for seed in SEEDS[seeds::5]:
        problem = random_staging(seed)
        exact, greedy = plan(problem), plan(problem, knapsack="greedy")
        assert (exact.objective is None) == (greedy.objective is None)
        if exact.objective is not None and greedy.objective is not None:
            assert exact.objective <= greedy.objective * (1 + 1e-12)
            assert greedy.bound is None or greedy.bound <= exact.objective * (1 + 1e-9)


@pytest.mark.sweeps
def test_a_restriction_never_helps_and_keeps_its_word() -> None:
    for seed in SEEDS[::2]:
        problem = random_staging(seed, exact_batches=False)
        best = plan(problem).objective
        for name in ("piper-no-dp", "piper-no-tp", "piper-no-ar", "equi", "equi-no-tp"):
            result = plan(problem, name)
            assert result.bound is None
            if result.objective is None:
                continue
            assert best is not None
            assert best <= result.objective * (1 + 1e-12)
            assert result.plan is not None
            for stage in result.plan.stages:
                assert name != "piper-no-dp" or stage.data_parallel == 1
                assert name not in ("piper-no-tp", "equi-no-tp") or stage.tensor_parallel == 1
                assert name != "piper-no-ar" or not any("recomp" in way for way in stage.configurations.values())


@pytest.mark.sweeps
def test_more_of_anything_never_hurts() -> None:
    for seed in SEEDS[::4]:
        problem = random_staging(seed, exact_batches=False)
        value = plan(problem).objective
        for better in (
            problem.replace(devices=problem.devices + 1),
            problem.replace(memory_bytes=problem.memory_bytes and problem.memory_bytes * 1.3),
            problem.replace(bandwidth=problem.bandwidth * 1.1),
            problem.replace(micro_batches=problem.micro_batches + 1),
        ):
            other = plan(better).objective
            assert value is None or (other is not None and other <= value * (1 + 1e-12))


def test_a_wide_network_has_too_many_downsets() -> None:
    way = {1: (Configuration("only", 1.0),)}
    layers = tuple(Layer(i, way) for i in range(15))
    problem = StagingProblem(layers, (), devices=2, bandwidth=1.0, micro_batches=4)
    with pytest.raises(InputError, match="more than 20000 downsets"):
        plan(problem)
    assert plan(problem.replace(layers=layers[:6])).objective == pytest.approx(3.0)


def test_no_time_is_no_success() -> None:
    result = solve(random_staging(1), planner="dp-piper", limits=SolveOptions(time_limit_s=0.0))
    assert (result.stop, result.found) == (Stop.TIME, Found.NOTHING)


def test_in_flight_batches_fill_the_memory_of_early_stages() -> None:
    """Two equal layers, 1 byte per batch in flight: the first stage holds two batches, the second one."""
    way = {1: (Configuration("keep", 2.0, memory_per_batch=1.0), Configuration("recomp", 3.0))}
    problem = StagingProblem(
        (Layer("a", way), Layer("b", way)), (Edge("a", "b"),), devices=2, bandwidth=1.0, micro_batches=9
    )
    assert plan(problem.replace(memory_bytes=2.0)).objective == pytest.approx(2.0)
    tight = plan(problem.replace(memory_bytes=1.0))
    assert tight.objective == pytest.approx(2.5)  # both on both devices, one of them computed again: (2 + 3) / 2
    assert tight.plan is not None
    assert plan(problem.replace(memory_bytes=0.0)).objective == pytest.approx(3.0)


# ---- published inputs ----------------------------------------------------------------------------------

PLANNERS = {
    "piper": "dp-piper",
    "noDP": "piper-no-dp",
    "noTP": "piper-no-tp",
    "noAR": "piper-no-ar",
    "equi": "equi",
    "equi-noTP": "equi-no-tp",
    "checker-piper": "dp-piper",
}
FILES = {"bert32": "bert32a100", "resnet50": "resnet"}
EQUAL_UP_TO = 128
"""Devices up to which the equal stages are tried by default; more take minutes (`--slow`)."""


def rows(folder: Path) -> list[dict[str, str]]:
    with (folder / "piper" / "reference.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def published(folder: Path, workload: str) -> StagingProblem:
    return staging_from_published(json.loads((folder / "piper" / f"{FILES[workload]}.json").read_text()), workload)


def parts(row: dict[str, str]) -> tuple[str, str]:
    """Algorithm and semantics."""
    name, _, suffix = row["algorithm"].partition("(")
    return name, "paper" if suffix == "papersem)" else "reference"


def on_its_cluster(problem: StagingProblem, row: dict[str, str]) -> StagingProblem:
    return problem.replace(
        devices=int(row["K"]),
        memory_bytes=float(row["memory_bytes"]),
        micro_batches=int(row["N"]),
        bandwidth=float(row["bandwidth"]),
    )


def reproduce(folder: Path, workload: str, algorithms: set[str], large: bool) -> int:
    problem, count = published(folder, workload), 0
    for row in rows(folder):
        name, semantics = parts(row)
        if row["workload"] != workload or name not in algorithms:
            continue
        if name.startswith("equi") and (int(row["K"]) > EQUAL_UP_TO) != large:
            continue
        options: dict[str, Any] = {"semantics": semantics}
        if not name.startswith("equi"):
            options["knapsack"] = "greedy"
        if name == "checker-piper":
            problem_here = _without_tensor_parallelism(on_its_cluster(problem, row))
        else:
            problem_here = on_its_cluster(problem, row)
        result = plan(problem_here, PLANNERS[name], **options)
        expected = None if row["tps"] in ("", "inf") else float(row["tps"])
        assert (result.objective is None) == (expected is None), (row["K"], row["algorithm"])
        if expected is not None:
            assert result.objective == pytest.approx(expected, rel=1e-9), (row["K"], row["algorithm"])
        count += 1
    return count


def _without_tensor_parallelism(problem: StagingProblem) -> StagingProblem:
    return problem.replace(
        layers=tuple(
            replace(layer, configurations={t: ways for t, ways in layer.configurations.items() if t == 1})
            for layer in problem.layers
        )
    )


@pytest.mark.sweeps
@pytest.mark.workloads
@pytest.mark.parametrize("workload", FILES)
def test_every_published_value_of_the_program_and_its_restrictions(workloads: Path, workload: str) -> None:
    names = {"piper", "noDP", "noTP", "noAR", "checker-piper"}
    assert reproduce(workloads, workload, names, large=False) == {"bert32": 209, "resnet50": 47}[workload]


@pytest.mark.slow
@pytest.mark.workloads
@pytest.mark.parametrize("workload", FILES)
def test_every_published_value_of_equal_stages(workloads: Path, workload: str) -> None:
    assert reproduce(workloads, workload, {"equi", "equi-noTP"}, large=False) > 20


@pytest.mark.slow
def test_every_published_value_of_equal_stages_on_many_devices(workloads: Path) -> None:
    assert reproduce(workloads, "bert32", {"equi", "equi-noTP"}, large=True) > 0


@pytest.mark.sweeps
@pytest.mark.workloads
def test_exact_knapsacks_are_never_worse_and_somewhere_better(workloads: Path) -> None:
    """And every other published value, of other knapsacks and of linear relaxations, is respected as a bound."""
    problems = {workload: published(workloads, workload) for workload in FILES}
    better, seen = [], {}
    for row in rows(workloads):
        name, semantics = parts(row)
        if row["workload"] != "resnet50" or (int(row["K"]) > 32 and name == "piper") or row["tps"] in ("", "inf"):
            continue
        if not (name in ("piper", "piper-slowheur", "piper-exactknap") or name.startswith("checker")):
            continue
        problem = _without_tensor_parallelism(on_its_cluster(problems["resnet50"], row))
        if problem.memory_bytes is not None and problem.memory_bytes > 5 * 2**30:
            continue  # their knapsacks are many and easy, and take long
        key = (problem.hash, semantics)
        if key not in seen:
            seen[key] = plan(problem, semantics=semantics)
        value, theirs = seen[key].objective, float(row["tps"])
        assert value is not None
        if "lpbound" in name:
            assert value >= theirs * (1 - 1e-9)
        else:
            assert value <= theirs * (1 + 1e-9), row["algorithm"]
            if value < theirs * (1 - 1e-6):
                better.append((row["K"], row["algorithm"]))
    assert ("128", "checker-piper(papersem)") in better


@pytest.mark.workloads
def test_the_plan_of_the_hand_check(workloads: Path) -> None:
    """BERT-32 on 8 devices of 8 GiB: 0.16585575 s, as the specification computes by hand."""
    problem = published(workloads, "bert32").replace(
        devices=8, memory_bytes=8 * 2.0**30, micro_batches=1920, bandwidth=25 * 2.0**30
    )
    result = plan(problem)
    assert result.objective == pytest.approx(0.16585575, rel=1e-9)
    assert result.plan is not None
    assert not verify_stages(problem, result.plan)


@pytest.mark.parametrize(("name", "planner"), [("tiny-stages", "dp-piper"), ("tiny-graph", "piper-downsets")])
@pytest.mark.parametrize("most", [0, -10])
def test_a_limit_on_downsets_below_one_is_refused(name: str, planner: str, most: int) -> None:
    with pytest.raises(InputError, match="whole number from 1"):
        solve(load_packaged(name), planner=planner, options={"max_downsets": most})
