"""Orders and the best times for them."""

from __future__ import annotations

from fractions import Fraction

import pytest

from pipeplan.formulations.zero_bubble.finite import grid_of
from pipeplan.formulations.zero_bubble.finite_orders import in_order, sequences_of, tightest
from pipeplan.formulations.zero_bubble.finite_problem import MOST_STEPS, finite_problem, for_integers
from pipeplan.instances.schedule.generators import random_pipeline
from pipeplan.instances.schedule.pipelines import divided_pipeline, equal_stages
from pipeplan.instances.schedule.plan import SchedulePlan
from pipeplan.instances.schedule.problem import Block, BlockEdge, ScheduleDevice, ScheduleProblem
from pipeplan.instances.schedule.referee import evaluate_schedule, verify_schedule
from pipeplan.planners.schedule.list_schedule import better_and_better


def test_micro_batches_that_change_places_change_nothing() -> None:
    problem = divided_pipeline(equal_stages(2, 1, 1, 1), 2, 4)
    plan = tightest(finite_problem(problem, "a test"), _one_after_the_other(problem), "makespan")
    assert plan is not None
    swapped = SchedulePlan({block: starts[::-1] for block, starts in plan.starts.items()})
    assert verify_schedule(problem, swapped) == ()
    assert in_order(swapped) == plan


def _one_after_the_other(problem: ScheduleProblem) -> tuple[tuple[tuple[int, int], ...], ...]:
    return tuple(tuple((b, n) for n in range(2) for b in blocks) for blocks in problem.on_device)


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
        assert values[0] is not None
        assert values[1] is not None
        assert values[0] <= values[1]


def test_devices_that_wait_for_each_other_have_no_times() -> None:
    problem = divided_pipeline(equal_stages(2, 1, 1, 1), 1, 4)
    rows = [[(b, 0) for b in blocks] for blocks in problem.on_device]
    rows[0] = [rows[0][1], rows[0][0], rows[0][2]]  # I of stage 0 before its F
    assert tightest(finite_problem(problem, "a test"), tuple(map(tuple, rows)), "span") is None


def crossing() -> ScheduleProblem:
    """Two devices whose first blocks each wait for nobody, and lead to the last block of the other one, 3 and 6
    later."""
    devices = tuple(ScheduleDevice(name) for name in "de")
    blocks = tuple(Block(f"{name}{i}", "X", (name,), 1) for name in "de" for i in range(2))
    edges = (BlockEdge("d0", "d1"), BlockEdge("e0", "e1"), BlockEdge("d0", "e1", 1), BlockEdge("e0", "d1", 4))
    return ScheduleProblem(devices, blocks, edges, 1)


def test_the_least_span_may_be_half_a_step() -> None:
    """The first start of e comes x after that of d: one span is at least 3 - x, the other one 6 + x."""
    problem = crossing()
    finite = finite_problem(problem, "a test")
    plan = tightest(finite, (((0, 0), (1, 0)), ((2, 0), (3, 0))), "span")
    assert plan is not None
    assert evaluate_schedule(problem, plan).span == Fraction(9, 2)
    assert verify_schedule(problem, plan) == ()
    assert grid_of(finite, "span", None).factor == 2


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
    assert plan is not None
    assert plan.starts["give"][0] < plan.starts["take"][0] < plan.starts["give"][0] + Fraction(1, 10**6)
    assert verify_schedule(problem, plan) == ()
