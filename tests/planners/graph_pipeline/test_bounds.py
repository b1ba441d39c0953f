"""The bound of the graph-pipeline planners: below every plan there is, and where it is reached."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import Any

import pytest
from graphpipe_networks import case_study
from oracles.graph_pipeline import all_plans, convex_sets, slowest_stage
from problems.graph_pipelines import random_graph_pipeline

from pipeplan import GraphPipelineProblem, Link, Operator, SolveOptions, Stop, TimeCurve, solve
from pipeplan.instances.graph_pipeline.referee import evaluate_stage_graph
from pipeplan.planners.graph_pipeline import bounds
from pipeplan.planners.graph_pipeline.bounds import lower_bound
from pipeplan.planners.registry import PLANNERS

OBJECTIVES = ("time-per-sample", "iteration")
MEMORY = (None, None, 0.2, 0.4, 0.7)


def problem_of(rng: random.Random, most_operators: int = 8, mini_batch: int = 16) -> GraphPipelineProblem:
    devices, tree = 4 if most_operators < 6 else 8, rng.random() < 0.5
    facts: dict[str, Any] = {"most_operators": most_operators, "most_devices": devices, "series_parallel": tree}
    problem = random_graph_pipeline(rng, mini_batch=mini_batch, tight=rng.choice(MEMORY), **facts)
    return problem.replace(link=Link(rng.choice([None, 2.0, 8.0]), rng.choice([0.0, 0.3])))


def options_of(rng: random.Random) -> dict[str, Any]:
    degrees, size = rng.choice(["divisors", "divisors", "pow2", "none"]), rng.choice([None, None, 1, 4])
    mixed = rng.random() < 0.4 and size is None
    return {"degrees": degrees, "micro_batch": size, "mixed_micro_batches": mixed, "k": rng.choice([1, 2, 4])}


# ---- valid -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(200))
def test_no_plan_of_a_tiny_problem_is_below_it(seed: int) -> None:
    """Any convex stages, sizes 1 to 4, any degrees, k = 1 or 2; the quickest plans and some others are simulated."""
    rng = random.Random(seed)
    problem, options = problem_of(rng, most_operators=4, mini_batch=4), options_of(rng)
    sizes = [options["micro_batch"] or b for b in (1, 2, 4)]
    schedules = sorted({(b, k) for b in sizes for k in (1, 2) if b * k <= 4})
    plans = [
        plan
        for plan in all_plans(problem, schedules, convex_sets(problem), options["mixed_micro_batches"])
        if options["degrees"] != "none" or all(stage.devices == 1 for stage in plan.stages)
    ]
    plans.sort(key=lambda plan: slowest_stage(problem, plan))
    bound = {objective: lower_bound(problem, {**options, "objective": objective}) for objective in OBJECTIVES}
    for plan in plans[:30] + rng.sample(plans, min(30, len(plans))):
        facts = evaluate_stage_graph(problem, plan)
        for objective in OBJECTIVES:
            below = bound[objective]
            assert below <= facts.objective(objective) * (1 + 1e-9)


@pytest.mark.parametrize("seed", range(80))
def test_no_planner_is_below_the_bound_of_another(seed: int) -> None:
    """One bound for all of them: they differ in the plans that they look at, not in the problem."""
    rng = random.Random(1000 + seed)
    problem, options = problem_of(rng), options_of(rng)
    for objective in OBJECTIVES:
        own = {**options, "objective": objective}
        bound = lower_bound(problem, own)
        for planner in ("graphpipe", "spp-pipedream", "graphpipe-parallel"):
            known = {option.name for option in PLANNERS[planner].options}
            result = solve(problem, planner=planner, options={k: v for k, v in own.items() if k in known})
            assert not any("bound" in message for message in result.messages)
            assert (result.violations, result.claimed) == ((), result.objective and pytest.approx(result.objective))
            if result.objective is not None:
                assert result.bound is not None
                assert bound <= result.objective * (1 + 1e-9)


# ---- tight -------------------------------------------------------------------------------------------------


def chain(count: int, devices: int, mini_batch: int = 16, time: float = 1.0) -> GraphPipelineProblem:
    """Equal operators whose times grow with the samples; backward passes take twice as long."""
    operators = tuple(
        Operator(n, TimeCurve((1.0,), (time,)), TimeCurve((1.0,), (2 * time,)), output_bytes=1.0)
        for n in range(count)
    )
    edges = tuple((n, n + 1) for n in range(count - 1))
    return GraphPipelineProblem(operators, edges, mini_batch, devices, name="chain")


def planned(problem: GraphPipelineProblem, **options: Any) -> tuple[float, float, Stop]:
    """Objective, bound and stop of graphpipe."""
    result = solve(problem, planner="graphpipe", options=options)
    assert result.objective is not None
    assert result.bound is not None
    return result.objective, result.bound, result.stop


@pytest.mark.parametrize(("operators", "devices", "options", "value"), [
    # n micro-batches through p equal stages: n + p - 1 slots, bubbles and all.
    *((p, p, {"degrees": "none"}, (16 + p - 1) * 3.0) for p in (2, 3, 5, 8)),
    (4, 4, {}, 16 * 3.0),  # even work
    # Five equal operators on four devices: one has two of them, although the work alone is a quarter of five.
    (5, 4, {"degrees": "none", "objective": "time-per-sample"}, 6.0),
])  # fmt: skip
def test_chains_are_proven(operators: int, devices: int, options: dict[str, Any], value: float) -> None:
    objective, _, stop = planned(chain(operators, devices), **options)
    assert (objective, stop) == (pytest.approx(value), Stop.PROVEN)


@pytest.mark.parametrize("seed", range(20))
def test_the_time_per_sample_of_a_chain_is_proven(seed: int) -> None:
    """Transfers, synchronisation and all: a path is all there is."""
    rng = random.Random(seed)
    problem = random_graph_pipeline(rng, most_operators=8, most_devices=5)
    row = [operator.id for operator in problem.operators]
    problem = problem.replace(
        edges=tuple(pairwise(row)), link=Link(rng.choice([None, 3.0]), rng.choice([0.0, 0.2]))
    )
    options = {"objective": "time-per-sample"}
    result = solve(problem, planner="graphpipe", options=options)
    if result.objective is None:
        assert lower_bound(problem, options) is None  # a few operators that cannot use all devices
    else:
        assert result.stop == Stop.PROVEN


def test_transfers_on_the_path_count() -> None:
    """Two stages of one operator each, by memory: the tensor goes there and back before the last pass."""
    operators = tuple(
        Operator(n, TimeCurve((1.0,), (1.0,)), TimeCurve((1.0,), (2.0,)), weight_bytes=4.0, output_bytes=1.0)
        for n in "ab"
    )
    problem = GraphPipelineProblem(operators, (("a", "b"),), 8, 2, memory_bytes=8.0, link=Link(1.0))
    assert planned(problem, micro_batch=1, degrees="none")[1] == pytest.approx(8 * 3 + 3 + 2)


def test_stages_early_on_the_path_need_more_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three stages in a row hold 3, 2 and 1 micro-batches: with memory for 6 samples, no more than 2 samples each."""
    curve = TimeCurve((1.0, 2.0, 4.0), (2.0, 2.0, 2.0))
    operators = tuple(Operator(n, curve, curve, weight_bytes=2.0, stash_bytes=1.0) for n in range(3))
    problem = GraphPipelineProblem(operators, ((0, 1), (1, 2)), 8, 3, memory_bytes=10.0)
    objective, _, stop = planned(problem, degrees="none")
    assert (objective, stop) == (pytest.approx((8 / 2 + 2) * 4.0), Stop.PROVEN)
    monkeypatch.setattr(bounds, "MOST_LEVELS", 1)
    assert (lower_bound(problem, {"degrees": "none"}) or 0.0) < 0.8 * objective


def test_a_memory_that_no_row_of_stages_fits_has_no_bound() -> None:
    """Each operator fits a device with one sample in flight; three in a row need 3, 2 and 1."""
    curve = TimeCurve((1.0,), (1.0,))
    operators = tuple(Operator(n, curve, curve, weight_bytes=2.0, stash_bytes=1.0) for n in range(3))
    problem = GraphPipelineProblem(operators, ((0, 1), (1, 2)), 8, 3, memory_bytes=6.9)
    for objective in OBJECTIVES:
        assert lower_bound(problem, {"objective": objective}) is None
        assert lower_bound(problem.replace(memory_bytes=7.0), {"objective": objective}) is not None


def test_a_gap_that_is_open_is_not_called_proven() -> None:
    objective, bound, stop = planned(case_study())
    assert bound < objective * (1 - 1e-6)
    assert stop == Stop.COMPLETED


# ---- the machine behind it ---------------------------------------------------------------------------------


@pytest.mark.machine_code
def test_compiled_and_plain_loops_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = problem_of(random.Random(4))
    plain = lower_bound(problem, {})
    monkeypatch.setattr(bounds, "COMPILED_FROM", 0)
    assert lower_bound(problem, {}) == pytest.approx(plain, rel=1e-12)


def test_a_quick_bound_is_weaker_or_equal_and_needs_no_time() -> None:
    quick, full = (lower_bound(chain(5, 5), {"degrees": "none"}, quick=quick) for quick in (True, False))
    assert (quick, full) == (pytest.approx(48.0), pytest.approx(60.0))
    result = solve(chain(5, 5), planner="graphpipe", limits=SolveOptions(time_limit_s=0.0))
    assert (result.stop, result.bound) == (Stop.TIME, pytest.approx(48.0))
