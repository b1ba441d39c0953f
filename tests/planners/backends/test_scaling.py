"""Matrix models in whole numbers: which grids are found, and that no bound on them is wrong for the true data."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeplan import SolveOptions, Stop, UsageError
from pipeplan.planners.backends import MatrixModel, from_rows, solve
from pipeplan.planners.backends.scaling import EXACT_LIMIT, choose_grids, integer_form

INF = float("inf")


def makespan(times: list[tuple[float, float]], **more: object) -> MatrixModel:
    """Jobs on two machines; the last column is the makespan."""
    jobs = len(times)
    once = [({2 * i: 1.0, 2 * i + 1: 1.0}, 1.0, 1.0) for i in range(jobs)]
    loads = [({**{2 * i + k: times[i][k] for i in range(jobs)}, 2 * jobs: -1.0}, -INF, 0.0) for k in range(2)]
    columns = 2 * jobs
    return from_rows(
        [0.0] * columns + [1.0], once + loads, [0.0] * (columns + 1), [1.0] * columns + [INF],
        [True] * columns + [False], **more,
    )  # fmt: skip


# ---- grids ---------------------------------------------------------------------------------------------


def test_decimals_imply_the_grid_of_a_makespan() -> None:
    grids = choose_grids(makespan([(1.5, 2.25), (0.75, 3.0)]))
    assert (grids.steps[-1], grids.loss) == (Fraction(3, 4), 0.0)
    assert grids.upper[-1] == 5.25  # no machine can be loaded more


def test_long_fractions_get_a_fine_grid_with_its_price() -> None:
    grids = choose_grids(makespan([(math.pi, math.e), (math.sqrt(2), math.sqrt(3))]))
    assert 0 < grids.loss <= float(grids.steps[-1]) < 1e-8


def test_a_declared_grid_is_taken_with_its_price() -> None:
    grids = choose_grids(makespan([(math.pi, math.e)], grids={"x2": 0.125}, grid_loss=0.25))
    assert (grids.steps[-1], grids.loss) == (Fraction(1, 8), 0.25)


def test_what_has_no_grid_is_refused_by_name() -> None:
    """Two continuous columns that hold each other from both sides."""
    rows = [({0: 3.0, 1: 1.0}, 1.0, 2.0), ({0: 1.0, 1: 7.0}, 1.0, 2.0)]
    with pytest.raises(UsageError, match=r"column x0 is continuous, has no grid, .* choose a solver"):
        choose_grids(from_rows([1.0, 1.0], rows, [0.0, 0.0], [1.0, 1.0], [False, False]))


def test_what_has_no_bounds_is_refused_by_name() -> None:
    with pytest.raises(UsageError, match=r"column x0 has no finite bounds; .* choose a solver"):
        choose_grids(from_rows([1.0], [], [-INF], [1.0], [True]))


# ---- whole numbers -------------------------------------------------------------------------------------


def test_decimals_are_scaled_exactly() -> None:
    form = integer_form(makespan([(0.1, 0.25), (0.3, 0.7)]))
    assert (form.rounded_rows, form.slack, form.loss) == (0, 0.0, 0.0)
    assert [row.coefficients for row in form.rows[-2:]] == [[2, 6, -1], [5, 14, -1]]


def test_huge_sizes_stay_within_the_range_of_the_solver() -> None:
    sizes = [1.1e10, 7.3e11, 2.2e9 + 1 / 3]
    model = from_rows([-1.0] * 3, [(dict(enumerate(sizes)), -INF, 8e11)], [0.0] * 3, [1.0] * 3, [True] * 3)
    form = integer_form(model)
    assert form.rounded_rows == 1
    assert sum(map(abs, form.rows[0].coefficients)) < EXACT_LIMIT


@pytest.mark.parametrize("upper", [1.0, 1000.0])
@pytest.mark.parametrize("terms", [(0.1, 0.2), (0.7, 0.1), (100.0, 0.1, 0.2, -100.0), (0.9, 0.1, 1e-15)])
def test_a_sum_of_floats_is_no_decimal(terms: tuple[float, ...], upper: float) -> None:
    """0.1 + 0.2 is 0.30000000000000004 in floating point, just above three steps of 0.1: they are meant."""
    side = sum(terms)
    for sign in (1.0, -1.0):
        low, high = (side, INF) if sign > 0 else (-INF, -side)
        form = integer_form(from_rows([1.0], [({0: sign}, low, high)], [0.0], [upper], [False], grids={"x0": 0.1}))
        (row,), steps = form.rows, round(side * 10)
        assert form.rounded_rows == 1
        assert row.lower <= row.coefficients[0] * steps <= row.upper
        assert not row.lower <= row.coefficients[0] * (steps - 1) <= row.upper


numbers = st.floats(-50, 50).map(lambda value: round(value, 3)) | st.floats(-50, 50) | st.integers(-9, 9).map(float)


@st.composite
def models(draw: st.DrawFn) -> MatrixModel:
    """Small integer models with any numbers, exact decimals or not."""
    columns, rows = draw(st.integers(1, 4)), draw(st.integers(0, 3))
    lower = [float(draw(st.integers(-2, 1))) for _ in range(columns)]
    table = []
    for _ in range(rows):
        entries = {j: draw(numbers) for j in range(columns)}
        side = draw(st.floats(-40, 60))
        table.append((entries, *draw(st.sampled_from([(-INF, side), (side, INF), (side - 30, side)]))))
    costs = [draw(numbers) for _ in range(columns)]
    upper = [low + draw(st.integers(0, 2)) for low in lower]
    return from_rows(costs, table, lower, upper, [True] * columns, offset=draw(st.floats(-5, 5)))


def points(model: MatrixModel) -> list[np.ndarray]:  # type: ignore[type-arg]
    ranges = [range(int(a), int(b) + 1) for a, b in zip(model.col_lower, model.col_upper, strict=True)]
    return [np.array(choice, dtype=float) for choice in itertools.product(*ranges)]


@settings(deadline=None, max_examples=150)
@given(models())
def test_scaling_loses_no_solution_and_no_bound(model: MatrixModel) -> None:
    """A point that obeys the true rows obeys the whole ones, and is bounded from below by its whole objective."""
    form = integer_form(model)
    for x in points(model):
        activity = model.activity(x)
        if np.all(activity >= model.row_lower) and np.all(activity <= model.row_upper):
            whole = [round(value) for value in x]
            for row in form.rows:
                total = sum(a * whole[j] for j, a in zip(row.columns, row.coefficients, strict=True))
                tolerance = 2 if form.rounded_rows else 0  # the activity above is itself rounded
                assert row.lower - tolerance <= total <= row.upper + tolerance
            objective = sum(c * value for c, value in zip(form.costs, whole, strict=True))
            assert form.true_bound(objective) <= model.objective(x) + 1e-9


# ---- the backends agree --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["highs", "cp-sat", "scip"])
def test_a_cost_next_to_nothing_beside_a_constant_is_no_hindrance(name: str) -> None:
    """In units of the cost the constant would be taken for infinity, and there would be no bound."""
    model = from_rows([2.07e-270], [], [0.0], [0.0], [True], offset=1.0)
    outcome = solve(name, model, SolveOptions(threads=1))
    assert (outcome.stop, outcome.objective, outcome.bound) == (Stop.PROVEN, 1.0, 1.0)


# ---- Float solvers see every model in units of its own magnitude, and what they say is undone exactly.


def two_machines(factor: float) -> MatrixModel:
    """Jobs of 7, 5, 4 and 3 on two machines, minimising the larger load T: the last column."""
    jobs, rows = [7 * factor, 5 * factor, 4 * factor, 3 * factor], []
    rows.append(({**dict(enumerate(jobs)), 4: -1.0}, -math.inf, 0.0))
    rows.append(({**{j: -t for j, t in enumerate(jobs)}, 4: -1.0}, -math.inf, -sum(jobs)))
    return from_rows([0, 0, 0, 0, 1], rows, [0] * 5, [1, 1, 1, 1, 20 * factor], [True] * 4 + [False])


@pytest.mark.parametrize("solver", ["highs", "scip"])
@pytest.mark.parametrize("factor", [1e-9, 1e-6, 1.0, 1e9])
def test_optimum_and_bound_come_back_in_the_models_units(solver: str, factor: float) -> None:
    outcome = solve(solver, two_machines(factor), SolveOptions(threads=1))
    assert outcome.stop == Stop.PROVEN
    assert outcome.objective == pytest.approx(10 * factor, rel=1e-7)
    assert outcome.bound == pytest.approx(10 * factor, rel=1e-7)
    assert outcome.values["x4"] == pytest.approx(10 * factor, rel=1e-7)


@pytest.mark.parametrize("solver", ["highs", "scip"])
@pytest.mark.parametrize(("row", "stop"), [((1.0, math.inf), Stop.INFEASIBLE), ((-math.inf, 1.0), Stop.PROVEN)])
def test_a_row_of_almost_nothing_is_not_scaled_beyond_what_solvers_call_infinite(
    solver: str, row: tuple[float, float], stop: Stop
) -> None:
    model = from_rows([0], [({0: 8e-72}, *row)], [0], [1], [True])
    assert solve(solver, model, SolveOptions(threads=1)).stop == stop
