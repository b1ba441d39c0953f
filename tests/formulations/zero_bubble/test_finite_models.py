"""Tiny schedule problems: both models and the bounds against going over all orders."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import pytest
from oracles.schedule import least_makespan, least_span, tiny_problem

from pipeplan import SolveOptions, solve
from pipeplan.formulations.zero_bubble.finite_problem import lower_bound_of
from pipeplan.instances.base.result import Stop
from pipeplan.instances.schedule.pipelines import divided_pipeline, equal_stages
from pipeplan.instances.schedule.problem import Block, BlockEdge, ScheduleDevice, ScheduleProblem

ENUMERATED = {"makespan": least_makespan, "span": least_span}
GROUP = 10
ONE = SolveOptions(threads=1)


@pytest.mark.parametrize("seed", [26, 27, 8, 29])
def test_blocks_that_take_no_step_of_a_coarse_grid_keep_the_order_of_the_model(seed: int) -> None:
    """Beside one block of 1e12 all others begin at one instant of the grid: their ranks order them, not their times."""
    problem = tiny_problem(seed, 2 + seed % 2, 2 + (seed % 3 == 0))
    long = seed % len(problem.blocks)
    problem = problem.replace(
        blocks=tuple(replace(block, time=1e12) if b == long else block for b, block in enumerate(problem.blocks))
    )
    for objective, enumerated in ENUMERATED.items():
        options = {"objective": objective}
        result = solve(problem, formulation="cp-schedule", options=options, limits=ONE, warm_start="none")
        assert result.objective == pytest.approx(float(enumerated(problem) or 0), rel=1e-12), objective


LARGE = 8589934592e9
"""Larger than the integers of CP-SAT where there are two of them."""


def in_large_units(problem: ScheduleProblem, towards: float) -> ScheduleProblem:
    """Its limits are the next floats to what they were."""

    def many(amounts: Mapping[str, float]) -> dict[str, float]:
        return {name: amount * LARGE for name, amount in amounts.items()}

    blocks = tuple(
        replace(block, memory=many(block.memory), workspace=many(block.workspace)) for block in problem.blocks
    )
    devices = tuple(
        replace(
            device,
            standing=device.standing * LARGE,
            memory=None
            if device.memory is None
            else max(math.nextafter(device.memory * LARGE, towards), device.standing * LARGE),
        )
        for device in problem.devices
    )
    return problem.replace(blocks=blocks, devices=devices)


@pytest.mark.parametrize("method", [("cp-schedule", "cp-sat"), ("ilp-zero-bubble", "cp-sat")])
@pytest.mark.parametrize("towards", [0, math.inf])
def test_a_limit_is_kept_to_the_last_of_twenty_digits(method: tuple[str, str], towards: float) -> None:
    formulation, solver = method
    for seed in range(12):
        problem = in_large_units(tiny_problem(seed, 2), towards)
        least = least_makespan(problem)
        result = solve(problem, formulation=formulation, solver=solver, limits=ONE)
        if least is None:
            assert result.stop == Stop.INFEASIBLE, (seed, result.messages)
        else:
            assert (result.stop, result.objective) == (Stop.PROVEN, pytest.approx(float(least))), seed


def test_a_rule_of_cp_sat_that_calls_this_program_infeasible_is_off() -> None:
    """Of release 9.15: `auto_detect_greater_than_at_least_one_of`."""
    blocks = (
        Block("a", "X", ("d",), 0, 0, {"d": 1}),
        Block("b", "X", ("e",), 1e11, 1, {}),
        Block("c", "X", ("e", "d"), 4e11, 2, {"d": -1}),
    )
    edges = (BlockEdge("b", "c"), BlockEdge("b", "c", 0, 1))
    problem = ScheduleProblem((ScheduleDevice("d", 4, 1), ScheduleDevice("e")), blocks, edges, 2)
    result = solve(
        problem, formulation="ilp-zero-bubble", solver="cp-sat", options={"objective": "makespan"}, limits=ONE
    )
    assert (result.stop, result.objective) == (Stop.PROVEN, 1e12)


@pytest.mark.parametrize("seeds", range(20))
def test_no_bound_exceeds_the_optimum(seeds: int) -> None:
    for seed in range(GROUP * seeds, GROUP * seeds + GROUP):
        problem = tiny_problem(seed, 2 + seed % 2, 2 + (seed % 3 == 0))
        for objective, enumerated in ENUMERATED.items():
            least = enumerated(problem)
            assert least is None or lower_bound_of(problem, objective) <= least, (seed, objective)


def test_a_start_is_an_incumbent_of_the_models() -> None:
    problem = divided_pipeline(equal_stages(2, 5, 6, 4), 3, 4)
    start = solve(problem, planner="list-schedule").plan
    for formulation in ("cp-schedule", "ilp-zero-bubble"):
        result = solve(problem, formulation=formulation, warm_start=start)
        assert result.stop == Stop.PROVEN
        assert result.warm_start.outcome == "accepted"
