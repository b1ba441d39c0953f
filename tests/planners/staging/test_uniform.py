"""The same degrees on every stage: against all other plans, and against enumeration of what is equal."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from oracles.staging import best_stages
from problems.stagings import random_staging

import pipeplan
from pipeplan.instances.base.errors import InputError, UsageError
from pipeplan.instances.staging.plan import LeveledPlan, StagedPlan
from pipeplan.instances.staging.problem import StagingLevel, StagingProblem
from pipeplan.instances.staging.referee import rules_of

Plan = Callable[..., Any]


def degrees(plan: Any) -> set[tuple[int, int]]:
    return (
        {(stage.data_parallel, stage.tensor_parallel) for stage in plan.leaves()}
        if isinstance(plan, LeveledPlan)
        else {(stage.data_parallel, stage.tensor_parallel) for stage in plan.stages}
    )


def row_of(seed: int) -> StagingProblem:
    problem = random_staging(seed, layers=(2, 4), exact_batches=False)
    return problem.replace(levels=(), device_types=(), replication=True)


def all_uniform(problem: StagingProblem) -> float | None:
    """The least time of plans whose stages are contiguous in the order of the layers, found one by one."""
    from pipeplan.instances.staging.plan import PlannedStage

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
                plan = StagedPlan(
                    tuple(
                        PlannedStage(ids, d, t, {i: names[i] for i in ids})
                        for ids in (tuple(layer.id for layer in group) for group in groups)
                    )
                )
                if not rules.violations(problem, plan):
                    value = rules.value(problem, plan)
                    best = value if best is None else min(best, value)
    return best


@pytest.mark.parametrize("seed", range(12))
def test_it_is_the_best_of_all_plans_with_equal_degrees(seed: int) -> None:
    """Stages that are no range of the order may be better still, and no plan is better than the best of all."""
    problem = row_of(seed)
    result, listed = pipeplan.solve(problem, planner="uniform"), all_uniform(problem)
    if listed is None:
        return
    assert result.objective is not None
    assert result.plan is not None
    assert len(degrees(result.plan)) == 1
    assert result.objective <= listed * (1 + 1e-9)
    best = best_stages(problem)
    assert best is not None
    assert result.objective >= best[0] * (1 - 1e-9)


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
    refused = "--option uniform plans for at most --batch replicas; drop --option exact-batches"
    with pytest.raises(UsageError, match=refused):
        pipeplan.solve(pipeplan.load_packaged("tiny-stages").replace(exact_batches=True), planner="uniform")
    small = pipeplan.solve(pipeplan.load_packaged("tiny-stages").replace(memory_bytes=11.0), planner="uniform")
    assert small.messages[0] == "no plan with the same degrees on every stage fits"


def test_what_it_plans_goes_to_megatron(plan: Plan, tmp_path: Path) -> None:
    target = tmp_path / "r.json"
    cluster = ("--devices", 8, "--memory", "80GB", "--bandwidth", "100GB/s", "--data-parallel", "--batch", 16)
    assert plan("solve", "llama-3-8b", *cluster, "--tensor-parallel", "1,2", "--uniform", "-o", target).code == 0
    said = plan("export", target, "llama-3-8b", "--to", "megatron")
    assert said.code == 0
    assert "--pipeline-model-parallel-layout" in said.out


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
    assert "exchange what it sends 2 times in each pass" in " ".join(said.err.split())


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
    half = problem.replace(
        layers=tuple(
            replace(
                layer,
                configurations={
                    t: tuple(replace(way, forward_time=way.time / 2) for way in ways)
                    for t, ways in layer.configurations.items()
                },
            )
            for layer in problem.layers
        )
    )
    third, now = (pipeplan.simulate(each, result.plan).stages[0].tasks[0] for each in (problem, half))
    assert now.end == pytest.approx(1.5 * third.end)
