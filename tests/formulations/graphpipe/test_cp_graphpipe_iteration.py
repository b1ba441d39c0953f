"""cp-graphpipe minimises the iteration: its bound against all plans of tiny problems, with any samples in flight."""

from __future__ import annotations

import random

import pytest
from oracles.graph_pipeline import convex_sets, shortest_iteration
from problems.graph_pipelines import random_graph_pipeline

from pipeplan.instances.base.errors import UsageError
from pipeplan.instances.base.result import Result, Stop
from pipeplan.instances.catalogue import load_packaged
from pipeplan.instances.graph_pipeline.problem import GraphPipelineProblem
from pipeplan.planners.run.solve import solve


def answer(problem: GraphPipelineProblem, b: int) -> Result:
    options = {"objective": "iteration", "family": "convex", "micro_batch": b}
    return solve(problem, formulation="cp-graphpipe", options=options, warm_start="none")


@pytest.mark.parametrize("seed", [*range(6), *(pytest.param(n, marks=pytest.mark.sweeps) for n in range(6, 40))])
def test_no_plan_is_shorter_than_the_bound(seed: int) -> None:
    rng = random.Random(seed)
    problem = random_graph_pipeline(
        rng, most_operators=5, most_devices=3, series_parallel=False, mini_batch=4, tight=rng.choice([None, 0.4])
    )
    b = rng.choice([1, 2])
    least, result = shortest_iteration(problem, b, convex_sets(problem)), answer(problem, b)
    if least is None:
        assert result.stop == Stop.INFEASIBLE
        return
    assert result.verified
    assert result.bound is not None
    assert result.objective is not None
    assert result.bound <= least * (1 + 1e-9)
    assert result.objective >= least * (1 - 1e-9)
    assert result.stop == Stop.PROVEN or result.bound >= 0.8 * least
    if result.stop == Stop.PROVEN:
        assert result.objective == pytest.approx(least)


def test_most_of_them_are_proven() -> None:
    """Filling, passes and draining say it all where passes do not wait in between."""
    found = []
    for seed in range(20):
        problem = random_graph_pipeline(random.Random(seed), most_operators=6, most_devices=3, mini_batch=8)
        found.append(answer(problem, 2).stop)
    assert found.count(Stop.PROVEN) >= 10


def test_packaged_networks_are_proven_where_the_time_of_transfers_is_hidden() -> None:
    options = {"objective": "iteration", "family": "convex"}
    result = solve(load_packaged("tiny-graph"), formulation="cp-graphpipe", options=options)
    assert (result.stop, result.objective) == (Stop.PROVEN, 80.5)


@pytest.mark.sweeps
def test_the_model_claims_nothing_of_plans() -> None:
    """Its objective is a bound for them; what they take the referee says."""
    options = {"objective": "iteration", "micro_batch": 4}
    result = solve(
        load_packaged("case-study"), formulation="cp-graphpipe", options=options, solver="cp-sat", warm_start="none"
    )
    assert result.claimed == result.objective
    assert result.bound is not None
    assert result.objective is not None
    assert result.bound < 0.95 * result.objective
    assert result.stop == Stop.COMPLETED


def test_stages_of_one_size_alone() -> None:
    options = {"objective": "iteration", "mixed_micro_batches": True}
    with pytest.raises(UsageError, match="drop --option mixed-micro-batches"):
        solve(load_packaged("tiny-graph"), formulation="cp-graphpipe", options=options)
