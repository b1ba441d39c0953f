"""The model of Piper's stage selection finds what enumeration finds, on two solvers, in both semantics."""

from __future__ import annotations

from typing import Any

import pytest
from oracles.staging import best_stages
from problems.stagings import random_staging

from pipeplan.formulations.contract import BuiltModel, Refuted
from pipeplan.formulations.piper import FORMULATION
from pipeplan.instances.base.result import Stop
from pipeplan.instances.staging.problem import StagingProblem
from pipeplan.instances.staging.referee import evaluate_stages, verify_stages
from pipeplan.planners.backends import Answer, solve
from pipeplan.planners.backends.model import compile_pyomo
from pipeplan.planners.options import SolveOptions

LIMITS = SolveOptions(threads=1)
SEMANTICS = ("paper", "reference")
FAST = range(24)
ALL = range(100)
SOLVABLE = [seed for seed in range(12) if best_stages(random_staging(seed, layers=(2, 4)), "reference")]


def built(problem: StagingProblem, cutoff: float | None = None, semantics: str = "paper") -> BuiltModel | Refuted:
    own = {"semantics": semantics}
    FORMULATION.check(problem, own)
    return FORMULATION.build(problem, own, native=False, cutoff=cutoff)


def solved(model: BuiltModel, solver: str, start: Any = None) -> Answer:
    matrix = compile_pyomo(model.model, grids=model.grids, grid_loss=model.grid_loss)
    return solve(solver, matrix, LIMITS, start=start)


def check_against_enumeration(problem: StagingProblem, semantics: str, solver: str) -> None:
    expected = best_stages(problem, semantics)
    model = built(problem, semantics=semantics)
    if isinstance(model, Refuted):
        assert expected is None
        return
    outcome = solved(model, solver)
    if expected is None:
        assert outcome.stop == Stop.INFEASIBLE
        return
    assert outcome.stop in (Stop.PROVEN, Stop.GAP, Stop.COMPLETED), outcome.message
    assert outcome.values is not None
    plan = model.decode(outcome.values)
    assert not verify_stages(problem, plan, semantics)
    value = evaluate_stages(problem, plan, semantics).time_per_micro_batch
    assert value == pytest.approx(expected[0], rel=1e-6)
    assert outcome.objective == pytest.approx(value, rel=1e-6), "what it claims is what the plan takes"
    assert outcome.bound is not None
    assert outcome.bound <= expected[0] * (1 + 1e-6), "within the tolerance of the solver"


@pytest.mark.parametrize("seed", ALL)
def test_the_model_finds_the_best_plan_of_each_graph(seed: int) -> None:
    """Semantics and solvers take turns; the longer proof below has all of them for each graph."""
    problem = random_staging(seed)
    check_against_enumeration(problem, SEMANTICS[seed % 2], ("highs", "cp-sat")[seed // 2 % 2])


@pytest.mark.slow
@pytest.mark.parametrize("solver", ["highs", "cp-sat"])
@pytest.mark.parametrize("semantics", SEMANTICS)
@pytest.mark.parametrize("seed", ALL)
def test_the_model_finds_the_best_plan_in_both_semantics_on_both_solvers(
    seed: int, semantics: str, solver: str
) -> None:
    check_against_enumeration(random_staging(seed), semantics, solver)


@pytest.mark.parametrize("seed", SOLVABLE)
def test_a_cut_off_keeps_the_best_plan_and_nothing_above_it(seed: int) -> None:
    """At the optimum the model has a solution; just below it, it has none."""
    problem = random_staging(seed, layers=(2, 4))
    expected = best_stages(problem)
    assert expected is not None, "seeds without a plan are not among these"
    at = built(problem, expected[0])
    assert isinstance(at, BuiltModel)
    outcome = solved(at, "highs")
    assert outcome.values is not None
    value = evaluate_stages(problem, at.decode(outcome.values)).time_per_micro_batch
    assert value == pytest.approx(expected[0], rel=1e-6)
    below = built(problem, expected[0] * (1 - 1e-4))
    assert isinstance(below, Refuted) or solved(below, "highs").stop == Stop.INFEASIBLE


@pytest.mark.parametrize("semantics", SEMANTICS)
@pytest.mark.parametrize("seed", SOLVABLE)
def test_a_plan_becomes_a_start_of_its_own_value(seed: int, semantics: str) -> None:
    """Encoded, accepted by the solver as it is, and decoded to a plan that is no worse."""
    problem = random_staging(seed, layers=(2, 4))
    expected = best_stages(problem, semantics)
    assert expected is not None, "seeds without a plan are not among these"
    model = built(problem, semantics=semantics)
    assert isinstance(model, BuiltModel)
    start = model.encode(expected[1])
    assert start is not None
    outcome = solved(model, "highs", start)
    assert outcome.warm_start.value == pytest.approx(expected[0], rel=1e-6)
    again = evaluate_stages(problem, model.decode(start), semantics)
    assert again.time_per_micro_batch <= expected[0] * (1 + 1e-9)


@pytest.mark.parametrize("semantics", SEMANTICS)
@pytest.mark.parametrize("seed", FAST)
def test_the_bound_is_never_above_the_best_plan(seed: int, semantics: str) -> None:
    problem = random_staging(seed)
    expected = best_stages(problem, semantics)
    bound = FORMULATION.lower_bound(problem, {"semantics": semantics})
    assert bound > 0
    if expected is not None:
        assert bound <= expected[0] * (1 + 1e-9)
