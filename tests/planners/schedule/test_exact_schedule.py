"""`exact-schedule`: proven optima, never worse than a rule, whatever stops it."""

from __future__ import annotations

import pytest
from recipes.other_kinds import measured_even, measured_uneven

from pipeplan import Progress, SolveOptions, Stop, solve
from pipeplan.instances.schedule.generators import divided_pipeline, equal_stages

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
