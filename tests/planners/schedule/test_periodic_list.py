"""First schedules of the steady state: valid wherever one micro-batch fits, and often of the least period."""

from __future__ import annotations

import pytest
from oracles.schedule import least_period, tiny_problem

from pipeplan import solve
from pipeplan.instances.schedule.generators import divided_pipeline, equal_stages, random_schedule, shape
from pipeplan.instances.schedule.problem import Block, BlockEdge, ScheduleDevice, ScheduleProblem
from pipeplan.instances.schedule.referee import verify_schedule
from pipeplan.planners.schedule.alone import order_alone
from pipeplan.planners.schedule.periodic_list import one_by_one, periodic_list_schedule
from pipeplan.planners.schedule.whole import in_whole_numbers


@pytest.mark.parametrize("seeds", range(25))
def test_a_schedule_is_found_wherever_one_micro_batch_fits(seeds: int) -> None:
    for seed in range(20 * seeds, 20 * seeds + 20):
        problem = random_schedule(2 + seed % 3, 4 + seed % 9, None, seed)
        plan = periodic_list_schedule(problem)
        assert (plan is None) == isinstance(order_alone(in_whole_numbers(problem)), bool)
        if plan is not None:
            assert not verify_schedule(problem, plan)
            assert plan.period >= max(problem.loads)


@pytest.mark.parametrize("seed", range(200))
def test_no_period_is_shorter_than_the_least(seed: int) -> None:
    problem = tiny_problem(seed)
    least, plan = least_period(problem), periodic_list_schedule(problem)
    assert (plan is None) == (least is None)
    if plan is not None and least is not None:
        assert plan.period >= least


@pytest.mark.parametrize("name", ["v", "x"])
@pytest.mark.parametrize("devices", [4, 8])
def test_chains_are_busy_without_a_break_where_there_is_memory(name: str, devices: int) -> None:
    problem = shape(name, devices)
    plan = periodic_list_schedule(problem)
    assert plan is not None
    assert plan.period == max(problem.loads)


@pytest.mark.parametrize("name", ["k", "m", "nn"])
def test_blocks_on_all_devices_cost_little(name: str) -> None:
    problem = shape(name, 4)
    plan = periodic_list_schedule(problem)
    assert plan is not None
    assert plan.period <= max(problem.loads) * 1.5


def test_one_after_the_other_waits_for_what_the_next_one_needs() -> None:
    """A lag from one micro-batch to the next makes the period longer than all work."""
    blocks = (Block("a", "X", ("d0",), 2), Block("b", "X", ("d0",), 1))
    problem = ScheduleProblem((ScheduleDevice("d0"),), blocks, (BlockEdge("b", "a", 10, 2), BlockEdge("a", "b")))
    whole = in_whole_numbers(problem)
    period, starts = one_by_one(whole, (0, 1))
    assert (period, starts) == (7, [0, 2])
    plan = periodic_list_schedule(problem)
    assert plan is not None
    assert plan.period == 7


def test_the_planner_answers_for_the_period() -> None:
    for problem in (divided_pipeline(equal_stages(4, 5, 6, 4), m, 16) for m in (None, 12)):
        result = solve(problem, planner="list-schedule", options={"objective": "period"})
        assert result.objective == 15
