"""`dp-piper` and what it is compared with: brute force, the published values, restrictions, limits; `piper-
pipedream`, `uniform`, the start that it gives `mip-piper`, and what is said where there is no plan."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from oracles.staging import best_stages
from problems.stagings import random_staging

import pipeplan
from pipeplan import Found, InputError, Outcome, Request, Result, SolveOptions, load_packaged, solve
from pipeplan.instances.staging.kind_functions import staging_from_published
from pipeplan.instances.staging.plan import LeveledPlan, PlannedStage, StagedPlan
from pipeplan.instances.staging.problem import Configuration, Edge, Layer, StagingLevel, StagingProblem
from pipeplan.instances.staging.referee import rules_of, verify_stages
from pipeplan.planners.staging.planner import PiperPlanner, path_of

SEEDS = range(100)


def plan(problem: StagingProblem, planner: str = "dp-piper", **options: Any) -> Result:
    return solve(problem, planner=planner, options=options, limits=SolveOptions(threads=1))


@pytest.mark.sweeps
def test_a_restriction_never_helps_and_keeps_its_word() -> None:
    for seed in SEEDS[::2]:
        problem = random_staging(seed)
        best = plan(problem).objective
        for name in ("piper-no-dp", "piper-no-tp", "piper-no-ar", "equi", "equi-no-tp"):
            result = plan(problem, name)
            assert result.bound is None
            if result.objective is None:
                continue
            assert best <= result.objective * (1 + 1e-12)
            for stage in result.plan.stages:
                assert name != "piper-no-dp" or stage.data_parallel == 1
                assert name not in ("piper-no-tp", "equi-no-tp") or stage.tensor_parallel == 1
                assert name != "piper-no-ar" or not any("recomp" in way for way in stage.configurations.values())


def test_a_wide_network_has_too_many_downsets() -> None:
    way = {1: (Configuration("only", 1.0),)}
    layers = tuple(Layer(i, way) for i in range(15))
    problem = StagingProblem(layers, (), devices=2, bandwidth=1.0, micro_batches=4)
    with pytest.raises(InputError, match="more than 20000 downsets"):
        plan(problem)
    assert plan(problem.replace(layers=layers[:6])).objective == pytest.approx(3.0)


# ---- published inputs ----------------------------------------------------------------------------------

PLANNERS = {
    "piper": "dp-piper", "noDP": "piper-no-dp", "noTP": "piper-no-tp", "noAR": "piper-no-ar", "equi": "equi",
    "equi-noTP": "equi-no-tp", "checker-piper": "dp-piper",
}  # fmt: skip
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
        here = on_its_cluster(problem, row)
        if name == "checker-piper":
            here = _without_tensor_parallelism(here)
        result = plan(here, PLANNERS[name], **options)
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
@pytest.mark.parametrize(
    ("workload", "large", "least"), [*((name, False, 21) for name in FILES), ("bert32", True, 1)]
)
def test_every_published_value_of_equal_stages(workloads: Path, workload: str, large: bool, least: int) -> None:
    assert reproduce(workloads, workload, {"equi", "equi-noTP"}, large) >= least


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


@pytest.mark.parametrize("most", [0, -10])
def test_a_limit_on_downsets_below_one_is_refused(most: int) -> None:
    with pytest.raises(InputError, match="whole number from 1"):
        solve(load_packaged("tiny-stages"), planner="dp-piper", options={"max_downsets": most})


def chain(*times: float, memory: float | None = None) -> StagingProblem:
    keep, recompute = Configuration("keep", 0.0, memory_per_batch=1.0), Configuration("recomp", 0.0)
    layers = tuple(
        Layer(i, {1: (replace(keep, time=time), replace(recompute, time=2 * time))}) for i, time in enumerate(times)
    )
    edges = tuple(Edge(i, i + 1, 0.0) for i in range(len(times) - 1))
    return StagingProblem(layers, edges, devices=3, bandwidth=1.0, micro_batches=8, memory_bytes=memory)


def test_cuts_and_replicas_of_a_chain_are_blind_to_memory() -> None:
    """Loads 6 on one device, or 3 layers of 2, 2, 8 on 1 + 2: (2 + 2), 8 / 2. Every layer keeps one byte per batch in
    flight: with half a byte, only recomputation fits."""
    result, tight = (solve(chain(2.0, 2.0, 8.0, memory=of), planner="piper-pipedream") for of in (None, 0.5))
    assert (result.objective, result.bound) == (pytest.approx(4.0), None)
    assert tight.found == Found.REJECTED
    assert any("exceeds the memory" in message for message in tight.messages)
    assert solve(chain(2.0, 2.0, 8.0, memory=0.5), planner="dp-piper").objective == pytest.approx(8.0)


def test_branches_stay_in_one_piece() -> None:
    """0 -> 1 -> (2 | 3) -> 4 -> 5."""
    arcs = [(0, 1), (1, 2), (1, 3), (2, 4), (3, 4), (4, 5)]
    layers = tuple(Layer(i, {1: (Configuration("keep", 1.0 + i),)}) for i in range(6))
    diamond = StagingProblem(layers, tuple(Edge(*arc, 0.0) for arc in arcs), 6, 1.0, 9)
    blocks = [sorted(block) for block in path_of(diamond)]
    assert sorted(i for block in blocks for i in block) == list(range(6))
    assert {2, 3} <= set(next(block for block in blocks if 2 in block))
    assert len(blocks) >= 4
    plan = solve(diamond, planner="piper-pipedream").plan
    stage_of = {node: number for number, stage in enumerate(plan.stages) for node in stage.nodes}
    assert stage_of[2] == stage_of[3]


def test_on_a_path_it_is_the_optimum_without_memory_and_tensor_parallelism() -> None:
    """Brute force over the same stages, on random chains."""
    for seed in range(0, 40, 2):
        base = random_staging(seed)
        layers = tuple(
            Layer(
                layer.id, {1: tuple(replace(way, gather_in={}, gather_out={}, memory_per_batch=0) for way in ways)}
            )
            for layer in base.layers
            for ways in [next(iter(layer.configurations.values()))]
        )
        edges = tuple(Edge(i, i + 1, 3.0) for i in range(len(layers) - 1))
        problem = base.replace(layers=layers, edges=edges, memory_bytes=None)
        best = best_stages(problem, "paper")
        result = solve(problem, planner="piper-pipedream")
        assert result.objective == pytest.approx(best[0], rel=1e-9)
        assert result.plan is not None
        assert not verify_stages(problem, result.plan)


Plan = Callable[..., Any]


def degrees(plan: Any) -> set[tuple[int, int]]:
    stages = plan.leaves() if isinstance(plan, LeveledPlan) else plan.stages
    return {(stage.data_parallel, stage.tensor_parallel) for stage in stages}


def all_uniform(problem: StagingProblem) -> float | None:
    """The least time of plans whose stages are contiguous in the order of the layers, found one by one."""
    order, best = [problem.layers[i] for i in problem.topological_order], None
    rules = rules_of(problem, {})
    for cuts in product((False, True), repeat=len(order) - 1):
        groups = [[order[0]]]
        for cut, layer in zip(cuts, order[1:], strict=True):
            groups = [*groups, [layer]] if cut else [*groups[:-1], [*groups[-1], layer]]
        for d, t in product(range(1, problem.devices + 1), problem.degrees):
            ways = [[way.id for way in layer.configurations.get(t, ())] for layer in order]
            for chosen in product(*ways):
                names = dict(zip((layer.id for layer in order), chosen, strict=True))
                parts = [tuple(layer.id for layer in group) for group in groups]
                plan = StagedPlan(tuple(PlannedStage(ids, d, t, {i: names[i] for i in ids}) for ids in parts))
                if not rules.violations(problem, plan):
                    value = rules.value(problem, plan)
                    best = value if best is None else min(best, value)
    return best


@pytest.mark.parametrize("seed", range(12))
def test_it_is_the_best_of_all_plans_with_equal_degrees(seed: int) -> None:
    """Stages that are no range of the order may be better still, and no plan is better than the best of all."""
    problem = random_staging(seed, layers=(2, 4))
    result, listed, best = pipeplan.solve(problem, planner="uniform"), all_uniform(problem), best_stages(problem)
    if listed is not None:
        assert best[0] * (1 - 1e-9) <= (result.objective or 0.0) <= listed * (1 + 1e-9)
        assert len(degrees(result.plan)) == 1


def test_on_levels_the_copies_of_each_level_are_equal_too() -> None:
    problem = pipeplan.load_packaged("tiny-levels")
    result = pipeplan.solve(problem, options={"uniform": True})
    assert (result.planner, result.objective) == ("uniform", 6.0)
    assert isinstance(result.plan, LeveledPlan)
    assert len({stage.data_parallel for stage in result.plan.stages}) == 1
    assert len(degrees(result.plan)) == 1


def test_one_level_is_a_flat_network() -> None:
    problem = pipeplan.load_packaged("tiny-stages")
    level = problem.replace(levels=(StagingLevel(problem.devices, problem.bandwidth),))
    values = {pipeplan.solve(each, planner="uniform").objective for each in (problem, level)}
    assert len(values) == 1


def test_what_it_cannot_plan_is_said() -> None:
    small = pipeplan.solve(pipeplan.load_packaged("tiny-stages").replace(memory_bytes=11.0), planner="uniform")
    assert small.messages[0] == "no plan with the same degrees on every stage fits"


# ---- what sharing a layer costs ------------------------------------------------------------------------


def test_devices_that_share_a_layer_pay_for_what_they_exchange() -> None:
    """Two all-reduces of what a layer sends in each pass: 4 / 2 of it over the links of two devices."""
    profile = pipeplan.load_profile("llama-3-8b")
    on: dict[str, Any] = {"devices": 4, "memory_bytes": 80e9, "bandwidth": 100e9, "tensor_parallel": (1, 2)}
    ways = profile.to_staging(**on).layers[1].configurations
    one, two = ways[1][0], ways[2][0]
    exchange = 2 * (2 * 1 / 2) * 33554432 / 100e9
    assert two.time == pytest.approx(one.time / 2 + 2 * exchange)
    assert one.forward_time == pytest.approx(profile.time(profile.nodes[1].forward))
    assert two.forward_time == pytest.approx(one.forward_time / 2 + exchange)
    shared = profile.to_staging(**on, efficiency="2:0.8").layers[1].configurations[2][0]
    assert shared.time == pytest.approx(one.time / 2 / 0.8)


def test_efficiencies_are_named_for_every_degree() -> None:
    on: dict[str, Any] = {"devices": 4, "memory_bytes": 80e9, "bandwidth": 1e11, "tensor_parallel": (1, 2, 4)}
    profile = pipeplan.load_profile("llama-3-8b")
    with pytest.raises(InputError, match=r"--option efficiency says nothing of 4 devices; add 4:0\.9"):
        profile.to_staging(**on, efficiency="2:0.97")
    for text in ("2:1.2,4:0.9", "two", "2:0.9;4:0.8"):
        with pytest.raises(InputError, match="--option efficiency is"):
            profile.to_staging(**on, efficiency=text)


def test_links_that_take_no_time_make_it_free_and_that_is_said_first(plan: Plan) -> None:
    cluster = ("--devices", 4, "--memory", "80GB", "--tensor-parallel", "1,2", "--planner", "equi")
    said = plan("solve", "llama-3-8b", *cluster, "--bandwidth", "100GB/s")
    assert "exchange its output 2 times in each pass" in " ".join(said.err.split())


# ---- devices without work ------------------------------------------------------------------------------


def test_devices_that_stay_unused_are_told(plan: Plan, tmp_path: Path) -> None:
    target = tmp_path / "r.json"
    (tmp_path / "two.csv").write_text(
        "layer,forward [ms],backward [ms],parameters [MB],activation [MB],output [MB]\na,1,2,1,1,1\nb,1,2,1,1,1\n"
    )
    cluster = ("--devices", 5, "--memory", "1GB", "--bandwidth", "1GB/s")
    said = plan("solve", tmp_path / "two.csv", *cluster, "-o", target)
    assert "the plan uses 2 of 5 devices" in " ".join(said.err.split())
    said = plan("export", target, tmp_path / "two.csv", "--to", "deepspeed")
    assert "the plan uses 2 of the 5 devices that it was made for" in " ".join(said.err.split())


def test_configurations_without_a_forward_time_take_a_third() -> None:
    problem = pipeplan.load_packaged("tiny-stages")
    result = pipeplan.solve(problem)
    assert result.plan is not None
    halves = [
        {t: tuple(replace(way, forward_time=way.time / 2) for way in ways) for t, ways in x.configurations.items()}
        for x in problem.layers
    ]
    layers = tuple(replace(x, configurations=half) for x, half in zip(problem.layers, halves, strict=True))
    half = problem.replace(layers=layers)
    third, now = (pipeplan.simulate(each, result.plan).stages[0].tasks[0] for each in (problem, half))
    assert now.end == pytest.approx(1.5 * third.end)


PROBLEM = pipeplan.load_packaged("tiny-stages")


def test_the_program_starts_the_model_by_either_name() -> None:
    for asked in ("auto", "dp"):
        result = pipeplan.solve(PROBLEM, formulation="mip-piper", warm_start=asked)
        assert (result.stop, result.objective) == (pipeplan.Stop.PROVEN, 6.0)
        assert result.warm_start.source == "dp-piper", asked


def test_an_interrupt_while_the_program_runs_keeps_its_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    best = pipeplan.solve(PROBLEM, planner="dp-piper").plan

    def interrupted(_: PiperPlanner, request: Request) -> Outcome:
        request.board.post(best, 6.0)
        raise KeyboardInterrupt

    monkeypatch.setattr(PiperPlanner, "plan", interrupted)
    result = pipeplan.solve(PROBLEM, formulation="mip-piper")
    assert (result.stop, result.objective, result.plan) == (pipeplan.Stop.INTERRUPTED, 6.0, best)


@pytest.mark.parametrize("method", [{"planner": "dp-piper"}, {"formulation": "mip-piper"}, {"planner": "equi"}])
def test_what_is_missing(method: dict[str, str]) -> None:
    result = pipeplan.solve(PROBLEM.replace(memory_bytes=9.0), **method)
    assert result.found == "nothing"
    assert "layer 'a' alone needs 10 bytes of each device" in result.messages[-1]


def test_what_would_be_enough_is_and_a_byte_less_is_not() -> None:
    (message,) = pipeplan.solve(PROBLEM.replace(memory_bytes=11.0)).messages
    assert message == "18 bytes of memory per device is the smallest amount with a plan (proven); give --memory 18"
    (message,) = pipeplan.solve(PROBLEM.replace(memory_bytes=11.0), planner="equi").messages
    assert message.startswith("no equal stages fit, not even the smallest: A device of stage ")
    assert message.endswith("more than its memory of 11 bytes")
    assert pipeplan.solve(PROBLEM.replace(memory_bytes=18.0)).objective is not None
    assert pipeplan.solve(PROBLEM.replace(memory_bytes=17.0)).objective is None


def test_one_amount_of_memory_is_asked_for_whatever_else_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """The largest layer alone needs 10 bytes, which is no reason to ask for 10 where 18 are needed."""
    monkeypatch.setattr("pipeplan.planners.run.solve.ENOUGH_S", 600.0)
    messages = pipeplan.solve(PROBLEM.replace(memory_bytes=9.0)).messages
    assert [message.partition("; give ")[2] for message in messages] == ["--memory 18", ""]
    assert messages[1] == "layer 'a' alone needs 10 bytes of each device that it runs on"


def test_a_run_that_was_stopped_gives_no_reason() -> None:
    limits = pipeplan.SolveOptions(time_limit_s=0.0)
    assert pipeplan.solve(PROBLEM, planner="dp-piper", limits=limits).messages == ()
