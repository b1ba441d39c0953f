"""Numbers that trouble arithmetic, one fault at a time: memory met to the last digit, and forbidding amounts.

`tests/test_proofs.py` holds every method against enumeration on such problems, in all units.
"""

from __future__ import annotations

from typing import Any

import pytest
from oracles.graph_pipeline import best_time, convex_sets, stage_time
from problems.nasty import nasty

from pipeplan import Found, GraphPipelineProblem, Link, Operator, SolveOptions, Stop, TimeCurve, solve
from pipeplan.planners.graph_pipeline import bounds
from pipeplan.planners.graph_pipeline.configurations import menu
from pipeplan.planners.graph_pipeline.costs import Costs
from pipeplan.planners.graph_pipeline.planner import ROUNDED_MEMORY

LIMITS = SolveOptions(threads=1)


@pytest.mark.sweeps
@pytest.mark.parametrize("planner", ["spp-pipedream", "graphpipe-parallel"])
def test_other_planners_keep_to_the_memory(planner: str) -> None:
    found = 0
    for seed in range(40):
        result = solve(nasty("graph-pipeline", seed), planner=planner, limits=LIMITS)
        assert result.stop != Stop.ERROR, (seed, result.messages)
        found += result.found == Found.FEASIBLE
    assert found > 3


def operator(name: str, time: float, stash: float = 0.0, weight: float = 0.0, output: float = 0.0) -> Operator:
    return Operator(name, TimeCurve((1.0,), (time,)), TimeCurve((1.0,), (0.0,)), weight, stash, output)


STEADY = {"objective": "time-per-sample"}
SEARCHES = ("graphpipe", "spp-pipedream")
METHODS: list[dict[str, Any]] = [
    *({"planner": name, "options": STEADY} for name in SEARCHES),
    {"formulation": "cp-graphpipe"},
]


@pytest.mark.parametrize("method", METHODS, ids=str)
@pytest.mark.parametrize(("stashes", "copies", "memory", "fits"), [
    ((0.1, 0.2), 2.0, 0.3, True),
    ((0.1, 0.2), 2.0, 0.29999999999, False),
    ((0.0, 0.1), 2.2, 0.32, True),  # 2.2 x 0.1 of weights and 0.1
    ((0.0, 0.1), 2.2, 0.3199999999999, False),
])  # fmt: skip
def test_memory_is_met_to_the_last_digit(
    method: dict[str, Any], stashes: tuple[float, float], copies: float, memory: float, fits: bool
) -> None:
    """One device holds both operators: as floats 0.1 and 0.2 are more than 0.3."""
    weight = 0.1 if copies == 2.2 else 0.0
    operators = (operator("a", 1.0, stashes[0]), operator("b", 1.0, stashes[1], weight))
    problem = GraphPipelineProblem(operators, (("a", "b"),), 1, 1, memory_bytes=memory, weight_copies=copies)
    result = solve(problem, limits=LIMITS, **method)
    assert result.objective == (2.0 if fits else None), result.messages
    assert result.stop != Stop.ERROR


def test_thirds_of_a_byte_fill_a_memory() -> None:
    """Three devices share a stash of 0.1: each holds a third of it, twice for two samples in flight."""
    operators = (operator("a", 1.0, 0.1), operator("b", 1.0, 0.2))
    problem = GraphPipelineProblem(operators, (("a", "b"),), mini_batch=3, devices=3, memory_bytes=0.3)
    options = {"objective": "time-per-sample", "micro_batch": 3}
    assert solve(problem, planner="graphpipe", options=options).objective == pytest.approx(2 / 3)
    tighter = problem.replace(memory_bytes=0.2999999)
    assert solve(tighter, planner="graphpipe", options=options).objective is None


def test_more_digits_than_are_counted_do_not_cost_the_plan() -> None:
    """1e16 and a billionth: rounded to 64 bits the small one is nothing, and `a` and `b` seem to fit together."""
    operators = (operator("a", 1.0, 9e15), operator("b", 1.0, 1e15), operator("c", 2.0), operator("d", 0.0, 1e-9))
    problem = GraphPipelineProblem(operators, (), 1, 2, memory_bytes=1e16, workspace_bytes=1e-9)
    for planner in SEARCHES:
        result = solve(problem, planner=planner, options=STEADY, limits=LIMITS)
        assert (result.stop, result.objective) == (Stop.COMPLETED, 3.0), (planner, result.messages)
    result = solve(problem, formulation="cp-graphpipe", options={"family": "convex"}, limits=LIMITS)
    assert (result.stop, result.objective) == (Stop.PROVEN, 3.0)


def test_where_only_rounded_numbers_fit_there_is_no_plan() -> None:
    operators = (operator("a", 1.0, 9e15), operator("b", 1.0, 1e15), operator("d", 0.0, 1e-9))
    problem = GraphPipelineProblem(operators, (), 1, 1, memory_bytes=1e16, workspace_bytes=1e-9)
    result = solve(problem, planner="graphpipe", limits=LIMITS)
    enough = "9095 TiB of memory per device is the smallest amount with a plan (proven); give --memory 9095TiB"
    assert (result.stop, result.found, result.messages) == (Stop.COMPLETED, Found.NOTHING, (ROUNDED_MEMORY, enough))
    assert solve(problem.replace(memory_bytes=10000000000000002.0), planner="graphpipe", limits=LIMITS).verified


def test_a_forbidden_tensor_leaves_the_others_their_digits() -> None:
    """Once its readers are in the stage it crosses no boundary: what it cost before must be gone without a trace."""
    operators = (operator("a", 1.0, output=0.3), operator("b", 1.0, output=1e16), operator("c", 1.0, output=0.7))
    edges = (("a", "d"), ("b", "c"), ("c", "d"))
    problem = GraphPipelineProblem((*operators, operator("d", 3.0)), edges, mini_batch=1, devices=2, link=Link(1.0))
    price = Costs(problem, menu(problem, [1])).price_set([0, 1, 2])
    assert price.time_per_sample[0, 0] == pytest.approx(stage_time(problem, frozenset([0, 1, 2]), 1, 1), rel=1e-15)


def test_a_forbidden_operator_does_not_raise_the_bound_of_others() -> None:
    """On one device the first operator takes 1e16, on two next to nothing; sums that hold it have lost the others."""
    slow = Operator("a", TimeCurve((1.0, 2.0), (0.5, 1e16)), TimeCurve((1.0,), (0.0,)))
    operators = (slow, *(operator(f"o{v}", time) for v, time in enumerate([0.3, 0.2, 0.55])))
    edges = (("a", "o0"), ("o0", "o1"), ("o1", "o2"))
    problem = GraphPipelineProblem(operators, edges, mini_batch=2, devices=3)
    for objective in ("time-per-sample", "iteration"):
        options = {"objective": objective, "micro_batch": 2}
        result = solve(problem, planner="graphpipe", options=options, limits=LIMITS)
        assert result.stop != Stop.ERROR, result.messages
        assert result.bound is not None
    best = best_time(problem, 2, convex_sets(problem))
    bound = bounds.lower_bound(problem, {"objective": "time-per-sample", "micro_batch": 2})
    assert bound <= best
