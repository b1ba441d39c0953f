"""The neutral matrix form: nothing of a Pyomo model gets lost, and its files say the same to every reader."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyomo.environ as pyo
import pytest

from pipeplan.instances.errors import InputError
from pipeplan.instances.result import Stop
from pipeplan.planners.backends import BACKENDS, MatrixModel, compile_pyomo, from_rows, solve, write_lp, write_mps
from pipeplan.planners.backends.files import safe_names

INF = float("inf")


def model_with_everything() -> pyo.ConcreteModel:
    m = pyo.ConcreteModel()
    m.x = pyo.Var([1, 2], domain=pyo.Binary)
    m.n = pyo.Var(domain=pyo.Integers, bounds=(-3, 8))
    m.y = pyo.Var(bounds=(0.5, None))
    m.idle = pyo.Var(bounds=(1, 2))
    m.fixed = pyo.Var(domain=pyo.Integers, bounds=(0, 9))
    m.fixed.fix(4)
    m.both = pyo.Constraint(expr=pyo.inequality(-1, m.n + m.y - 2 * m.x[1] + 3, 7))
    m.equal = pyo.Constraint(expr=m.n - m.x[2] == m.fixed - 2)
    m.least = pyo.Constraint(expr=m.y - 1.5 * m.x[2] >= 0.25)
    m.cost = pyo.Objective(expr=3 * m.y + m.n + 2.5 * m.fixed + 1)
    return m


def test_every_variable_bound_and_row_arrives() -> None:
    model = compile_pyomo(model_with_everything(), grids={"y": 0.25}, grid_loss=0.1)
    column = {name: j for j, name in enumerate(model.column_names)}
    assert set(column) == {"x[1]", "x[2]", "n", "y", "idle", "fixed"}
    bounds = {name: (model.col_lower[j], model.col_upper[j]) for name, j in column.items()}
    assert bounds == {"x[1]": (0, 1), "x[2]": (0, 1), "n": (-3, 8), "y": (0.5, INF), "idle": (1, 2), "fixed": (4, 4)}
    assert {name for name, j in column.items() if model.integer[j]} == {"x[1]", "x[2]", "n", "fixed"}
    rows = dict(zip(model.row_names, zip(model.row_lower, model.row_upper, strict=True), strict=True))
    assert rows == {"both": (-4, 4), "equal": (2, 2), "least": (0.25, INF)}
    assert model.offset == 1 + 2.5 * 4
    assert (model.maximise, model.grids, model.grid_loss) == (False, {"y": 0.25}, 0.1)
    x = np.array([{"x[1]": 1, "x[2]": 0, "n": 2, "y": 0.5, "idle": 1.5, "fixed": 4}[n] for n in model.column_names])
    assert model.objective(x) == 3 * 0.5 + 2 + 2.5 * 4 + 1
    assert dict(zip(model.row_names, model.activity(x), strict=True)) == {"both": 0.5, "equal": 2, "least": 0.5}
    assert model.is_feasible(x)
    assert not model.is_feasible(x + np.eye(6)[column["idle"]])


def test_a_maximisation_is_turned_and_marked() -> None:
    m = pyo.ConcreteModel()
    m.x = pyo.Var(domain=pyo.Integers, bounds=(0, 5))
    m.gain = pyo.Objective(expr=2 * m.x + 1, sense=pyo.maximize)
    model = compile_pyomo(m)
    assert model.maximise
    outcome = solve("highs", model)
    assert (outcome.values, outcome.objective) == ({"x": 5.0}, -11.0)


def test_a_model_without_objective_or_rows() -> None:
    m = pyo.ConcreteModel()
    m.x = pyo.Var(domain=pyo.Binary)
    model = compile_pyomo(m)
    assert (model.columns, model.rows, model.offset) == (1, 0, 0.0)
    assert solve("highs", model).stop == Stop.PROVEN


def test_a_constraint_that_is_false_without_variables() -> None:
    m = pyo.ConcreteModel()
    m.x = pyo.Var(domain=pyo.Binary)
    m.x.fix(0)
    m.y = pyo.Var(domain=pyo.Binary)
    m.never = pyo.Constraint(expr=0 * m.y >= 1)
    m.cost = pyo.Objective(expr=m.y)
    assert solve("highs", compile_pyomo(m)).stop == Stop.INFEASIBLE


def test_two_objectives_are_refused() -> None:
    m = pyo.ConcreteModel()
    m.x = pyo.Var()
    m.a, m.b = pyo.Objective(expr=m.x), pyo.Objective(expr=-m.x)
    with pytest.raises(ValueError, match="2 active objectives"):
        compile_pyomo(m)


def test_numbers_that_are_none_are_refused() -> None:
    with pytest.raises(InputError, match=r"model coefficients\[0\] is not a finite number"):
        from_rows([1.0], [({0: float("nan")}, 0.0, 1.0)], [0.0], [1.0], [True])


# ---- files ---------------------------------------------------------------------------------------------


def test_names_become_harmless_and_stay_apart() -> None:
    names = safe_names(["x[1,2]", "x(1;2)", "x_1_2_", "free", "3d", "e5", "T", "t", "a" * 300], 9, "x")
    assert len({name.lower() for name in names}) == 9
    assert all(re.fullmatch(r"[A-Za-z_][A-Za-z0-9_.]{0,210}", name) for name in names)
    assert not {"free", "e5"} & set(names)


AWKWARD = from_rows(
    [1.0, -2.0, 0.1, 0.0, 0.0],
    [
        ({0: 1.0, 1: 1.0 / 3.0}, -7.5, 2.0),
        ({1: 1.0, 2: -1e-3}, -INF, 4.0),
        ({0: 2.0, 2: 1.0}, -3.0, INF),
        ({0: 1.0, 4: -1.0}, 0.5, 0.5),
        ({1: 1.0}, -INF, INF),
    ],
    [-5.0, 0.0, -INF, 2.0, -INF],
    [-1.0, INF, 10.0, 2.0, INF],
    [True, True, False, True, False],
    ["free", "x[1,2]", "x(1,2)", "unused", "E10"],
    row_names=["two sides", "most", "least", "equal", "nothing"],
    offset=12.5,
)
"""Every kind of row and bound, negative and infinite ones among them, and names that no format takes."""


@pytest.mark.parametrize("write", [write_mps, write_lp], ids=["mps", "lp"])
def test_an_exported_file_has_the_same_optimum(write: object, tmp_path: Path) -> None:
    assert callable(write)
    path = tmp_path / ("model.mps" if write is write_mps else "model.lp")
    write(AWKWARD, path)
    expected = solve("highs", AWKWARD)
    script = (
        "import highspy, sys; h = highspy.Highs(); h.silent(); assert h.readModel(sys.argv[1]).name == 'kOk';"
        "h.setOptionValue('mip_rel_gap', 0.0); h.run();"
        "print(h.getModelStatus().name, h.getInfo().objective_function_value)"
    )
    done = subprocess.run([sys.executable, "-c", script, str(path)], capture_output=True, text=True, check=True)
    status, value = done.stdout.split()[-2:]
    assert (status, float(value)) == ("kOptimal", pytest.approx(expected.objective))
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize(("write", "option"), [(write_mps, "--freemps"), (write_lp, "--lp")], ids=["mps", "lp"])
def test_another_reader_understands_the_file(write: object, option: str, tmp_path: Path, knapsack: MatrixModel) -> None:
    if not BACKENDS["glpk"].available():
        pytest.skip("GLPK is not installed")
    assert callable(write)
    write(AWKWARD, tmp_path / "awkward")
    write(knapsack, tmp_path / "knapsack")
    for name in ("awkward", "knapsack"):
        command = ["glpsol", option, str(tmp_path / name), "--check"]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout


def test_a_file_that_cannot_be_written_is_an_error(tmp_path: Path, knapsack: MatrixModel) -> None:
    with pytest.raises(InputError, match="cannot be written"):
        write_mps(knapsack, tmp_path / "missing" / "model.mps")
