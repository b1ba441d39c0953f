"""Small random chains: exact-beaumont agrees with trying everything, with walks over partitions from the first moment.

The loops of the walks are run as they are written, without compiling them.
"""

from __future__ import annotations

import pytest
from oracles.chain import agrees
from problems.chains import random_chain

from pipeplan import Progress, SolveOptions, Stop
from pipeplan.instances.chain.referee import verify_pattern
from pipeplan.planners.chain import exact, layer_sets
from pipeplan.planners.chain.baselines import best_contiguous, pipedream_points
from pipeplan.planners.chain.exact import PLANNER
from pipeplan.planners.contract import Board, Request

FAST = range(1, 13)


@pytest.fixture(autouse=True)
def _walks_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layer_sets, "compiled", getattr)
    monkeypatch.setattr(exact, "BRIEF_S", 0.0)


def check(seed: int) -> None:
    problem, seen = random_chain(seed), list[Progress]()
    request = Request(problem, limits=SolveOptions(threads=2), board=Board(seen.append))
    outcome = PLANNER.plan(request)
    if outcome.plan is None:
        assert outcome.stop == Stop.INFEASIBLE
        assert agrees(problem, None)
        return
    assert outcome.stop == Stop.PROVEN
    assert verify_pattern(problem, outcome.plan) == ()
    assert agrees(problem, outcome.plan.period)
    bounds = [progress.bound for progress in seen if progress.bound is not None]
    assert max(bounds) <= outcome.plan.period * (1 + 1e-9), "a bound that was told on the way was too high"


@pytest.mark.parametrize("seed", FAST)
def test_exact_agrees_with_enumeration(seed: int) -> None:
    check(seed)


@pytest.mark.parametrize("seed", range(1, 13))
def test_the_first_plan_is_no_worse_than_any_pipedream_point_that_fits(seed: int) -> None:
    """So the search may begin with contiguous stages and need not run PipeDream's grid."""
    problem = random_chain(seed)
    memory = problem.memory_bytes
    periods = [point.period for point in pipedream_points(problem) if point.fits(memory)]
    first = best_contiguous(problem)
    assert first is not None or not periods
    assert first is None or first.period <= min(periods, default=first.period) * (1 + 1e-9)
