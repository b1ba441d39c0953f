"""From a Pyomo model to the neutral matrix form, by Pyomo's own standard-form compiler."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .model import MatrixModel, from_rows


def compile_pyomo(model: Any, grids: Mapping[str, float] | None = None, grid_loss: float = 0.0) -> MatrixModel:
    """Compile a linear Pyomo model; columns are named `var.name`, and no active variable gets lost.

    A maximisation is turned into a minimisation and marked. Fixed variables become fixed columns.
    """
    from pyomo.common.errors import InfeasibleConstraintException
    from pyomo.core.base import Var
    from pyomo.repn.plugins.standard_form import LinearStandardFormCompiler

    every_variable = list(model.component_data_objects(Var, active=True))
    maximise = _maximises(model)
    try:
        form = LinearStandardFormCompiler().write(model, mixed_form=True)
    except InfeasibleConstraintException as error:
        return _contradiction(every_variable, str(error), maximise)
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


def _maximises(model: Any) -> bool:
    from pyomo.core.base import Objective

    objectives = list(model.component_data_objects(Objective, active=True))
    if len(objectives) > 1:
        raise ValueError(f"the model has {len(objectives)} active objectives; deactivate all but one")
    return any(not objective.is_minimizing() for objective in objectives)


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


def _contradiction(variables: Sequence[Any], why: str, maximise: bool) -> MatrixModel:
    """Some constraint without variables is false: the model is infeasible, and one empty row says so."""
    row: tuple[dict[int, float], float, float] = ({}, 1.0, np.inf)
    return from_rows([0.0] * len(variables), [row], **_columns(variables), row_names=(why,), maximise=maximise)
