"""cp-graphpipe against the dynamic program and the definitions: one micro-batch size, mixed ones, and iterations."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from oracles.graph_pipeline import convex_sets, shortest_iteration, tree_sets
from problems.graph_pipelines import random_graph_pipeline

from pipeplan import Found, GraphStage, InputError, Result, StageGraphPlan, Stop, UsageError, load_packaged, solve
from pipeplan.formulations.graphpipe import columns as columns_module
from pipeplan.formulations.graphpipe.columns import find_columns
from pipeplan.formulations.graphpipe.formulation import FORMULATION
from pipeplan.formulations.graphpipe.more_in_flight import with_more_in_flight
from pipeplan.formulations.graphpipe.stage_sets import stage_sets
from pipeplan.formulations.registry import FORMULATIONS
from pipeplan.instances.graph_pipeline.problem import GraphPipelineProblem, Operator, TimeCurve
from pipeplan.instances.graph_pipeline.referee import evaluate_stage_graph, verify_stage_graph
from pipeplan.planners.backends.client import solve as run_backend
from pipeplan.planners.graph_pipeline.configurations import menu
from pipeplan.planners.graph_pipeline.search import Search
from pipeplan.planners.registry import PLANNERS
from pipeplan.studies.export import export_model


def exact(problem: GraphPipelineProblem, start: str = "none", **options: Any) -> Any:
    return solve(problem, formulation="cp-graphpipe", options=options, warm_start=start)  # type: ignore[arg-type]


def agrees(result: Any, expected: float | None) -> None:
    if expected is None:
        assert result.stop == Stop.INFEASIBLE
    else:
        assert result.found == Found.OPTIMAL
        assert result.verified
        assert result.objective == pytest.approx(expected, rel=1e-6)


# ---- optimal -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(80))
def test_mixed_stages_agree_with_the_dynamic_program(seed: int) -> None:
    rng = random.Random(1000 + seed)
    problem = random_graph_pipeline(rng, most_operators=8, most_devices=5, mini_batch=8, tight=rng.random() / 2)
    k = rng.choice([1, 2, 4])
    answer = Search(problem, menu(problem, (1, 2, 4, 8), k)).best()
    agrees(exact(problem, mixed_micro_batches=True, k=k), None if answer is None else answer.value)


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


def test_too_many_columns_are_refused_with_a_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = random_graph_pipeline(random.Random(5), most_operators=6)
    sets = stage_sets(problem, "series-parallel")
    monkeypatch.setattr(columns_module, "MOST_COLUMNS", 5)
    with pytest.raises(InputError, match=r"more than 5 stages.*give --micro-batch"):
        find_columns(problem, sets, [1, 2, 4], None)


@pytest.mark.parametrize("seed", range(40))
def test_its_families_are_the_definitions(seed: int) -> None:
    rng = random.Random(seed)
    problem = random_graph_pipeline(rng, most_operators=8, series_parallel=rng.random() < 0.5)

    def bits(family: set[frozenset[int]]) -> list[int]:
        return sorted(sum(1 << v for v in members) for members in family)

    assert list(stage_sets(problem, "convex")) == bits(convex_sets(problem))
    assert list(stage_sets(problem, "series-parallel")) == bits(tree_sets(problem))


def test_a_model_for_cp_sat_alone_is_not_exported_whatever_the_solver(tmp_path: Path) -> None:
    """Nor is a solver named that would change that."""
    problem = random_graph_pipeline(random.Random(1))
    for solver in ("auto", "cp-sat"):
        with pytest.raises(UsageError) as caught:
            export_model(problem, str(tmp_path / "model.mps"), formulation="cp-graphpipe", solver=solver)
        assert str(caught.value) == (
            "cp-graphpipe is a model for CP-SAT alone, which no .mps or .lp file can hold; drop --export-model."
        )
    with pytest.raises(UsageError, match="choose --solver cp-sat"):
        solve(problem, formulation="cp-graphpipe", solver="highs")


def shortest(problem: GraphPipelineProblem, b: int) -> Result:
    options = {"objective": "iteration", "family": "convex", "micro_batch": b}
    return solve(problem, formulation="cp-graphpipe", options=options, warm_start="none")


@pytest.mark.parametrize("seed", [*range(6), *(pytest.param(n, marks=pytest.mark.sweeps) for n in range(6, 40))])
def test_no_plan_is_shorter_than_the_bound(seed: int) -> None:
    rng = random.Random(seed)
    problem = random_graph_pipeline(
        rng, most_operators=5, most_devices=3, series_parallel=False, mini_batch=4, tight=rng.choice([None, 0.4])
    )
    b = rng.choice([1, 2])
    least, result = shortest_iteration(problem, b, convex_sets(problem)), shortest(problem, b)
    if least is None:
        assert result.stop == Stop.INFEASIBLE
        return
    assert result.verified
    assert result.bound <= least * (1 + 1e-9)
    assert result.objective >= least * (1 - 1e-9)
    assert result.stop == Stop.PROVEN or result.bound >= 0.8 * least
    if result.stop == Stop.PROVEN:
        assert result.objective == pytest.approx(least)


@pytest.mark.sweeps
def test_the_model_claims_nothing_of_plans() -> None:
    """Its objective is a bound for them; what they take the referee says."""
    options = {"objective": "iteration", "micro_batch": 4}
    result = solve(
        load_packaged("case-study"), formulation="cp-graphpipe", options=options, solver="cp-sat", warm_start="none"
    )
    assert result.claimed == result.objective
    assert result.bound < 0.95 * result.objective
    assert result.stop == Stop.COMPLETED


def test_stages_of_one_size_alone() -> None:
    options = {"objective": "iteration", "mixed_micro_batches": True}
    with pytest.raises(UsageError, match="drop --option mixed-micro-batches"):
        solve(load_packaged("tiny-graph"), formulation="cp-graphpipe", options=options)


# ---- more in flight ----------------------------------------------------------------------------------------
# Stages hold more than the rule asks for where memory is left and transfers are hidden by it.


NAMES = ("tiny-graph", "case-study", "mmt-8")


def planned(name: str, held: str, **more: object) -> tuple[StageGraphPlan, float]:
    result = solve(load_packaged(name), planner="graphpipe", options={"samples_held": held, **more})
    assert isinstance(result.plan, StageGraphPlan)
    assert result.verified
    assert result.objective is not None
    return result.plan, result.objective


@pytest.mark.at_once(1)
@pytest.mark.parametrize("name", NAMES)
def test_transfers_are_hidden_by_what_is_held_beyond_the_rule(name: str) -> None:
    assert planned(name, "more")[1] < 0.995 * planned(name, "rule")[1]


def test_the_time_per_sample_is_not_shorter_for_it() -> None:
    found = [planned("tiny-graph", held, objective="time-per-sample") for held in ("more", "rule")]
    assert found[0] == found[1]


def test_it_ends_where_no_stage_shortens_the_iteration_by_holding_more() -> None:
    problem = load_packaged("tiny-graph")
    better, shorter = with_more_in_flight(problem, *planned("tiny-graph", "rule"))
    assert not verify_stage_graph(problem, better)
    assert shorter == evaluate_stage_graph(problem, better).iteration < planned("tiny-graph", "rule")[1]
    assert with_more_in_flight(problem, better, shorter) == (better, shorter)


def test_memory_that_is_full_leaves_the_rule() -> None:
    """With what the plan of the rule takes on its fullest device, and no more."""
    problem = load_packaged("tiny-graph")
    plan, value = planned("tiny-graph", "rule")
    tight = problem.replace(memory_bytes=max(s.memory_bytes for s in evaluate_stage_graph(problem, plan).stages))
    assert with_more_in_flight(tight, plan, value)[1] >= with_more_in_flight(problem, plan, value)[1]
