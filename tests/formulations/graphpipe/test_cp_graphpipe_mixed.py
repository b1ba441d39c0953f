"""cp-graphpipe with stages that differ in micro-batch size and k, and with fewer degrees to choose from."""

from __future__ import annotations

import random
from itertools import product
from typing import Any

import pytest
from oracles.graph_pipeline import best_mixed_time, best_time, convex_sets, more_in_flight, tree_sets
from problems.graph_pipelines import random_graph_pipeline

from pipeplan.formulations.graphpipe import columns as columns_module
from pipeplan.formulations.graphpipe.columns import find_columns
from pipeplan.formulations.graphpipe.formulation import FORMULATION
from pipeplan.formulations.graphpipe.schedules import extra, useful_groups
from pipeplan.formulations.graphpipe.stage_sets import stage_sets
from pipeplan.formulations.registry import FORMULATIONS
from pipeplan.instances.base.errors import InputError
from pipeplan.instances.base.result import Found, Stop
from pipeplan.instances.graph_pipeline.plan import GraphStage, StageGraphPlan
from pipeplan.instances.graph_pipeline.problem import GraphPipelineProblem, Operator, TimeCurve
from pipeplan.instances.graph_pipeline.referee import evaluate_stage_graph
from pipeplan.planners.backends.client import solve as run_backend
from pipeplan.planners.graph_pipeline.configurations import menu
from pipeplan.planners.graph_pipeline.search import Search
from pipeplan.planners.registry import PLANNERS
from pipeplan.planners.run.solve import solve


def exact(problem: GraphPipelineProblem, start: str = "none", **options: Any) -> Any:
    return solve(problem, formulation="cp-graphpipe", options=options, warm_start=start)  # type: ignore[arg-type]


def agrees(result: Any, expected: float | None) -> None:
    if expected is None:
        assert result.stop == Stop.INFEASIBLE
    else:
        assert result.found == Found.OPTIMAL
        assert result.verified
        assert result.objective == pytest.approx(expected, rel=1e-6)


# ---- samples in flight -------------------------------------------------------------------------------------


def test_the_formula_is_the_published_table() -> None:
    for b_x, k_x, b_y, k_y in product((1, 2, 3, 4, 8), range(1, 6), (1, 2, 3, 4, 8), range(1, 6)):
        assert extra((b_x, k_x), (b_y, k_y)) == more_in_flight(b_x, k_x, b_y, k_y)


def test_groups_beyond_the_largest_micro_batch_are_left_out() -> None:
    """They save no memory; one size alone needs none at all."""
    assert useful_groups((1, 2, 4), 8) == {1: (1, 2, 4), 2: (1, 2), 4: (1,)}
    assert useful_groups((1, 2, 4), 3) == {1: (1, 2), 2: (1, 2), 4: (1,)}
    assert useful_groups((6,), 8) == {6: (1,)}
    with pytest.raises(InputError, match="k"):
        useful_groups((1,), 0)


# ---- optimal -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", ["series-parallel", "convex"])
@pytest.mark.parametrize("seed", range(15))
def test_mixed_stages_are_the_best_of_all_plans(seed: int, family: str) -> None:
    """All k up to 4 are enumerated, although the model leaves some out."""
    rng = random.Random(300 + seed)
    problem = random_graph_pipeline(
        rng,
        most_operators=5,
        most_devices=3,
        series_parallel=rng.random() < 0.5,
        mini_batch=4,
        tight=rng.random() / 2,
    )
    k = rng.choice([1, 2, 4])
    schedules = [(b, k_x) for b in (1, 2, 4) for k_x in (1, 2, 4) if k_x <= k and b * k_x <= 4]
    sets = convex_sets(problem) if family == "convex" else tree_sets(problem)
    agrees(exact(problem, family=family, mixed_micro_batches=True, k=k), best_mixed_time(problem, schedules, sets))


@pytest.mark.parametrize("seed", range(80))
def test_mixed_stages_agree_with_the_dynamic_program(seed: int) -> None:
    rng = random.Random(1000 + seed)
    problem = random_graph_pipeline(rng, most_operators=8, most_devices=5, mini_batch=8, tight=rng.random() / 2)
    k = rng.choice([1, 2, 4])
    answer = Search(problem, menu(problem, (1, 2, 4, 8), k)).best()
    agrees(exact(problem, mixed_micro_batches=True, k=k), None if answer is None else answer.value)


@pytest.mark.parametrize("seed", range(10))
def test_with_one_size_larger_groups_change_nothing(seed: int) -> None:
    problem = random_graph_pipeline(random.Random(seed), most_operators=5, most_devices=3, mini_batch=4, tight=0.35)
    agrees(exact(problem, micro_batch=2, k=4), best_mixed_time(problem, [(2, 1), (2, 2)], tree_sets(problem)))


@pytest.mark.parametrize("seed", range(10))
def test_degrees_restrict_the_stages(seed: int) -> None:
    problem = random_graph_pipeline(random.Random(50 + seed), most_operators=5, mini_batch=12, tight=0.6)
    none, pow2, every = (exact(problem, micro_batch=6, degrees=which) for which in ("none", "pow2", "divisors"))
    agrees(every, best_time(problem, 6, tree_sets(problem)))
    values = [result.objective or float("inf") for result in (none, pow2, every)]
    assert values == sorted(values, reverse=True)
    for result, allowed in ((none, {1}), (pow2, {1, 2})):
        if isinstance(result.plan, StageGraphPlan):
            assert {stage.devices for stage in result.plan.stages} <= allowed


# ---- what a group is good for ------------------------------------------------------------------------------


def operator(name: str, times: tuple[float, ...], stash: float = 0.0) -> Operator:
    """Times of 1, 2, 4, ... samples, forward and backward alike."""
    curve = TimeCurve(tuple(float(1 << e) for e in range(len(times))), times)
    return Operator(name, curve, curve, stash_bytes=stash)


def sandwich() -> GraphPipelineProblem:
    """Two operators that want large micro-batches, and between them one that gains by the smallest."""
    large, small = (2.0, 2.0, 2.0), (0.5, 2.0, 4.0)
    operators = (operator("a", large, stash=1.0), operator("b", small), operator("c", large))
    return GraphPipelineProblem(operators, (("a", "b"), ("b", "c")), mini_batch=16, devices=3, memory_bytes=12.0)


def test_groups_make_small_micro_batches_fit_between_large_ones() -> None:
    """After 4 samples of c, b holds 8; a holds 4 more where b goes in groups of 4, and 7, so 8, where it does not."""
    problem = sandwich()
    single, grouped = (exact(problem, mixed_micro_batches=True, degrees="none", k=k) for k in (1, 4))
    assert (single.objective, grouped.objective) == (pytest.approx(2.0), pytest.approx(1.0))
    assert [(s.micro_batch, s.k, s.in_flight) for s in grouped.plan.stages] == [(4, 1, 12), (1, 4, 8), (4, 1, 4)]
    assert grouped.verified


def test_mixed_plans_of_the_planner_are_starts() -> None:
    result = exact(sandwich(), start="auto", mixed_micro_batches=True, degrees="none", k=4)
    assert str(result.warm_start.outcome) == "accepted"
    assert result.found == Found.OPTIMAL


@pytest.mark.parametrize("seed", range(12))
def test_every_mixed_plan_is_a_solution_of_its_value(seed: int) -> None:
    """Held at the encoded values, the model has a solution."""
    rng = random.Random(seed)
    problem = random_graph_pipeline(rng, most_operators=6, mini_batch=8, tight=rng.choice([None, 0.3, 0.5]))
    options = {"mixed_micro_batches": True, "k": 4, "objective": "time-per-sample"}
    plan = solve(problem, planner="graphpipe", options={**options, "cuts": "tree"}).plan
    built: Any = FORMULATION.build(problem, {**options, "family": "series-parallel"}, native=True)
    if isinstance(plan, StageGraphPlan):
        start = run_backend("cp-sat", built.model, start=built.encode(plan)).warm_start
        assert str(start.outcome) == "accepted"
        assert start.value == pytest.approx(evaluate_stage_graph(problem, plan).time_per_sample)


def test_a_plan_with_larger_groups_than_the_model_has_is_a_start_too() -> None:
    """With one size, k = 1 needs no more memory than k = 2."""
    problem = sandwich()
    stages = tuple(GraphStage((x.id,), 1, 2, 2, 4 * (3 - n)) for n, x in enumerate(problem.operators))
    plan = StageGraphPlan(stages, ((0, 1), (1, 2)))
    result = solve(problem, formulation="cp-graphpipe", options={"micro_batch": 2}, warm_start=plan)
    assert str(result.warm_start.outcome) == "accepted"
    assert isinstance(result.plan, StageGraphPlan)


# ---- options and limits ------------------------------------------------------------------------------------


def test_planner_and_model_share_their_options() -> None:
    """Each is declared once, so that both mean the same."""
    own = {spec.name: spec for spec in FORMULATIONS["cp-graphpipe"].options}
    for spec in PLANNERS["graphpipe"].options:
        if spec.name not in ("objective", "join", "depth", "cuts", "samples_held"):
            assert own[spec.name] is spec


@pytest.mark.parametrize("seed", range(20))
def test_the_quick_bound_is_below_all_plans(seed: int) -> None:
    problem = random_graph_pipeline(random.Random(seed), most_operators=5, mini_batch=4, tight=0.5)
    options = {"mixed_micro_batches": True, "degrees": "pow2", "k": 2, "family": "series-parallel"}
    result = solve(problem, planner="graphpipe", options={k: v for k, v in options.items() if k != "family"})
    if isinstance(result.plan, StageGraphPlan):
        time = evaluate_stage_graph(problem, result.plan).time_per_sample
        assert FORMULATION.lower_bound(problem, options) <= time * (1 + 1e-12)


def test_too_many_columns_are_refused_with_a_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = random_graph_pipeline(random.Random(5), most_operators=6)
    sets = stage_sets(problem, "series-parallel")
    monkeypatch.setattr(columns_module, "MOST_COLUMNS", 5)
    with pytest.raises(InputError, match=r"more than 5 stages.*give --micro-batch"):
        find_columns(problem, sets, [1, 2, 4], None)


def test_a_k_below_one_is_refused() -> None:
    with pytest.raises(InputError, match="k"):
        exact(sandwich(), k=0)
