"""The neutral matrix form: nothing of a Pyomo model gets lost, and its files say the same to every reader."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyomo.environ as pyo
import pytest

from pipeplan import InputError, Stop
from pipeplan.planners.backends import BACKENDS, MatrixModel, from_rows, solve
from pipeplan.planners.backends.files import safe_names, write_model
from pipeplan.planners.backends.model import compile_pyomo

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
    assert bounds == {
        "x[1]": (0, 1),
        "x[2]": (0, 1),
        "n": (-3, 8),
        "y": (0.5, INF),
        "idle": (1, 2),
        "fixed": (4, 4),
    }
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
    [({0: 1.0, 1: 1.0 / 3.0}, -7.5, 2.0), ({1: 1.0, 2: -1e-3}, -INF, 4.0), ({0: 2.0, 2: 1.0}, -3.0, INF),
     ({0: 1.0, 4: -1.0}, 0.5, 0.5), ({1: 1.0}, -INF, INF)],
    [-5.0, 0.0, -INF, 2.0, -INF],
    [-1.0, INF, 10.0, 2.0, INF],
    [True, True, False, True, False],
    ["free", "x[1,2]", "x(1,2)", "unused", "E10"],
    row_names=["two sides", "most", "least", "equal", "nothing"],
    offset=12.5,
)  # fmt: skip
"""Every kind of row and bound, negative and infinite ones among them, and names that no format takes."""


READ_BACK = """
import highspy, json, sys
h = highspy.Highs()
h.silent()
h.setOptionValue("small_matrix_value", 1e-12)
h.setOptionValue("large_matrix_value", float("inf"))
assert h.readModel(sys.argv[1]).name == "kOk"
p = h.getLp()
whole = [kind.name == "kInteger" for kind in p.integrality_]
columns = zip(p.col_names_, p.col_cost_, p.col_lower_, p.col_upper_, whole)
h.setOptionValue("mip_rel_gap", 0.0)
h.run()
said = {"columns": {name: facts for name, *facts in columns}, "status": h.getModelStatus().name}
json.dump({**said, "offset": p.offset_, "value": h.getInfo().objective_function_value}, sys.stdout)
"""


def read_back(path: Path) -> Any:
    """What HiGHS makes of the file: its columns (cost, bounds, integer?) and its optimum."""
    done = subprocess.run([sys.executable, "-c", READ_BACK, str(path)], capture_output=True, text=True, check=True)
    return json.loads(done.stdout[done.stdout.index("{") :])  # after what HiGHS says of itself


@pytest.mark.parametrize("name", ["model.mps", "model.lp"])
def test_an_exported_file_has_the_same_optimum(name: str, tmp_path: Path) -> None:
    write_model(AWKWARD, tmp_path / name)
    said = read_back(tmp_path / name)
    assert said["status"] == "kOptimal"
    assert said["value"] == pytest.approx(solve("highs", AWKWARD).objective)
    assert [entry.name for entry in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("name", ["model.mps", "model.lp"])
def test_an_exported_file_has_the_same_columns(name: str, tmp_path: Path) -> None:
    """In no row at all are the last four: HiGHS's own writer of MPS would make integers of the continuous ones."""
    bounds = [(0, INF), (0, 1), (-INF, 5), (2, 5), (-INF, INF), (0.25, 0.5), (-INF, -2), (3, INF)]
    whole = [True, True, True, True, False, False, True, False]
    row = ({0: 1.0, 1: 1e-11, 2: 3.0, 3: 2e16}, -INF, 4.0)
    model = from_rows([1.0, 0, -1, 0, 0, 2, -1, 0], [row], *zip(*bounds, strict=True), whole, offset=-3.0)
    write_model(model, tmp_path / name)
    said = read_back(tmp_path / name)
    wanted = zip(model.column_names, model.costs, model.col_lower, model.col_upper, whole, strict=True)
    columns = {name: [float(x) for x in facts] for name, *facts in wanted}
    if name.endswith(".lp"):
        columns["constant"] = [-3.0, 1.0, 1.0, 0.0]
    assert {name: [float(x) for x in facts] for name, facts in said["columns"].items()} == columns
    assert said["offset"] == (0.0 if name.endswith(".lp") else -3.0)


@pytest.mark.parametrize("name", ["model.mps", "model.lp"])
def test_a_contradiction_without_variables_is_written(name: str, tmp_path: Path) -> None:
    write_model(from_rows([1.0], [({}, 1.0, INF)], [0.0], [1.0], [True]), tmp_path / name)
    assert read_back(tmp_path / name)["status"] == "kInfeasible"


@pytest.mark.parametrize(("name", "mark"), [("model.mps", "*"), ("model.lp", "\\")])
def test_a_maximisation_is_marked_in_the_file(name: str, mark: str, tmp_path: Path) -> None:
    write_model(from_rows([-2.0], [], [0.0], [5.0], [True], maximise=True), tmp_path / name)
    assert (tmp_path / name).read_text().startswith(f"{mark} made from a maximisation")
    assert read_back(tmp_path / name)["value"] == -10.0


def test_or_tools_reads_the_same_model(tmp_path: Path) -> None:
    """A reader that shares no code with the writer."""
    if not BACKENDS["scip"].available():
        pytest.skip("OR-Tools is not installed")
    write_model(AWKWARD, tmp_path / "model.mps")
    script = (
        "import sys; from ortools.linear_solver.python import model_builder as mb; m = mb.Model();"
        "assert m.import_from_mps_file(sys.argv[1]); s = mb.Solver('scip'); print(s.solve(m).name, s.objective_value)"
    )
    command = [sys.executable, "-c", script, str(tmp_path / "model.mps")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    status, value = done.stdout.split()[-2:]
    assert (status, float(value)) == ("OPTIMAL", pytest.approx(solve("highs", AWKWARD).objective))


def test_a_file_that_cannot_be_written_is_an_error(tmp_path: Path, knapsack: MatrixModel) -> None:
    with pytest.raises(InputError, match="cannot be written"):
        write_model(knapsack, tmp_path / "missing" / "model.mps")
