"""The exact planner: every backend and variant finds the optimum that enumeration finds, and says so."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from oracles.truths import METHODS, SOLVERS, Method
from problems.nasty import KINDS, nasty
from problems.placements import random_placement

import pipeplan
from pipeplan import Found, Node, PlacementProblem, SolveOptions, StartOutcome, Stop, load_packaged, solve
from pipeplan.formulations.tarnawski.formulation import TarnawskiThroughput
from pipeplan.instances.base import clock
from pipeplan.instances.placement.referee.evaluate import evaluate
from pipeplan.planners import exact
from pipeplan.planners.referee import Ruling, rule
from pipeplan.planners.run import judge
from pipeplan.planners.run import solve as solving
from pipeplan.planners.run.choose import choose

LIMITS = SolveOptions(threads=1)


@pytest.mark.parametrize("seed", range(20, 32))
@pytest.mark.parametrize("objective", ["max-load", "gpipe"])
@pytest.mark.parametrize("non_contiguous", [False, True])
def test_the_portfolio_agrees_with_enumeration(seed: int, objective: str, non_contiguous: bool) -> None:
    """With cut-offs, reductions and warm starts, as users run it."""
    problem, options = random_placement(seed, 3), {"non_contiguous": non_contiguous, "objective": objective}
    expected = solve(problem, planner="brute-force", options=options).objective
    result = solve(problem, formulation="ip-tarnawski", options=options, limits=LIMITS)
    if expected is None:
        assert (result.stop, result.found) == (Stop.INFEASIBLE, Found.NOTHING)
        return
    assert (result.stop, result.found) == (Stop.PROVEN, Found.OPTIMAL), result.messages
    assert result.objective == pytest.approx(expected, rel=1e-6, abs=1e-9)
    assert result.bound <= result.objective


def chain(length: int = 12) -> PlacementProblem:
    nodes = [Node(i, 1.0 + i % 3, 10.0, transfer_time=0.25 if i < length - 1 else 0.0) for i in range(length)]
    return PlacementProblem(tuple(nodes), tuple((i, i + 1) for i in range(length - 1)), accelerators=3, cpus=1)


def test_a_reached_gap_is_not_called_optimal() -> None:
    result = solve(chain(), formulation="ip-tarnawski", limits=SolveOptions(rel_gap=0.5, threads=1))
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

    for module in (judge, exact, solving):
        monkeypatch.setattr(module, "rule", counted)
    optimum = solve(chain(), formulation="ip-tarnawski", limits=LIMITS, warm_start="none").plan
    asked.clear()
    result = solve(chain(), formulation="ip-tarnawski", limits=LIMITS, warm_start=optimum)
    assert result.found == Found.OPTIMAL
    assert asked.count(optimum) == 1
    asked.clear()
    claimed = solve(chain(), planner="linear-dp")
    assert asked == [claimed.plan]


@pytest.mark.parametrize(("formulation", "solver", "loaded"), [
    ("ip-tarnawski", "auto", ["cp-sat"]),
    ("ip-tarnawski", "highs", ["highs", "cp-sat"]),
    ("ip-tarnawski", "highs,cp-sat", ["highs", "cp-sat"]),
])  # fmt: skip
def test_solvers_load_while_the_model_is_made(
    formulation: str, solver: str, loaded: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that are asked first, and the one that is asked whether a float solver is right."""
    begun: list[str] = []
    monkeypatch.setattr(exact, "load_ahead", begun.append)
    problem = random_placement(1)
    exact.load_solvers(problem, choose(problem, formulation, None, solver, {}).request_options())
    assert begun == loaded


# ---- Building a model takes time of the limit: what is left is the solver's, and where nothing is left none is asked.

BUILDING_S = 4.0


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock of limits goes on while a model is built, and then alone."""
    compile_pyomo, seconds = exact.compile_pyomo, 0.0

    def slowly(*given: Any, **named: Any) -> Any:
        nonlocal seconds
        seconds += BUILDING_S
        return compile_pyomo(*given, **named)

    monkeypatch.setattr(clock, "wall", lambda: seconds)

    monkeypatch.setattr(exact, "compile_pyomo", slowly)


def solved(limit: float, solver: str = "highs") -> pipeplan.Result:
    return pipeplan.solve(
        "tiny-chain",
        formulation="ip-tarnawski",
        solver=solver,
        limits=SolveOptions(time_limit_s=limit),
        warm_start="none",
    )


@pytest.mark.usefixtures("slow")
def test_a_solver_has_the_time_that_building_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    limits: list[float] = []
    submit = exact.submit

    def heard(name: str, model: Any, options: SolveOptions, **more: Any) -> Any:
        limits.append(options.time_limit_s or 0.0)
        return submit(name, model, options, **more)

    monkeypatch.setattr(exact, "submit", heard)
    assert solved(60.0).stop == pipeplan.Stop.PROVEN
    assert limits
    assert max(limits) <= 60.0 - BUILDING_S


@pytest.mark.usefixtures("slow")
def test_a_model_that_took_all_the_time_is_not_solved(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor is the next one built."""
    monkeypatch.setattr(exact, "submit", None)
    result = solved(BUILDING_S / 2, "highs,cp-sat")
    assert (result.stop, result.plan) == (pipeplan.Stop.TIME, None)
    assert result.seconds["build"] == BUILDING_S


# ---- solver claims -----------------------------------------------------------------------------------------
# What solvers claim of their plans: what rounding explains is no contradiction, and what it does not is told.
#
# Models round costs down, float solvers keep rows only nearly, and rows of many digits are rounded to whole numbers.


MODELS = [method for kind in KINDS for method in METHODS[kind] if method.formulation is not None]
SEEDS = (1, 7000, 7001, 7005)
"""Of problems whose numbers lie far apart: each of them had claims that looked like contradictions."""


@pytest.mark.parametrize("kind", KINDS)
def test_what_rounding_explains_is_no_contradiction(kind: str) -> None:
    for method in [method for method in MODELS if method.kind == kind][::3]:
        check_claims(method, SEEDS[:2])


@pytest.mark.sweeps
@pytest.mark.parametrize("method", MODELS, ids=lambda method: f"{method.kind}: {method.name}")
def test_what_rounding_explains_is_no_contradiction_in_many(method: Method) -> None:
    check_claims(method, SEEDS)


def check_claims(method: Method, seeds: tuple[int, ...]) -> None:
    """The claim is no message, and no less than the run's own bound."""
    for seed in seeds:
        try:
            result = method.solve(nasty(method.kind, seed), 20.0, "none")
        except pipeplan.PipeplanError:
            continue  # not for this method
        assert not [text for text in result.messages if "claimed" in text], (method.name, seed)
        if result.claimed is not None and result.bound is not None:
            assert result.claimed >= result.bound, (method.name, seed)


ROW = PlacementProblem(
    tuple(Node(i, accelerator_time=1.0, cpu_time=1.0, transfer_time=1.0 if i < 2 else 0.0) for i in range(3)),
    ((0, 1), (1, 2)),
    accelerators=3,
    cpus=0,
    memory_bytes=None,
)


@pytest.mark.parametrize("variant", ["strong", "plain"])
@pytest.mark.parametrize("solver", SOLVERS)
def test_a_model_that_counts_too_little_is_told(monkeypatch: pytest.MonkeyPatch, solver: str, variant: str) -> None:
    """One that forgets transfers: every part on its own device costs 1, says the model, and 3 with them."""
    true_model = TarnawskiThroughput.model

    def forgetful(self: Any, problem: PlacementProblem, options: Any, wanted: Any) -> Any:
        nodes = tuple(replace(node, transfer_time=0.0) for node in problem.nodes)
        return true_model(self, problem.replace(nodes=nodes), options, wanted)

    monkeypatch.setattr(TarnawskiThroughput, "model", forgetful)
    options = {"variant": variant, "non_contiguous": False}
    result = pipeplan.solve(ROW, formulation="ip-tarnawski", solver=solver, options=options, warm_start="none")
    assert result.objective == 3.0
    told = [text for text in result.messages if "the method claimed" in text]
    assert told, result.messages


def test_times_too_fine_for_a_solver_explain_its_claim() -> None:
    """Rounded down to steps, the runs of a schedule seem to take less than they do."""
    problem = load_packaged("zero-bubble-4x12")
    blocks = tuple(
        replace(block, time=block.time * (1 + (n + 1) * 7.3e-13)) for n, block in enumerate(problem.blocks)
    )
    result = pipeplan.solve(problem.replace(blocks=blocks, micro_batches=3), formulation="cp-schedule")
    assert (result.stop, result.claimed) == (Stop.PROVEN, result.objective)
