"""Replication, devices within devices and types of accelerators: the dynamic program against all plans there are."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from typing import Any

import pytest
from oracles.extended_placement import best_value, tiny_levels, tiny_replicated, tiny_types
from problems.placements import random_placement

from pipeplan.instances.base.errors import UsageError
from pipeplan.instances.base.result import Found, Result, Stop
from pipeplan.instances.placement.generators import GENERATORS
from pipeplan.instances.placement.problem import AcceleratorType, Level, Node, PlacementProblem
from pipeplan.instances.placement.referee.verify import verify
from pipeplan.planners.options import SolveOptions
from pipeplan.planners.placement import dp
from pipeplan.planners.run.solve import solve

MAKERS = {"levels": tiny_levels, "replicated": tiny_replicated, "types": tiny_types}


def plan(problem: PlacementProblem, **options: Any) -> Result:
    return solve(problem, planner="dp", options=options, limits=SolveOptions(threads=1))


def check(problem: PlacementProblem, objective: str = "max-load") -> bool:
    """Equal to the best of all plans; was there any?"""
    result, best = plan(problem, objective=objective), best_value(problem, objective)
    if best is None:
        assert (result.stop, result.found) == (Stop.INFEASIBLE, Found.NOTHING), result.messages
        return False
    assert (result.stop, result.found) == (Stop.PROVEN, Found.OPTIMAL), result.messages
    assert result.objective == pytest.approx(best, rel=1e-9, abs=1e-12)
    assert result.plan is not None
    assert not verify(problem, result.plan, contiguity="chain")
    return True


@pytest.mark.parametrize("name", MAKERS)
def test_equals_the_best_of_all_plans(name: str) -> None:
    assert sum(check(MAKERS[name](seed)) for seed in range(60)) >= 30


@pytest.mark.at_once(1)
@pytest.mark.parametrize("name", ["replicated", "types"])
def test_the_pruned_program_does_too(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dp, "SMALL_IDEALS", 0)
    assert sum(check(MAKERS[name](seed)) for seed in range(60)) >= 30


@pytest.mark.parametrize("name", ["replicated", "types"])
def test_gpipe_objective_with_replicas_and_types(name: str) -> None:
    assert sum(check(MAKERS[name](seed), "gpipe") for seed in range(30)) >= 15


def with_forbidden(problem: PlacementProblem, seed: int) -> PlacementProblem:
    """Some costs become numbers that mean "forbidden"."""
    rng = random.Random(seed)

    def cost(value: Any) -> Any:
        return rng.choice((1e7, 1e12, 1e20)) if value and rng.random() < 0.15 else value

    return problem.replace(
        nodes=tuple(
            replace(
                node,
                accelerator_time=cost(node.accelerator_time),
                cpu_time=cost(node.cpu_time),
                transfer_time=cost(node.transfer_time),
                weight_bytes=cost(node.weight_bytes),
                other_times=tuple(map(cost, node.other_times)),
            )
            for node in problem.nodes
        )
    )


@pytest.mark.at_once(1)
@pytest.mark.parametrize("objective", ["max-load", "gpipe"])
@pytest.mark.parametrize("name", MAKERS)
def test_costs_that_mean_forbidden(name: str, objective: str) -> None:
    problems = [with_forbidden(MAKERS[name](seed), seed) for seed in range(100, 140)]
    assert sum(
        check(problem, objective) for problem in problems if objective == "max-load" or len(problem.levels) < 2
    )


@pytest.mark.sweeps
@pytest.mark.parametrize("name", ["replicated", "types"])
def test_costs_that_mean_forbidden_in_the_pruned_program(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dp, "SMALL_IDEALS", 0)
    assert sum(check(with_forbidden(MAKERS[name](seed), seed)) for seed in range(100, 140)) >= 20


def test_gpipe_objective_with_levels_is_refused() -> None:
    problem = next(p for p in map(tiny_levels, range(100)) if len(p.levels) > 1)
    with pytest.raises(UsageError, match="several levels"):
        plan(problem, objective="gpipe")


def test_one_plain_level_is_the_flat_problem() -> None:
    for seed in range(40):
        problem = random_placement(seed)
        if problem.accelerators:
            leveled = problem.replace(levels=(Level(problem.accelerators),))
            assert plan(leveled).objective == plan(problem).objective


def test_upper_levels_of_one_device_and_free_boundaries_are_the_flat_problem() -> None:
    for seed in range(40):
        problem = random_placement(seed)
        if problem.accelerators:
            nested = problem.replace(levels=(Level(problem.accelerators), Level(1, 0.0), Level(1, 0.0)))
            flat, leveled = plan(problem), plan(nested)
            assert leveled.stop == flat.stop
            assert leveled.objective == pytest.approx(flat.objective)


def test_types_that_are_all_alike_are_one_type() -> None:
    for seed in range(40):
        problem = random_placement(seed)
        if problem.accelerators > 1:
            other = AcceleratorType("twin", problem.accelerators - 1, problem.memory_bytes)
            split = problem.replace(accelerators=1, other_types=(other,))
            one, two = plan(problem), plan(split)
            assert two.stop == one.stop
            assert two.objective == pytest.approx(one.objective)


def test_replication_by_hand() -> None:
    """Work 12 on three devices: 12/3 = 4, and 4 (r-1)/r w / (r B) = 4 * 2/3 * 9 / (3 * 8) = 1 to synchronise."""
    problem = PlacementProblem(
        (Node("all", 12.0, 99.0, weight_bytes=9.0),),
        (),
        accelerators=3,
        cpus=0,
        levels=(Level(3, sync_bandwidth=8.0),),
    )
    result = plan(problem)
    assert result.objective == pytest.approx(5.0)
    assert result.plan is not None
    assert [device.replicas for device in result.plan.devices] == [3]


@pytest.mark.parametrize("seed", range(25))
def test_what_is_better_never_hurts(seed: int) -> None:
    """Faster links, more memory, cheaper boundaries: with replicas, levels and types."""
    for maker in MAKERS.values():
        problem = maker(seed)
        value = plan(problem).objective
        faster = tuple(
            replace(
                level,
                transfer_factor=level.transfer_factor / 2,
                sync_bandwidth=level.sync_bandwidth and level.sync_bandwidth * 2,
            )
            for level in problem.levels
        )
        richer = [
            problem.replace(levels=faster),
            problem.replace(memory_bytes=problem.memory_bytes and problem.memory_bytes * 1.5),
            problem.replace(cpus=problem.cpus + 1),
            problem.replace(
                nodes=tuple(replace(node, transfer_time=node.transfer_time / 2) for node in problem.nodes)
            ),
            _one_more_device(problem),
        ]
        for better in richer:
            other = plan(better).objective
            assert value is None or (other is not None and other <= value * (1 + 1e-12))


def _one_more_device(problem: PlacementProblem) -> PlacementProblem:
    """On the highest level, where it is a whole device of that level."""
    if not problem.levels:
        return problem.replace(accelerators=problem.accelerators + 1)
    *lower, top = problem.levels
    inside = math.prod(level.devices for level in lower)
    return problem.replace(
        levels=(*lower, replace(top, devices=top.devices + 1)), accelerators=problem.accelerators + inside
    )


def test_levels_on_a_larger_graph_keep_what_they_can() -> None:
    """Ten thousand ideals are too many for tables of the third power: some are kept, and the report says so."""
    problem = GENERATORS["blocks"](nodes=42, branches=4, length=9, accelerators=4).replace(
        levels=(Level(2), Level(2, 3.0))
    )
    result = plan(problem)
    assert (result.stop, result.found, result.verified) == (Stop.MEMORY, Found.FEASIBLE, True)
    assert result.gap is not None
    assert result.gap < 0.2
    assert "restricted to" in result.messages[-1]


def test_replicas_on_a_larger_graph_are_exact() -> None:
    problem = GENERATORS["blocks"](nodes=42, branches=4, length=9, accelerators=6)
    plain = plan(problem)
    replicated = plan(
        problem.replace(
            levels=(Level(6, sync_bandwidth=1e6),),
            nodes=tuple(replace(node, weight_bytes=1e5) for node in problem.nodes),
        )
    )
    assert (plain.stop, replicated.stop) == (Stop.PROVEN, Stop.PROVEN)
    assert plain.objective is not None
    assert replicated.objective is not None
    assert replicated.objective <= plain.objective
