"""Float solvers see every model in units of its own magnitude, and what they say is undone exactly."""

from __future__ import annotations

import math

import numpy as np
import pytest

from pipeplan.instances.base.result import Stop
from pipeplan.planners.backends import MatrixModel, from_rows, solve
from pipeplan.planners.backends.units import REACH, in_own_units
from pipeplan.planners.options import SolveOptions


def two_machines(factor: float) -> MatrixModel:
    """Jobs of 7, 5, 4 and 3 on two machines, minimising the larger load T: the last column."""
    jobs, rows = [7 * factor, 5 * factor, 4 * factor, 3 * factor], []
    rows.append(({**dict(enumerate(jobs)), 4: -1.0}, -math.inf, 0.0))
    rows.append(({**{j: -t for j, t in enumerate(jobs)}, 4: -1.0}, -math.inf, -sum(jobs)))
    return from_rows([0, 0, 0, 0, 1], rows, [0] * 5, [1, 1, 1, 1, 20 * factor], [True] * 4 + [False])


@pytest.mark.parametrize("factor", [1e-9, 1e-6, 0.3, 1.0, 1e6, 1e12])
def test_the_solvers_numbers_do_not_depend_on_the_unit(factor: float) -> None:
    told, units = in_own_units(two_machines(factor))
    assert REACH <= told.col_upper[4] < 2 * REACH
    assert list(told.col_upper[:4]) == [1] * 4
    assert np.max(np.abs(told.coefficients)) < 2 * REACH
    assert units.columns[4] == 2.0 ** round(math.log2(units.columns[4]))


def test_scaling_is_undone_to_the_last_bit() -> None:
    model = two_machines(0.1)
    told, units = in_own_units(model)
    point = np.array([1.0, 0.0, 0.0, 1.0, 1.1])
    _, values = units.to_solver((np.arange(5, dtype=np.int32), point))
    assert list(units.from_solver(values)) == list(point)
    assert units.value(told.objective(values)) == model.objective(point)
    assert units.options(SolveOptions(abs_gap=0.5)).abs_gap * units.objective == 0.5


def test_columns_without_bounds_are_measured_by_their_rows() -> None:
    model = from_rows([1], [({0: 2.0}, 3e9, math.inf)], [0.0], [math.inf], [False])
    told, units = in_own_units(model)
    assert 1 <= 1.5e9 / units.columns[0] <= 2 * REACH
    assert told.row_lower[0] == pytest.approx(told.coefficients[0] * 1.5e9 / units.columns[0])


@pytest.mark.parametrize("solver", ["highs", "scip"])
@pytest.mark.parametrize("factor", [1e-9, 1e-6, 1.0, 1e9])
def test_optimum_and_bound_come_back_in_the_models_units(solver: str, factor: float) -> None:
    outcome = solve(solver, two_machines(factor), SolveOptions(threads=1))
    assert outcome.stop == Stop.PROVEN
    assert outcome.objective == pytest.approx(10 * factor, rel=1e-7)
    assert outcome.bound == pytest.approx(10 * factor, rel=1e-7)
    assert outcome.values is not None
    assert outcome.values["x4"] == pytest.approx(10 * factor, rel=1e-7)


@pytest.mark.parametrize("solver", ["highs", "scip"])
@pytest.mark.parametrize(("row", "stop"), [((1.0, math.inf), Stop.INFEASIBLE), ((-math.inf, 1.0), Stop.PROVEN)])
def test_a_row_of_almost_nothing_is_not_scaled_beyond_what_solvers_call_infinite(
    solver: str, row: tuple[float, float], stop: Stop
) -> None:
    model = from_rows([0], [({0: 8e-72}, *row)], [0], [1], [True])
    assert solve(solver, model, SolveOptions(threads=1)).stop == stop
