"""Annealing on orders, as plain Python: what it returns is valid and better."""

from __future__ import annotations

import pytest
from known_pipelines import random_pipeline
from problems.schedules import Ingredients, random_schedule

from pipeplan.formulations.zero_bubble.finite_orders import sequences_of, tightest
from pipeplan.formulations.zero_bubble.finite_problem import finite_problem
from pipeplan.instances.schedule.problem import ScheduleProblem
from pipeplan.instances.schedule.referee import evaluate_schedule, verify_schedule
from pipeplan.planners.schedule import anneal_kernel
from pipeplan.planners.schedule.exact import Annealer
from pipeplan.planners.schedule.list_schedule import better_and_better

ALONE = Ingredients(groups=False, zero_times=False)


def problems() -> list[ScheduleProblem]:
    pipelines = [random_pipeline(3, 5, memory, 1, memory) for memory in (4, 6)]
    return pipelines + [random_schedule(2, 5, 4, seed, ALONE) for seed in (0, 2, 3, 5, 6, 7)]


@pytest.mark.parametrize("objective", ["makespan", "span"])
@pytest.mark.parametrize("number", range(8))
def test_better_orders_are_valid(objective: str, number: int) -> None:
    problem = problems()[number]
    finite = finite_problem(problem, "a test")
    plan = next(better_and_better(problem, objective))
    annealer = Annealer.of(finite, objective, seed=number)
    state = annealer._state(sequences_of(problem, plan))
    before = anneal_kernel.anneal(annealer.tables, state, 0, 1.0, 1.0, 0)
    after = anneal_kernel.anneal(annealer.tables, state, 300, 2.0, 0.1, 0)
    best = tightest(finite, annealer._sequences(state), objective)
    assert best is not None
    assert verify_schedule(problem, best) == ()
    value = evaluate_schedule(problem, best).objective(objective)
    assert value * finite.steps <= after <= before


def test_a_poor_order_gets_better() -> None:
    """One micro-batch after the other is not what a pipeline is for."""
    problem = random_pipeline(3, 5, 6, 1, 0)
    finite = finite_problem(problem, "a test")
    rows = tuple(tuple((b, n) for n in range(5) for b in blocks) for blocks in finite.on_device)
    annealer = Annealer.of(finite, "makespan", seed=0)
    state = annealer._state(rows)
    before = anneal_kernel.anneal(annealer.tables, state, 0, 1.0, 1.0, 0)
    assert anneal_kernel.anneal(annealer.tables, state, 500, 5.0, 0.1, 0) < 0.8 * before


def test_blocks_on_several_devices_are_left_to_the_model() -> None:
    problem = random_schedule(3, 8, 2, 0)
    assert any(len(block.devices) > 1 for block in problem.blocks)
    assert Annealer.of(finite_problem(problem, "a test"), "span", 0) is None
