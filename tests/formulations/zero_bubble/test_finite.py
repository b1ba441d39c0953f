"""Schedules of given micro-batches: both models and the bounds against going over all orders, amounts whose sums are
not what floats make of them, each bound where it decides, and the best times for given orders.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
from known_pipelines import random_pipeline
from oracles.schedule import least_makespan, least_span, tiny_problem
from recipes.other_kinds import measured_uneven

from pipeplan import Block, BlockEdge, Result, ScheduleDevice, ScheduleProblem, SolveOptions, Stop, solve
from pipeplan.formulations.registry import FORMULATIONS
from pipeplan.formulations.zero_bubble.finite_orders import sequences_of, tightest
from pipeplan.formulations.zero_bubble.finite_problem import (
    MOST_STEPS,
    FiniteProblem,
    finite_problem,
    for_integers,
    idle_bound,
    lower_bound,
    path_bound,
    work_bound,
)
from pipeplan.instances.schedule.generators import divided_pipeline, equal_stages
from pipeplan.instances.schedule.referee import evaluate_schedule, verify_schedule
from pipeplan.planners.backends import solve as solve_model
from pipeplan.planners.backends.model import compile_pyomo
from pipeplan.planners.schedule.list_schedule import better_and_better

ENUMERATED = {"makespan": least_makespan, "span": least_span}
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


def test_a_start_is_an_incumbent_of_the_models() -> None:
    problem = divided_pipeline(equal_stages(2, 5, 6, 4), 3, 4)
    start = solve(problem, planner="list-schedule").plan
    for formulation in ("cp-schedule", "ilp-zero-bubble"):
        result = solve(problem, formulation=formulation, warm_start=start)
        assert result.stop == Stop.PROVEN
        assert result.warm_start.outcome == "accepted"


# ---- amounts that floats do not add up -----------------------------------------------------------------


def solved(problem: ScheduleProblem, objective: str, solver: str) -> Result:
    return solve(
        problem, formulation="ilp-zero-bubble", solver=solver, options={"objective": objective}, limits=ONE
    )


def decimals(lag: float, *times: float) -> ScheduleProblem:
    blocks = tuple(Block(f"b{n}", "X", ("d",), time) for n, time in enumerate(times))
    return ScheduleProblem((ScheduleDevice("d"),), blocks, (BlockEdge("b0", "b1", lag),), 2)


@pytest.mark.parametrize("solver", ["cp-sat", "highs"])
@pytest.mark.parametrize(
    "problem", [decimals(0.1, 0.2, 0.1), decimals(0.2, 0.7, 0.1), decimals(0.003, 0.3, 0.0007)]
)
def test_decimal_times_are_whole_steps(problem: ScheduleProblem, solver: str) -> None:
    """0.2 + 0.1 is 0.30000000000000004 in floating point, which no multiple of 0.1 meets."""
    for objective, least in ENUMERATED.items():
        result = solved(problem, objective, solver)
        assert result.stop == Stop.PROVEN, result.messages
        assert result.objective == pytest.approx(float(least(problem) or 0), rel=1e-12)


@pytest.mark.parametrize("solver", ["highs", "scip"])
@pytest.mark.parametrize("objective", ["makespan", "span"])
def test_times_ten_digits_apart_leave_a_schedule_in_floating_point(solver: str, objective: str) -> None:
    """On 10^12 steps HiGHS called this infeasible."""
    blocks = (
        Block("a", "X", ("e", "f"), 5.32e-08, 0, {"f": 2}),
        Block("b", "X", ("f", "d"), 5.32e-08, 1, {"f": -2, "d": 1}),
        Block("c", "X", ("d",), 1000, 2, {"d": -1}),
    )
    devices = (ScheduleDevice("d", 2), ScheduleDevice("e", 0), ScheduleDevice("f", 6))
    problem = ScheduleProblem(devices, blocks, (BlockEdge("a", "c", 7.22e-07),), 2)
    built = FORMULATIONS["ilp-zero-bubble"].load().build(problem, {"objective": objective}, native=False)
    told = solve_model(solver, compile_pyomo(built.model), ONE)
    assert told.objective == pytest.approx(float(least_makespan(problem) or 0))


@pytest.mark.parametrize("solver", ["highs", "cp-sat"])
@pytest.mark.parametrize("objective", ["makespan", "span"])
def test_the_last_digit_of_an_amount_decides(objective: str, solver: str) -> None:
    """Of seventeen, which a float solver does not see. When b gives back, the device holds 0.1 that stands there,
    0.30000000000000004 and a workspace of 0.1."""
    amount = 0.30000000000000004
    blocks = (
        Block("a", "F", ("d",), 0.5, memory={"d": amount}),
        Block("b", "B", ("d",), 0.5, memory={"d": -amount}, workspace={"d": 0.1}),
    )
    edges = (BlockEdge("a", "b"), BlockEdge("b", "a", 1, 1))
    for memory, stop in ((0.5, Stop.INFEASIBLE), (0.5000000000000001, Stop.PROVEN)):
        problem = ScheduleProblem((ScheduleDevice("d", memory, 0.1),), blocks, edges, 2)
        result = solved(problem, objective, solver)
        assert result.stop == stop, result.messages
        assert result.verified == (stop == Stop.PROVEN)


# ---- bounds by hand ------------------------------------------------------------------------------------


def pipeline(stages: int, batches: int, times: tuple[int, int, int], lag: int, memory: int) -> FiniteProblem:
    return finite_problem(divided_pipeline(equal_stages(stages, *times), batches, memory, lag), "a test")


TWO_STAGES, SHORT = (2, 3, (5, 6, 4), 1, 8), (4, 2, (5, 6, 4), 0, 8)
LARGE_ONE, DEEP = (16, 64, (10, 11, 9), 1, 32), (32, 16, (1, 1, 1), 0, 64)
FOUR = {memory: (4, 12, (5, 6, 4), 0, memory) for memory in (8, 10, 12, 14, 16)}
SPAN, MAKESPAN = ("span",), ("makespan",)
FILLED, LARGE_FILLED = 180 + (38 - 4 * 5) + (33 - 3 * (6 + 4)), 1920 + (355 - 16 * 10) + (345 - 15 * (11 + 9))
BY_HAND = [
    # The last of two stages waits for one F of 5, and after its last block nothing has to follow: its W leads nowhere.
    (work_bound, TWO_STAGES, SPAN, 3 * 15),
    (work_bound, TWO_STAGES, MAKESPAN, (5 + 1) + 3 * 15),
    # There and back, and the last block of the last device waits for its own runs of the micro-batches before.
    (path_bound, TWO_STAGES, (), 5 + 1 + 5 + 6 + 1 + 3 * 6 + 4),
    # 63 units pass before stage 0 may run its first I, and 16 I and 16 W of one unit each remain.
    (work_bound, DEEP, SPAN, 48),
    (lower_bound, DEEP, SPAN, 63 + 32),
    # 38 units pass before the first I of stage 0, and half of the memory's units are forward passes until then.
    *((lower_bound, FOUR[memory], SPAN, bound) for memory, bound in ((10, 38 + 180 - 5 * 5), (12, 188), (14, 183))),
    # While the first gradient is on its way stage 0 has forward passes for half of its memory's units; after its last
    # forward pass it has I and W of what it held besides, until that one comes back.
    (idle_bound, FOUR[8], (), FILLED),
    (lower_bound, FOUR[8], SPAN, FILLED),
    pytest.param(idle_bound, LARGE_ONE, (), LARGE_FILLED, marks=pytest.mark.slow),
    pytest.param(lower_bound, LARGE_ONE, SPAN, LARGE_FILLED, marks=pytest.mark.slow),
    # With memory for all of them, every forward pass may have ended before the first gradient comes.
    (idle_bound, SHORT, (), 2 * 15 + (38 - 2 * 5)),
    (work_bound, FOUR[16], SPAN, 180),
]


@pytest.mark.parametrize(("bound", "facts", "asked", "by_hand"), BY_HAND)
def test_bounds_are_those_by_hand(
    bound: Callable[..., float], facts: tuple[Any, ...], asked: tuple[Any, ...], by_hand: int
) -> None:
    """The bound of idle time is the same in reversed time."""
    finite = pipeline(*facts)
    assert bound(finite, *asked) == by_hand
    assert bound is not idle_bound or bound(finite.backwards) == by_hand


def test_the_uneven_pipeline_is_bound_by_its_last_stage() -> None:
    assert lower_bound(finite_problem(measured_uneven(), "a test"), "span") == 3623744


# ---- orders and the best times for them ----------------------------------------------------------------


@pytest.mark.at_once(1)
@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("objective", ["makespan", "span"])
def test_times_of_given_orders_are_never_worse(seed: int, objective: str) -> None:
    problem = random_pipeline(4, 6, 8, 1, seed)
    finite = finite_problem(problem, "a test")
    for plan in better_and_better(problem, objective):
        best = tightest(finite, sequences_of(problem, plan), objective)
        assert best is not None
        assert verify_schedule(problem, best) == ()
        assert sequences_of(problem, best) == sequences_of(problem, plan)
        values = [evaluate_schedule(problem, found).objective(objective) for found in (best, plan)]
        assert values[0] <= values[1]


def test_fine_times_are_rounded_down_for_integer_solvers() -> None:
    problem = divided_pipeline(equal_stages(2, 1.0000000001, 2.0000000003, 1), 20, 8)
    exact = finite_problem(problem, "a test")
    coarse = for_integers(exact)
    assert exact.longest > MOST_STEPS >= coarse.longest
    assert not coarse.exact
    for rounded, time in zip(coarse.times, exact.times, strict=True):
        assert rounded / coarse.steps <= time / exact.steps


def test_blocks_without_time_are_kept_apart_where_memory_asks_for_it() -> None:
    """The taker comes first at one instant, by the order in the file; so it starts a hair after the giver."""
    blocks = (Block("take", "X", ("d",), 0, memory={"d": 1}), Block("give", "X", ("d",), 0, memory={"d": -1}))
    problem = ScheduleProblem((ScheduleDevice("d", 1, 1),), blocks, (), 1)
    plan = tightest(finite_problem(problem, "a test"), (((1, 0), (0, 0)),), "makespan")
    assert plan.starts["give"][0] < plan.starts["take"][0] < plan.starts["give"][0] + Fraction(1, 10**6)
    assert verify_schedule(problem, plan) == ()
