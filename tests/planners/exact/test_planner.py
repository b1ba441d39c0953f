"""The exact planner: every backend and variant finds the optimum that enumeration finds, and says so."""

from __future__ import annotations

import math
from typing import Any

import pytest
from problems.placements import random_problem

from pipeplan.instances.base.result import Found, StartOutcome, Stop
from pipeplan.instances.placement.problem import Node, PlacementProblem
from pipeplan.instances.placement.referee.evaluate import evaluate
from pipeplan.instances.placement.referee.verify import verify
from pipeplan.planners.exact import planner
from pipeplan.planners.options import SolveOptions
from pipeplan.planners.referee import Ruling, rule
from pipeplan.planners.run import judge, warm_start
from pipeplan.planners.run.choose import choose
from pipeplan.planners.run.solve import solve

LIMITS = SolveOptions(threads=1)
SOLVERS = ("highs", "cp-sat", "scip")


def brute_force(problem: PlacementProblem, **options: object) -> float | None:
    return solve(problem, planner="brute-force", options=options).objective


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("seed", range(10))
def test_three_solvers_agree_with_enumeration(seed: int, solver: str) -> None:
    problem = random_problem(seed)
    for non_contiguous in (False, True):
        expected = brute_force(problem, non_contiguous=non_contiguous)
        result = solve(
            problem,
            formulation="ip-tarnawski",
            solver=solver,
            options={"non_contiguous": non_contiguous},
            limits=LIMITS,
            warm_start="none",
        )
        if expected is None:
            assert (result.stop, result.found) == (Stop.INFEASIBLE, Found.NOTHING)
        else:
            assert (result.stop, result.found) == (Stop.PROVEN, Found.OPTIMAL), result.messages
            assert result.objective == pytest.approx(expected, rel=1e-6, abs=1e-9)
            assert result.bound is not None
            assert result.bound <= result.objective


@pytest.mark.parametrize("seed", range(20, 32))
@pytest.mark.parametrize("objective", ["max-load", "gpipe"])
@pytest.mark.parametrize("non_contiguous", [False, True])
def test_the_portfolio_agrees_with_enumeration(seed: int, objective: str, non_contiguous: bool) -> None:
    """With cut-offs, reductions and warm starts, as users run it."""
    problem = random_problem(seed)
    options = {"non_contiguous": non_contiguous, "objective": objective}
    expected = brute_force(problem, **options)
    result = solve(problem, formulation="ip-tarnawski", options=options, limits=LIMITS)
    if expected is None:
        assert result.stop == Stop.INFEASIBLE
    else:
        assert result.found == Found.OPTIMAL, result.messages
        assert result.objective == pytest.approx(expected, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("solver", ["highs", "cp-sat"])
@pytest.mark.parametrize("seed", range(40, 46))
def test_the_plain_program_asks_for_contiguity_of_each_device_alone(seed: int, solver: str) -> None:
    problem = random_problem(seed)
    expected = brute_force(problem, device_contiguity=True)
    result = solve(
        problem,
        formulation="ip-tarnawski",
        solver=solver,
        options={"variant": "plain"},
        limits=LIMITS,
        warm_start="none",
    )
    if expected is None:
        assert result.stop == Stop.INFEASIBLE
    else:
        assert result.objective == pytest.approx(expected, rel=1e-5, abs=1e-6), result.messages
        assert result.plan is not None
        assert not verify(problem, result.plan, contiguity="device")


def chain(length: int = 12) -> PlacementProblem:
    nodes = [Node(i, 1.0 + i % 3, 10.0, transfer_time=0.25 if i < length - 1 else 0.0) for i in range(length)]
    return PlacementProblem(tuple(nodes), tuple((i, i + 1) for i in range(length - 1)), accelerators=3, cpus=1)


def test_a_reached_gap_is_not_called_optimal() -> None:
    result = solve(chain(), formulation="ip-tarnawski", limits=SolveOptions(rel_gap=0.5, threads=1))
    assert result.gap is not None
    assert result.gap <= 0.5
    assert (result.stop, result.found) in {(Stop.GAP, Found.FEASIBLE), (Stop.PROVEN, Found.OPTIMAL)}
    assert (result.stop == Stop.PROVEN) == (result.gap <= 1e-6)


def test_no_time_at_all_is_not_a_success() -> None:
    result = solve(chain(), formulation="ip-tarnawski", limits=SolveOptions(time_limit_s=0), warm_start="none")
    assert (result.stop, result.found, result.plan) == (Stop.TIME, Found.NOTHING, None)
    assert result.objective is None
    assert result.bound is not None  # what needs no solver is known at once


def test_a_warm_start_becomes_the_first_incumbent() -> None:
    problem = chain()
    start = solve(problem, planner="linear-dp").plan
    assert start is not None
    result = solve(problem, formulation="ip-tarnawski", limits=LIMITS, warm_start=start)
    assert result.warm_start.outcome == StartOutcome.ACCEPTED
    assert result.warm_start.value == pytest.approx(evaluate(problem, start).max_load)
    assert result.found == Found.OPTIMAL


def test_the_referee_is_asked_once_of_an_incumbent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start, exact planner and judge share its word; a planner's bare claim is judged all the same."""
    asked: list[Any] = []

    def counted(problem: Any, plan: Any, rules: Any) -> Ruling:
        asked.append(plan)
        return rule(problem, plan, rules)

    for module in (judge, planner, warm_start):
        monkeypatch.setattr(module, "rule", counted)
    optimum = solve(chain(), formulation="ip-tarnawski", limits=LIMITS, warm_start="none").plan
    asked.clear()
    result = solve(chain(), formulation="ip-tarnawski", limits=LIMITS, warm_start=optimum)
    assert result.found == Found.OPTIMAL
    assert asked.count(optimum) == 1
    asked.clear()
    claimed = solve(chain(), planner="linear-dp")
    assert asked == [claimed.plan]


@pytest.mark.sweeps
def test_a_more_binding_cluster_never_helps() -> None:
    """Fewer accelerators, contiguity, and less memory can only cost time."""
    problem = chain()
    value = {
        (k, free): solve(
            problem.replace(accelerators=k),
            formulation="ip-tarnawski",
            options={"non_contiguous": free},
            limits=LIMITS,
        ).objective
        or math.nan
        for k in (2, 3)
        for free in (False, True)
    }
    assert value[3, True] <= value[3, False] <= value[2, False]
    assert value[3, True] <= value[2, True] <= value[2, False]


@pytest.mark.parametrize(
    ("formulation", "solver", "loaded"),
    [
        ("ip-tarnawski", "auto", ["cp-sat"]),
        ("ip-tarnawski", "highs", ["highs", "cp-sat"]),
        ("ip-tarnawski", "highs,cp-sat", ["highs", "cp-sat"]),
    ],
)
def test_solvers_load_while_the_model_is_made(
    formulation: str, solver: str, loaded: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that are asked first, and the one that is asked whether a float solver is right."""
    begun: list[str] = []
    monkeypatch.setattr(planner, "load_ahead", begun.append)
    problem = random_problem(1)
    planner.load_solvers(problem, choose(problem, formulation, None, solver, {}).request_options())
    assert begun == loaded
