"""Zero bubble by greedy choices: beside the published heuristic, and within any memory."""

from __future__ import annotations

import pytest
from recipes.other_kinds import measured_uneven

from pipeplan import solve
from pipeplan.instances.base.errors import UsageError
from pipeplan.instances.schedule.generators import divided_pipeline, equal_stages, random_pipeline
from pipeplan.instances.schedule.referee import evaluate_schedule, verify_schedule
from pipeplan.planners.schedule.named import greedy_schedules

PUBLISHED = [
    # devices, micro-batches, times, lag, memory, span of the published heuristic
    (4, 12, (5, 6, 4), 0, 8, 201),
    (4, 12, (5, 6, 4), 0, 10, 193),
    (4, 12, (5, 6, 4), 0, 11, 193),
    (4, 12, (5, 6, 4), 0, 12, 188),
    (4, 12, (5, 6, 4), 0, 14, 183),
    (4, 12, (5, 6, 4), 0, 16, 183),
    (4, 6, (5, 6, 4), 0, 10, 105),
    (4, 12, (5478, 5806, 3534), 200, 32, 178898),
]


@pytest.mark.parametrize(("p", "m", "times", "lag", "memory", "published"), PUBLISHED)
def test_it_is_near_the_published_heuristic(
    p: int, m: int, times: tuple[float, float, float], lag: float, memory: float, published: float
) -> None:
    """Within 3 %: its choices are of the same sort, and not the same."""
    problem = divided_pipeline(equal_stages(p, *times), m, memory, lag)
    spans = [evaluate_schedule(problem, plan).span for plan in greedy_schedules(problem, "span")]
    assert min(span for span in spans if span is not None) <= 1.03 * published


@pytest.mark.parametrize(
    ("p", "m", "times", "lag", "memory", "best"),
    [
        (16, 64, (10, 11, 9), 1, 48, 2035),
        (8, 24, (5, 6, 4), 0, 24, 382),
        (8, 32, (10, 12, 8), 2, 24, 1032),
        (8, 32, (10, 12, 8), 2, 28, 1012),
    ],
)
def test_between_the_memory_of_both_rules_it_is_near_the_optimum(
    p: int, m: int, times: tuple[float, float, float], lag: float, memory: float, best: float
) -> None:
    """The optima are met by the bounds of exact-schedule."""
    problem = divided_pipeline(equal_stages(p, *times), m, memory, lag)
    spans = (evaluate_schedule(problem, plan).span for plan in greedy_schedules(problem, "span"))
    assert any(span is not None and span <= 1.002 * best for span in spans)


@pytest.mark.sweeps
def test_the_uneven_pipeline_is_scheduled_as_well_as_its_work_lets() -> None:
    problem = measured_uneven()
    result = solve(problem, planner="zb-greedy", options={"objective": "span"})
    assert result.objective == float(max(problem.loads) * 32) == 3623744


@pytest.mark.parametrize("seed", range(40))
def test_every_variant_is_valid_in_any_memory_that_one_micro_batch_fits(seed: int) -> None:
    problem = random_pipeline(2 + seed % 4, 3 + seed % 6, 2 + seed % 7, seed % 3, seed)
    plans = list(greedy_schedules(problem, "makespan"))
    assert plans
    assert not any(verify_schedule(problem, plan) for plan in plans)


def test_backward_passes_in_one_part_are_refused() -> None:
    problem = divided_pipeline(equal_stages(4, 1, 2, None), 4, None)
    with pytest.raises(UsageError, match=r"in two parts \(I and W\)"):
        list(greedy_schedules(problem, "span"))


def test_too_little_memory_is_told() -> None:
    problem = divided_pipeline(equal_stages(4, 5, 6, 4), 4, 1)
    result = solve(problem, planner="zb-greedy")
    assert result.plan is None
    assert any("not even one micro-batch" in message for message in result.messages)
