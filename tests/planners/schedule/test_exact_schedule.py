"""`exact-schedule`: proven optima, never worse than a rule, whatever stops it."""

from __future__ import annotations

import pytest
from known_pipelines import random_pipeline
from problems.schedules import Ingredients, random_schedule
from recipes.other_kinds import measured_even, measured_uneven

from pipeplan import Progress, SolveOptions, Stop, solve
from pipeplan.formulations.zero_bubble.finite_orders import sequences_of, tightest
from pipeplan.formulations.zero_bubble.finite_problem import finite_problem
from pipeplan.instances.schedule.generators import divided_pipeline, equal_stages
from pipeplan.instances.schedule.problem import ScheduleProblem
from pipeplan.instances.schedule.referee import evaluate_schedule, verify_schedule
from pipeplan.planners.schedule import anneal_kernel
from pipeplan.planners.schedule.exact import Annealer
from pipeplan.planners.schedule.list_schedule import better_and_better

SPAN = {"objective": "span"}

TABLE = [
    *(
        (4, 12, (5, 6, 4), 0, memory, span)
        for memory, span in ((8, 201), (10, 193), (11, 193), (12, 188), (14, 183))
    ),
    (4, 12, (5, 6, 4), 0, 16, 181),
    (4, 6, (5, 6, 4), 0, 10, 103),
    (32, 16, (1, 1, 1), 0, 64, 95),
    pytest.param(4, 12, (5478, 5806, 3534), 200, 32, 178898, marks=pytest.mark.slow),
]
"""Stages, micro-batches, times of F, I and W, lag, memory, and the least span."""


@pytest.mark.sweeps
@pytest.mark.parametrize(("stages", "batches", "times", "lag", "memory", "span"), TABLE)
def test_the_table_of_zero_bubble_pipelines(
    stages: int, batches: int, times: tuple[int, int, int], lag: int, memory: int, span: int
) -> None:
    problem = divided_pipeline(equal_stages(stages, *times), batches, memory, lag)
    result = solve(problem, options=SPAN)
    assert result.stop == Stop.PROVEN
    assert result.objective == span
    assert result.verified


def test_a_result_names_a_solver_only_where_one_was_asked() -> None:
    """Bounds prove the first problem; the second needs a model."""
    bounds = solve(measured_uneven(), options=SPAN)
    assert (bounds.stop, bounds.objective, bounds.backend) == (Stop.PROVEN, 3623744, {})
    assert bounds.proof.backend is None
    model = solve(divided_pipeline(equal_stages(4, 5, 6, 4), 12, 10), options=SPAN)
    assert model.backend["name"] == "cp-sat"
    assert model.backend["models"] > 0


def test_even_without_time_for_a_search_no_rule_is_better() -> None:
    problem = measured_even(12)
    result = solve(problem, options=SPAN, limits=SolveOptions(time_limit_s=600, rel_gap=0.2))
    assert result.stop in (Stop.GAP, Stop.PROVEN)
    assert result.objective <= 1.25 * result.bound


def test_a_plan_and_a_bound_are_told_at_once() -> None:
    told: list[Progress] = []
    solve(divided_pipeline(equal_stages(4, 5, 6, 4), 12, 8), options=SPAN, on_progress=told.append)
    assert told[0].incumbent is not None
    assert told[0].bound == 180
    assert told[-1].incumbent == told[-1].bound == 201


def test_a_start_is_taken() -> None:
    problem = divided_pipeline(equal_stages(4, 5, 6, 4), 6, 10)
    best = solve(problem, options=SPAN)
    again = solve(problem, options=SPAN, warm_start=best.plan)
    assert again.stop == Stop.PROVEN
    assert again.warm_start.outcome == "accepted"
    assert again.objective == 103


def test_the_period_is_asked_of_its_own_model() -> None:
    problem = divided_pipeline(equal_stages(2, 5, 6, 4), 3, 4)
    for asked in (problem, problem.replace(micro_batches=None)):
        result = solve(asked, options={"objective": "period"})
        assert (result.stop, result.objective) == (Stop.PROVEN, 15)


# ---- schedule annealing ------------------------------------------------------------------------------------
# Annealing on orders, as plain Python: what it returns is valid and better.


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
