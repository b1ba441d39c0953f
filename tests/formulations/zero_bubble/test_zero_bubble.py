"""The program that checks schedules of given micro-batches, on times whose sums are not what floats make of them."""

from __future__ import annotations

import pytest
from oracles.schedule import least_makespan, least_span

from pipeplan import SolveOptions, solve
from pipeplan.formulations.registry import FORMULATIONS
from pipeplan.instances.base.result import Result, Stop
from pipeplan.instances.schedule.problem import Block, BlockEdge, ScheduleDevice, ScheduleProblem
from pipeplan.planners.backends import solve as solve_model
from pipeplan.planners.backends.compiler import compile_pyomo


def solved(problem: ScheduleProblem, objective: str, solver: str) -> Result:
    options, limits = {"objective": objective}, SolveOptions(threads=1)
    return solve(problem, formulation="ilp-zero-bubble", solver=solver, options=options, limits=limits)


def decimals(lag: float, *times: float) -> ScheduleProblem:
    blocks = tuple(Block(f"b{n}", "X", ("d",), time) for n, time in enumerate(times))
    return ScheduleProblem((ScheduleDevice("d"),), blocks, (BlockEdge("b0", "b1", lag),), 2)


@pytest.mark.parametrize("solver", ["cp-sat", "highs"])
@pytest.mark.parametrize(
    "problem", [decimals(0.1, 0.2, 0.1), decimals(0.2, 0.7, 0.1), decimals(0.003, 0.3, 0.0007)]
)
def test_decimal_times_are_whole_steps(problem: ScheduleProblem, solver: str) -> None:
    """0.2 + 0.1 is 0.30000000000000004 in floating point, which no multiple of 0.1 meets."""
    for objective, least in (("makespan", least_makespan), ("span", least_span)):
        result = solved(problem, objective, solver)
        assert result.stop == Stop.PROVEN, result.messages
        assert result.objective == pytest.approx(float(least(problem) or 0), rel=1e-12)


@pytest.mark.parametrize("objective", ["makespan", "span"])
def test_every_number_of_a_row_is_whole(objective: str) -> None:
    formulation = FORMULATIONS["ilp-zero-bubble"].load()
    built = formulation.build(decimals(0.003, 0.3, 0.0007), {"objective": objective}, native=True)
    matrix = compile_pyomo(built.model)
    sides = [side for side in (*matrix.row_lower, *matrix.row_upper) if abs(side) < float("inf")]
    assert all(float(number).is_integer() for number in (*matrix.coefficients, *sides))


@pytest.mark.parametrize("solver", ["highs", "scip"])
@pytest.mark.parametrize("objective", ["makespan", "span"])
def test_times_ten_digits_apart_leave_a_schedule_in_floating_point(solver: str, objective: str) -> None:
    """On 10^12 steps HiGHS called this infeasible."""
    blocks = (
        Block("a", "X", ("e", "f"), 5.32e-08, 0, {"f": 2}),
        Block("b", "X", ("f", "d"), 5.32e-08, 1, {"f": -2, "d": 1}),
        Block("c", "X", ("d",), 1000, 2, {"d": -1}),
    )
    devices = (ScheduleDevice("d", 2), ScheduleDevice("e", 0), ScheduleDevice("f", 6))
    problem = ScheduleProblem(devices, blocks, (BlockEdge("a", "c", 7.22e-07),), 2)
    built = FORMULATIONS["ilp-zero-bubble"].load().build(problem, {"objective": objective}, native=False)
    told = solve_model(solver, compile_pyomo(built.model), SolveOptions(threads=1))
    assert told.objective == pytest.approx(float(least_makespan(problem) or 0))


@pytest.mark.parametrize("solver", ["highs", "cp-sat"])
@pytest.mark.parametrize("objective", ["makespan", "span"])
def test_the_last_digit_of_an_amount_decides(objective: str, solver: str) -> None:
    """Of seventeen, which a float solver does not see. When b gives back, the device holds 0.1 that stands there,
    0.30000000000000004 and a workspace of 0.1."""
    amount = 0.30000000000000004
    blocks = (
        Block("a", "F", ("d",), 0.5, memory={"d": amount}),
        Block("b", "B", ("d",), 0.5, memory={"d": -amount}, workspace={"d": 0.1}),
    )
    edges = (BlockEdge("a", "b"), BlockEdge("b", "a", 1, 1))
    for memory, stop in ((0.5, Stop.INFEASIBLE), (0.5000000000000001, Stop.PROVEN)):
        problem = ScheduleProblem((ScheduleDevice("d", memory, 0.1),), blocks, edges, 2)
        result = solved(problem, objective, solver)
        assert result.stop == stop, result.messages
        assert result.verified == (stop == Stop.PROVEN)
