"""The neutral form of a mixed-integer linear model: arrays and names; and how a Pyomo model becomes one.

Nothing here knows a solver. Pyomo is imported by `compile_pyomo` alone, with its own standard-form compiler.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...formulations.contract import ExtraRow
from ...instances.base.errors import InputError

Floats = NDArray[np.float64]
Indices = NDArray[np.int32]

# A point may break a row or a bound by this much (the solvers' own default), plus a little for large numbers.
FEASIBILITY = 1e-6
RELATIVE_FEASIBILITY = 1e-9
# How far a solver's value of an integer column may be from a whole number before we do not believe it.
INTEGRALITY = 1e-5


@dataclass(frozen=True, eq=False)
class MatrixModel:
    """Minimise costs x + offset subject to row_lower <= A x <= row_upper, col_lower <= x <= col_upper.

    The rows of A lie one after the other: row i has the columns `col_index[row_start[i]:row_start[i + 1]]`.
    Infinite bounds are infinities. `maximise`: the model that this one was made from maximised; its signs
    were turned, and every objective and bound here is that of the minimisation.
    """

    costs: Floats
    row_start: Indices
    col_index: Indices
    coefficients: Floats
    row_lower: Floats
    row_upper: Floats
    col_lower: Floats
    col_upper: Floats
    integer: NDArray[np.bool_]
    column_names: tuple[str, ...]
    row_names: tuple[str, ...] = ()
    offset: float = 0.0
    maximise: bool = False
    grids: Mapping[str, float] = field(default_factory=dict)
    """Columns that an integer solver may restrict to multiples of a step."""
    grid_loss: float = 0.0
    """Upper bound on the growth of the optimum through that restriction."""

    def __post_init__(self) -> None:
        _check(self)

    @property
    def columns(self) -> int:
        return len(self.costs)

    @property
    def rows(self) -> int:
        return len(self.row_lower)

    @property
    def size(self) -> dict[str, int]:
        return {
            "rows": self.rows,
            "columns": self.columns,
            "integers": int(self.integer.sum()),
            "nonzeros": len(self.coefficients),
        }

    @cached_property
    def position(self) -> dict[str, int]:
        """Column name -> index."""
        return {name: j for j, name in enumerate(self.column_names)}

    @cached_property
    def row_of_entry(self) -> Indices:
        """The row of each coefficient."""
        return np.repeat(np.arange(self.rows, dtype=np.int32), np.diff(self.row_start))

    @property
    def A(self) -> Any:  # noqa: N802 (its name in every textbook)
        """The matrix as a scipy CSR array."""
        from scipy.sparse import csr_array

        return csr_array((self.coefficients, self.col_index, self.row_start), shape=(self.rows, self.columns))

    def row(self, i: int) -> tuple[Indices, Floats]:
        """The columns and coefficients of row i."""
        part = slice(self.row_start[i], self.row_start[i + 1])
        return self.col_index[part], self.coefficients[part]

    def objective(self, x: Floats) -> float:
        return float(self.costs @ x) + self.offset

    def activity(self, x: Floats) -> Floats:
        products = self.coefficients * x[self.col_index]
        return np.bincount(self.row_of_entry, products, minlength=self.rows).astype(np.float64)

    def rounded(self, x: Floats) -> Floats | None:
        """The point with whole numbers in integer columns; None where one is not nearly whole."""
        whole = np.round(x)
        if np.any(np.abs(whole - x)[self.integer] > INTEGRALITY):
            return None
        return np.where(self.integer, whole, x)

    def is_feasible(self, x: Floats) -> bool:
        """Does the point obey rows, bounds and integrality, within the solvers' usual tolerance?"""
        return bool(
            np.all(np.isfinite(x))
            and np.all(np.abs(np.round(x) - x)[self.integer] <= INTEGRALITY)
            and _within(x, self.col_lower, self.col_upper)
            and _within(self.activity(x), self.row_lower, self.row_upper)
        )

    def vector(self, values: Mapping[str, float]) -> tuple[Indices, Floats]:
        """Indices and numbers of values by name; a name that the model does not have is an error."""
        unknown = next((name for name in values if name not in self.position), None)
        if unknown is not None:
            raise InputError("start", f"names the unknown column {unknown!r}", "name columns of the model")
        index = np.fromiter((self.position[name] for name in values), np.int32, len(values))
        return index, np.fromiter(values.values(), np.float64, len(values))

    def fixed(self, index: Indices, values: Floats) -> MatrixModel:
        """The model with some columns held at the given values."""
        lower, upper = self.col_lower.copy(), self.col_upper.copy()
        lower[index] = upper[index] = values
        return replace(self, col_lower=lower, col_upper=upper)

    def with_rows(self, rows: Sequence[ExtraRow]) -> MatrixModel:
        """The model and some more rows; columns that it left out can only be 0."""
        entries = [{self.position[n]: a for n, a in row.coefficients.items() if n in self.position} for row in rows]
        ends = self.row_start[-1] + np.cumsum([len(of_row) for of_row in entries], dtype=np.int32)
        return replace(
            self,
            row_start=np.concatenate([self.row_start, ends.astype(np.int32)]),
            col_index=np.concatenate([self.col_index, np.array([j for e in entries for j in e], dtype=np.int32)]),
            coefficients=np.concatenate([self.coefficients, np.array([a for e in entries for a in e.values()])]),
            row_lower=np.concatenate([self.row_lower, [row.lower for row in rows]]),
            row_upper=np.concatenate([self.row_upper, [row.upper for row in rows]]),
            row_names=(*self.row_names, *(f"excluded[{i}]" for i in range(len(rows)))) if self.row_names else (),
        )


def _within(value: Floats, lower: Floats, upper: Floats) -> bool:
    def slack(bound: Floats) -> Floats:
        return FEASIBILITY + RELATIVE_FEASIBILITY * np.abs(bound)

    with np.errstate(invalid="ignore"):  # an infinite bound has an infinite slack, which holds in any case
        low = np.isneginf(lower) | (value >= lower - slack(lower))
        high = np.isposinf(upper) | (value <= upper + slack(upper))
    return bool(np.all(low) and np.all(high))


def _check(model: MatrixModel) -> None:
    """Shapes and numbers: a NaN in a matrix makes solvers return rubbish without a word."""
    columns, rows, entries = model.columns, model.rows, len(model.coefficients)
    shapes = {
        "col_lower": columns, "col_upper": columns, "integer": columns,
        "row_upper": rows, "row_start": rows + 1, "col_index": entries,
    }  # fmt: skip
    for name, length in shapes.items():
        if len(getattr(model, name)) != length:
            raise ValueError(f"{name} has {len(getattr(model, name))} entries, not {length}")
    for name in ("costs", "coefficients"):
        bad = np.flatnonzero(~np.isfinite(getattr(model, name)))
        if len(bad):
            raise InputError(f"model {name}[{bad[0]}]", "is not a finite number", "correct the data of the model")
    for name in ("row_lower", "row_upper", "col_lower", "col_upper"):
        bad = np.flatnonzero(np.isnan(getattr(model, name)))
        if len(bad):
            raise InputError(f"model {name}[{bad[0]}]", "is NaN", "correct the data of the model")
    if model.column_names and len(set(model.column_names)) != columns:
        raise ValueError("column names are not unique, or there are not as many as columns")
    if not math.isfinite(model.offset):
        raise InputError("model offset", "is not a finite number", "correct the data of the model")


def from_rows(
    costs: Sequence[float],
    rows: Iterable[tuple[Mapping[int, float], float, float]],
    col_lower: Sequence[float],
    col_upper: Sequence[float],
    integer: Sequence[bool],
    column_names: Sequence[str] | None = None,
    **more: Any,
) -> MatrixModel:
    """A model from plain lists; a row is (column -> coefficient, lower, upper)."""
    listed = list(rows)
    starts = np.cumsum([0, *(len(entries) for entries, _, _ in listed)], dtype=np.int32)
    return MatrixModel(
        costs=np.array(costs, dtype=np.float64),
        row_start=starts,
        col_index=np.array([j for entries, _, _ in listed for j in entries], dtype=np.int32),
        coefficients=np.array([a for entries, _, _ in listed for a in entries.values()], dtype=np.float64),
        row_lower=np.array([lower for _, lower, _ in listed], dtype=np.float64),
        row_upper=np.array([upper for _, _, upper in listed], dtype=np.float64),
        col_lower=np.array(col_lower, dtype=np.float64),
        col_upper=np.array(col_upper, dtype=np.float64),
        integer=np.array(integer, dtype=np.bool_),
        column_names=tuple(column_names or (f"x{j}" for j in range(len(costs)))),
        **more,
    )


# ---- From a Pyomo model to the neutral matrix form, by Pyomo's own standard-form compiler.


def compile_pyomo(model: Any, grids: Mapping[str, float] | None = None, grid_loss: float = 0.0) -> MatrixModel:
    """Compile a linear Pyomo model; columns are named `var.name`, and no active variable gets lost.

    A maximisation is turned into a minimisation and marked. Fixed variables become fixed columns.
    """
    from pyomo.common.errors import InfeasibleConstraintException
    from pyomo.core.base import Objective, Var
    from pyomo.repn.plugins.standard_form import LinearStandardFormCompiler

    every_variable = list(model.component_data_objects(Var, active=True))
    objectives = list(model.component_data_objects(Objective, active=True))
    if len(objectives) > 1:
        raise ValueError(f"the model has {len(objectives)} active objectives; deactivate all but one")
    maximise = any(not objective.is_minimizing() for objective in objectives)
    try:
        form = LinearStandardFormCompiler().write(model, mixed_form=True)
    except InfeasibleConstraintException as error:
        # Some constraint without variables is false: the model is infeasible, and one empty row says so.
        row: tuple[dict[int, float], float, float] = ({}, 1.0, np.inf)
        nothing, columns = [0.0] * len(every_variable), _columns(every_variable)
        return from_rows(nothing, [row], **columns, row_names=(str(error),), maximise=maximise)
    seen = {id(variable) for variable in form.columns}
    variables = [*form.columns, *(variable for variable in every_variable if id(variable) not in seen)]
    rows = _rows(form)
    costs = np.zeros(len(variables))
    if form.c.shape[0]:
        objective = form.c.tocsr()
        costs[objective.indices] = objective.data
    return MatrixModel(
        costs=costs,
        **rows,
        **_columns(variables),
        offset=float(form.c_offset[0]) if len(form.c_offset) else 0.0,
        maximise=maximise,
        grids=dict(grids or {}),
        grid_loss=grid_loss,
    )


def _rows(form: Any) -> dict[str, Any]:
    """Rows with two sides; the compiler lists a constraint with both sides as two neighbours, here they are one."""
    kinds = np.fromiter((row.bound_type for row in form.rows), np.int8, len(form.rows))
    constraints = [row.constraint for row in form.rows]
    right = np.asarray(form.rhs, dtype=np.float64)
    lower = np.where(kinds <= 0, right, -np.inf)
    upper = np.where(kinds >= 0, right, np.inf)
    second = np.zeros(len(kinds), dtype=np.bool_)
    for i in np.flatnonzero(kinds == -1):
        if i and constraints[i - 1] is constraints[i]:
            second[i] = True
            lower[i - 1] = lower[i]
    keep = np.flatnonzero(~second)
    matrix = form.A.tocsr()[keep] if second.any() else form.A.tocsr()
    return {
        "row_start": matrix.indptr.astype(np.int32),
        "col_index": matrix.indices.astype(np.int32),
        "coefficients": matrix.data.astype(np.float64),
        "row_lower": lower[keep],
        "row_upper": upper[keep],
        "row_names": tuple(constraints[i].name for i in keep),
    }


def _columns(variables: Sequence[Any]) -> dict[str, Any]:
    lower, upper = np.full(len(variables), -np.inf), np.full(len(variables), np.inf)
    for j, variable in enumerate(variables):
        low, high = (variable.value, variable.value) if variable.fixed else variable.bounds
        if low is not None:
            lower[j] = low
        if high is not None:
            upper[j] = high
    return {
        "col_lower": lower,
        "col_upper": upper,
        "integer": np.array([not variable.is_continuous() for variable in variables], dtype=np.bool_),
        "column_names": tuple(variable.name for variable in variables),
    }
