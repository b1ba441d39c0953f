"""GPUs of two sorts: the referee, the search and its bounds beside enumeration from the definitions."""

from __future__ import annotations

import pytest
from oracles import training_pools
from problems.pooled_trainings import random_pooled

from pipeplan.instances.training.referee import evaluate_configuration, verify_configuration
from pipeplan.instances.training.scope import Scope
from pipeplan.planners.training.empty import why_empty
from pipeplan.planners.training.pools import search_of, space_of
from pipeplan.planners.training.search import Settings

CLOSE = 1e-9


def compare(seed: int) -> bool:
    """Does anything fit? Times and bytes of some configurations, and the best of all."""
    problem = random_pooled(seed)
    plans = list(training_pools.configurations(problem))
    space = space_of(problem, Scope())
    least, held = space.bounds
    rows = {tuple(int(column[i]) for column in space.columns.values()): i for i in range(len(space))}
    for plan in plans[:: max(1, len(plans) // 20)]:
        seconds, full = training_pools.judged(problem, plan)
        own = evaluate_configuration(problem, plan)
        assert own.timing.seconds == pytest.approx(seconds, rel=CLOSE), (seed, plan)
        assert [rank.full for rank in own.memory] == pytest.approx(full, rel=CLOSE), (seed, plan)
        d = plan.degrees
        row = rows.get(
            (d.tensor, d.context, d.pipeline, d.data, d.expert, d.expert_tensor, plan.micro_batch, plan.zero)
        )
        if row is not None:  # choices that are the same have one name
            assert least[row] <= seconds * (1 + CLOSE), (seed, plan)
            if problem.memory_bytes is not None and plan.recompute[0].modules == ("full",):
                assert held[row] <= max(full) * problem.memory_bytes * (1 + CLOSE), (seed, plan)
    truth = training_pools.best(problem)
    scope = Scope(forbid=tuple(("recompute", word) for word in words_of_modules(problem)))
    report = search_of(problem)(problem, scope, Settings(error=0.0, memory_error=0.0)).run()
    assert report.finished
    if truth is None:
        assert report.best is None, (seed, report.best)
        return False
    assert report.best is not None, (seed, truth)
    assert report.best.seconds == pytest.approx(truth[0], rel=CLOSE), (seed, report.best.plan, truth[1])
    assert report.bound <= truth[0] * (1 + CLOSE), seed
    assert report.gap == pytest.approx(0.0, abs=1e-9), seed
    assert not verify_configuration(problem, report.best.plan), seed
    return True


def words_of_modules(problem) -> list[str]:
    """All sets of modules, of which the enumeration knows nothing."""
    return [",".join(word) for word in space_of(problem, Scope()).words if word not in ((), ("full",))]


def test_the_best_configuration_is_that_of_enumeration() -> None:
    fit = [compare(seed) for seed in range(3)]
    assert any(fit)


@pytest.mark.sweeps
@pytest.mark.slow(*map(str, range(24, 64, 10)))
@pytest.mark.parametrize("start", range(4, 64, 10))
def test_the_best_configuration_is_that_of_enumeration_many_times(start: int) -> None:
    fit = [compare(seed) for seed in range(start, start + 10)]
    assert any(fit)


def test_a_scope_without_anything_says_why() -> None:
    pooled, alone = random_pooled(1), random_pooled(1).pools[0]
    for problem, fixed, said in (
        (pooled, {"virtual": "2"}, "only 1F1B with one chunk per rank"),
        (alone, {"first-pool": "2"}, "no second sort of GPUs"),
    ):
        scope = Scope(fixed)
        assert not space_of(problem, scope).sizes.sum()
        assert said in why_empty(problem, scope)
