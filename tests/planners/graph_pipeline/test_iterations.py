"""The program for short iterations: its bound against all plans and against the CP-SAT model, and its plans."""

from __future__ import annotations

import random
from typing import Any

import pytest
from graphpipe_networks import dlrm, sequential
from oracles.graph_pipeline import shortest_iteration, tree_sets
from problems.graph_pipelines import random_graph_pipeline

from pipeplan import Found, GraphPipelineProblem, Link, Operator, Result, SolveOptions, Stop, TimeCurve, solve
from pipeplan.instances.graph_pipeline.referee import evaluate_stage_graph, verify_stage_graph
from pipeplan.planners.graph_pipeline.iterations import Iterations


def some_problem(seed: int) -> tuple[GraphPipelineProblem, int]:
    """With a micro-batch size."""
    rng = random.Random(seed)
    tree, mini_batch, tight = rng.random() < 0.7, rng.choice([4, 6, 8]), rng.choice([None, 0.2, 0.3, 0.4, 0.6])
    facts: dict[str, Any] = {"series_parallel": tree, "mini_batch": mini_batch, "tight": tight}
    problem = random_graph_pipeline(rng, most_operators=6, most_devices=4, **facts)
    return problem, rng.choice([1, 2])


def program(problem: GraphPipelineProblem, b: int, waits: bool = True) -> Iterations:
    return Iterations(problem, (b,), "divisors", waits, True, lambda: None)


def planned(problem: GraphPipelineProblem | str, **options: object) -> Result:
    return solve(problem, planner="shortest-iteration", options=options)


@pytest.mark.parametrize("seed", [*range(30), *(pytest.param(n, marks=pytest.mark.sweeps) for n in range(30, 400))])
def test_no_plan_is_shorter_than_the_bound_and_its_plans_come_close(seed: int) -> None:
    """Of stages of the decomposition, with any samples in flight, all simulated."""
    problem, b = some_problem(seed)
    least = shortest_iteration(problem, b, tree_sets(problem))
    if least is None:
        assert not list(program(problem, b).climb(1e4))
        return
    tried = program(problem, b)
    plans = list(tried.climb(least * (1 + 1e-9)))
    assert plans
    assert not any(verify_stage_graph(problem, plan) for plan in plans)
    assert min(evaluate_stage_graph(problem, plan).objective("iteration") for plan in plans) >= least * (1 - 1e-9)
    assert 0.96 * least <= tried.refuted <= least * (1 + 1e-9)
    result = planned(problem, micro_batch=b).own_answer
    assert result.verified
    assert result.bound <= least * (1 + 1e-9)
    assert least * (1 - 1e-9) <= result.objective <= least * 1.05


@pytest.mark.parametrize("seed", [*range(20), *(pytest.param(n, marks=pytest.mark.sweeps) for n in range(20, 150))])
def test_the_model_never_knows_more(seed: int) -> None:
    """CP-SAT's model of filling, passes and draining shares no code with the program, which counts some more."""
    problem, b = some_problem(1000 + seed)
    options = {"objective": "iteration", "micro_batch": b}
    model = solve(problem, formulation="cp-graphpipe", options=options, solver="cp-sat")
    result = planned(problem, micro_batch=b).own_answer
    assert (model.objective is None) == (result.objective is None)
    if result.objective is None:
        return
    assert model.bound <= result.bound * (1 + 1e-6)
    assert result.bound <= (model.objective or 0.0) * (1 + 1e-9)


@pytest.mark.sweeps
def test_with_groups_of_passes_transfers_may_be_hidden() -> None:
    """What nothing hides with k = 1 does not count for larger k."""
    one, several = planned("case-study", micro_batch=4), planned("case-study", micro_batch=4, k=2)
    assert several.bound < 0.96 * one.bound
    assert (one.scope or "").endswith("k = 1")
    assert "k = 1" not in (several.scope or "")


def test_a_short_mini_batch_waits_for_its_trip_through_the_pipeline() -> None:
    """With one micro-batch no stage has two things to do: forward to the end, backward, and then the weights."""
    operators = [
        Operator(f"v{n}", TimeCurve((1.0,), (1.0,)), TimeCurve((1.0,), (2.0,)), weight, 0.0, 1.0)
        for n, weight in enumerate((8.0, 0.0))
    ]
    problem = GraphPipelineProblem(tuple(operators), (("v0", "v1"),), 2, 3, None, Link(4.0))
    result = planned(problem, micro_batch=2)
    assert result.stop == Stop.PROVEN
    # v0 on one device, v1 on two: 2 + 0.5 + (1 + 2) + 0.5 + 4. The other way round v0's weights would take 2 more.
    assert result.objective == pytest.approx(10.0)


def chains(alike: int, length: int, devices: int) -> GraphPipelineProblem:
    """Equal branches of some operators, and what joins them."""
    names = [f"b{n}.{i}" for n in range(alike) for i in range(length)] + ["join"]
    curve = TimeCurve((1.0,), (1.0,))
    operators = tuple(Operator(name, curve, TimeCurve((1.0,), (2.0,)), 1.0, 1.0, 0.5) for name in names)
    inner = [(f"b{n}.{i}", f"b{n}.{i + 1}") for n in range(alike) for i in range(length - 1)]
    ends = [(f"b{n}.{length - 1}", "join") for n in range(alike)]
    return GraphPipelineProblem(operators, (*inner, *ends), 8, devices, None, Link(8.0, 0.1))


@pytest.mark.parametrize(("alike", "length", "devices"), [(2, 2, 3), (3, 1, 3), (3, 2, 4), (4, 1, 4)])
def test_alike_branches_take_places_in_turn(alike: int, length: int, devices: int) -> None:
    problem = chains(alike, length, devices)
    result, options = planned(problem, micro_batch=1), {"objective": "iteration", "micro_batch": 1}
    model = solve(problem, formulation="cp-graphpipe", options=options, solver="cp-sat").objective
    assert result.verified
    assert result.objective == pytest.approx(model, rel=0.02)


@pytest.mark.parametrize(("name", "iteration", "gap"), [
    ("tiny-graph", 80.5, 0.0),
    ("candle-uno-8", 0.13966644, 0.0),
    pytest.param("mmt-8", 0.48674711, 0.0, marks=pytest.mark.sweeps),
    pytest.param("dlrm-8", 0.05764528, 0.0, marks=pytest.mark.sweeps),
    pytest.param("case-study", 0.08134145, 0.013, marks=pytest.mark.sweeps),
])  # fmt: skip
def test_packaged_networks_are_within_two_percent(name: str, iteration: float, gap: float) -> None:
    """Far apart before: 6 to 37 % by work and paths alone."""
    result = planned(name)
    assert result.verified
    assert result.objective == pytest.approx(iteration, rel=1e-6)
    assert (result.found == Found.OPTIMAL) == (gap == 0.0)
    assert (result.gap or 0.0) <= gap + 1e-8


def test_the_formulation_asks_the_program_by_itself() -> None:
    result = solve("candle-uno-8", formulation="cp-graphpipe", options={"objective": "iteration"})
    assert result.found == Found.OPTIMAL
    assert result.scope == planned("candle-uno-8").scope


@pytest.mark.timing
@pytest.mark.sweeps
def test_a_time_limit_leaves_a_bound_and_a_plan() -> None:
    result = solve(sequential(16), planner="shortest-iteration", limits=SolveOptions(time_limit_s=4))
    assert result.stop == Stop.TIME
    assert result.verified
    assert result.bound is not None
    assert result.seconds["total"] < 6


def test_a_shorter_plan_of_other_stages_contradicts_nothing() -> None:
    """A graph that is not series-parallel is kept whole, where convex stages could divide it."""
    curves = [TimeCurve((1.0, 2.0), (time, time)) for time in (2.0, 1.0, 2.0, 3.0)]
    operators = tuple(Operator(name, curve, curve) for name, curve in zip("abcd", curves, strict=True))
    problem = GraphPipelineProblem(operators, (("a", "c"), ("a", "d"), ("b", "d")), mini_batch=16, devices=2)
    options = {"degrees": "none", "micro_batch": 1}
    result = solve(problem, planner="shortest-iteration", options=options, cross_check=True)
    wide = {**options, "objective": "iteration", "family": "convex"}
    model = solve(problem, formulation="cp-graphpipe", options=wide).objective
    assert result.in_scope is not None
    assert (model or 0.0) <= (result.objective or 0.0) < (result.in_scope.bound or 0.0)
    assert (result.cross_check or {})["formulation"] == "cp-graphpipe"
    other = solve(problem, planner="graphpipe", options=options, cross_check=True)
    assert [(each.cross_check or {})["contradiction"] for each in (result, other)] == [None, None]


@pytest.mark.sweeps
def test_a_check_that_would_be_too_large_costs_no_plan() -> None:
    options = {"degrees": "none", "micro_batch": 512}
    result = solve(dlrm(8, branches=8), planner="shortest-iteration", options=options, cross_check=True)
    check = result.cross_check or {}
    assert (result.verified, check["contradiction"]) == (True, None)
    assert "form more than" in check["message"]


def test_one_stage_before_a_region_sends_what_any_of_its_operators_reads() -> None:
    """a feeds c alone, which is part of a region that stays whole: its transfer counts all the same."""
    operators = [
        Operator(name, TimeCurve((1.0,), (1.0,)), TimeCurve((1.0,), (1.0,)), 0.0, 3.0 if name == "a" else 1.0, 8.0)
        for name in "abcdef"
    ]
    edges = (("a", "b"), ("a", "c"), ("b", "d"), ("b", "e"), ("c", "e"), ("d", "f"), ("e", "f"))
    problem = GraphPipelineProblem(tuple(operators), edges, 2, 3, None, Link(4.0))
    tried = program(problem, 2)
    least = shortest_iteration(problem, 2, tree_sets(problem))
    assert list(tried.climb(least * (1 + 1e-9)))
    assert tried.refuted == pytest.approx(least)
