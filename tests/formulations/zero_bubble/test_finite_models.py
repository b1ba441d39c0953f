"""Tiny schedule problems: both models and the bounds against going over all orders."""

from __future__ import annotations

import pytest
from oracles.schedule import least_makespan, least_span, tiny_problem

from pipeplan import SolveOptions, solve
from pipeplan.formulations.zero_bubble.finite_bounds import lower_bound_of
from pipeplan.instances.base.result import Stop
from pipeplan.instances.schedule.pipelines import divided_pipeline, equal_stages

ENUMERATED = {"makespan": least_makespan, "span": least_span}
GROUP = 10
ONE = SolveOptions(threads=1)


@pytest.mark.parametrize("method", [("cp-schedule", "cp-sat"), ("ilp-zero-bubble", "highs")])
@pytest.mark.parametrize("seeds", range(20))
def test_models_agree_with_enumeration(seeds: int, method: tuple[str, str]) -> None:
    """Blocks on several devices, offsets, lags, workspace and blocks without time; one in some has no schedule."""
    formulation, solver = method
    for seed in range(GROUP * seeds, GROUP * seeds + GROUP):
        problem = tiny_problem(seed, 2 + seed % 2, 2 + (seed % 3 == 0))
        for objective, enumerated in ENUMERATED.items():
            least = enumerated(problem)
            result = solve(
                problem, formulation=formulation, solver=solver, options={"objective": objective}, limits=ONE
            )
            if least is None:
                assert result.stop == Stop.INFEASIBLE, (seed, objective)
                continue
            assert result.stop == Stop.PROVEN, (seed, objective, result.messages)
            assert result.objective == pytest.approx(float(least)), (seed, objective)


@pytest.mark.parametrize("seeds", range(20))
def test_no_bound_exceeds_the_optimum(seeds: int) -> None:
    for seed in range(GROUP * seeds, GROUP * seeds + GROUP):
        problem = tiny_problem(seed, 2 + seed % 2, 2 + (seed % 3 == 0))
        for objective, enumerated in ENUMERATED.items():
            least = enumerated(problem)
            assert least is None or lower_bound_of(problem, objective) <= least, (seed, objective)


def test_an_integer_solver_takes_the_program_on_a_grid() -> None:
    problem = divided_pipeline(equal_stages(2, 5, 6, 4), 2, 4)
    values = {
        solve(problem, formulation="ilp-zero-bubble", solver=solver, options={"objective": "span"}).objective
        for solver in ("highs", "cp-sat")
    }
    assert len(values) == 1


def test_a_start_is_an_incumbent_of_the_models() -> None:
    problem = divided_pipeline(equal_stages(2, 5, 6, 4), 3, 4)
    start = solve(problem, planner="list-schedule").plan
    for formulation in ("cp-schedule", "ilp-zero-bubble"):
        result = solve(problem, formulation=formulation, warm_start=start)
        assert result.stop == Stop.PROVEN
        assert result.warm_start.outcome == "accepted"
