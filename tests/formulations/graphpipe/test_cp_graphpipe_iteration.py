"""cp-graphpipe minimises the iteration: its bound against all plans of tiny problems, with any samples in flight."""

from __future__ import annotations

import math
import random
from itertools import product

import pytest
from graph_pipeline_brute_force import all_vertices, compositions, convex_sets, heights, partitions
from random_graph_pipelines import random_graph_pipeline

from pipeplan.instances.catalogue import load_packaged
from pipeplan.instances.errors import UsageError
from pipeplan.instances.graph_pipeline.plan import GraphStage, StageGraphPlan
from pipeplan.instances.graph_pipeline.problem import GraphPipelineProblem
from pipeplan.instances.graph_pipeline.referee.evaluate import evaluate_stage_graph, verify_stage_graph
from pipeplan.instances.result import Result, Stop
from pipeplan.planners.run.solve import solve


def shortest(problem: GraphPipelineProblem, b: int) -> float | None:
    """Of all convex stages, numbers of devices and samples in flight; None: nothing fits."""
    best = math.inf
    for stages in partitions(all_vertices(problem), sorted(convex_sets(problem), key=sorted)):
        height = None if len(stages) > problem.devices else heights(problem, stages)
        if height is None:
            continue
        edges = {
            (i, j)
            for i, x in enumerate(stages)
            for j, y in enumerate(stages)
            if i != j and any(u in x and v in y for u, v in problem.arcs)
        }
        for shares in compositions(problem.devices, len(stages)):
            for held in product(*(range(h * b, problem.mini_batch + 1, b) for h in height)):
                plan = StageGraphPlan(
                    tuple(
                        GraphStage(tuple(problem.operators[v].id for v in sorted(stage)), d, b, 1, samples)
                        for stage, d, samples in zip(stages, shares, held, strict=True)
                    ),
                    tuple(sorted(edges)),
                )
                if not verify_stage_graph(problem, plan):
                    best = min(best, evaluate_stage_graph(problem, plan).iteration or math.inf)
    return None if best == math.inf else best


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
    least, result = shortest(problem, b), answer(problem, b)
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


def test_the_model_claims_nothing_of_plans() -> None:
    """Its objective is a bound for them; what they take the referee says."""
    options = {"objective": "iteration", "micro_batch": 4}
    result = solve(load_packaged("case-study"), formulation="cp-graphpipe", options=options, warm_start="none")
    assert result.claimed == result.objective
    assert result.bound is not None
    assert result.objective is not None
    assert result.bound < 0.95 * result.objective
    assert result.stop == Stop.COMPLETED


def test_stages_of_one_size_alone() -> None:
    options = {"objective": "iteration", "mixed_micro_batches": True}
    with pytest.raises(UsageError, match="drop --mixed-micro-batches"):
        solve(load_packaged("tiny-graph"), formulation="cp-graphpipe", options=options)
