"""Units that suit a float solver: every model in its own magnitude, scaled by powers of two, so exactly undone.

Solvers measure feasibility by an absolute tolerance (about 1e-6), whatever the numbers mean. Seconds of a kernel or
bytes of a cluster would be lost in it, or would dwarf it. So a column of amounts is measured in a unit of which it
holds about a thousand, a row in one of which its largest coefficient holds as many, and the objective likewise.
Whole columns and shares (from 0 to 1) stay as they are, and rows of these alone with them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ..options import SolveOptions
from .model import Floats, Indices, MatrixModel
from .records import Answer

# Largest number of its own units that an amount may hold.
REACH = 2.0**10
# Largest number of units that a side of a row, or what is added to the objective, may hold: solvers take about 1e20 for
# infinity.
FARTHEST = 2.0**50


@dataclass(frozen=True, eq=False)
class Units:
    """What one unit of the solver's columns and of its objective is worth in the model."""

    columns: Floats | None = None
    """What one unit of each of the solver's columns is worth; None: the solver sees the model's own columns."""
    objective: float = 1.0

    def to_solver(self, given: tuple[Indices, Floats]) -> tuple[Indices, Floats]:
        index, values = given
        return given if self.columns is None else (index, values / self.columns[index])

    def from_solver(self, x: Floats) -> Floats:
        return x if self.columns is None else x * self.columns

    def value(self, value: float | None) -> float | None:
        """An objective or a bound in the model's units."""
        return None if value is None else value * self.objective

    def of_answer(self, answer: Answer) -> Answer:
        start = replace(answer.warm_start, value=self.value(answer.warm_start.value))
        objective, bound = self.value(answer.objective), self.value(answer.bound)
        return replace(answer, objective=objective, bound=bound, warm_start=start)

    def options(self, options: SolveOptions) -> SolveOptions:
        return replace(options, abs_gap=options.abs_gap / self.objective) if options.abs_gap else options


# Nothing is scaled.
OWN = Units()


def in_own_units(model: MatrixModel) -> tuple[MatrixModel, Units]:
    """The model in units of its own magnitude, and the way back."""
    amounts = ~model.integer & ~((model.col_lower == 0) & (model.col_upper == 1))
    columns = np.ones(model.columns)
    columns[amounts] = _power(reaches(model)[amounts] / REACH)
    coefficients = model.coefficients * columns[model.col_index]
    rows = _row_units(model, coefficients, amounts)
    costs = model.costs * columns
    largest = np.max(np.abs(costs), initial=abs(model.offset) / FARTHEST)
    objective = float(_power(np.array([largest]))[0])
    scaled = replace(
        model,
        costs=costs / objective,
        offset=model.offset / objective,
        coefficients=coefficients / rows[model.row_of_entry],
        row_lower=model.row_lower / rows,
        row_upper=model.row_upper / rows,
        col_lower=model.col_lower / columns,
        col_upper=model.col_upper / columns,
    )
    return scaled, Units(columns, objective)


def _row_units(model: MatrixModel, coefficients: Floats, amounts: NDArray[np.bool_]) -> Floats:
    """The largest coefficient of a row with amounts becomes about `REACH`; a column alone keeps the bounds it has."""
    largest = np.zeros(model.rows)
    np.maximum.at(largest, model.row_of_entry, np.abs(coefficients))
    measured = np.bincount(model.row_of_entry[amounts[model.col_index]], minlength=model.rows) > 0
    weighty = largest > REACH  # whole columns with large coefficients: bytes
    units = np.ones(model.rows)
    scaled = measured | weighty | ((largest > 0) & (largest < 1 / REACH))
    units[scaled] = _power(largest[scaled] / REACH)
    sides = _sides(model)
    far = scaled & (sides > FARTHEST * units)
    units[far] = _power(sides[far] / FARTHEST)
    return units


def _sides(model: MatrixModel) -> Floats:
    """How far from 0 the finite sides of each row are."""
    sides = [np.where(np.isfinite(side), np.abs(side), 0.0) for side in (model.row_lower, model.row_upper)]
    return np.maximum(*sides)


def reaches(model: MatrixModel) -> Floats:
    """Largest distance of each column from 0, by its bounds or else by what its rows ask for."""
    far = np.maximum(np.abs(model.col_lower), np.abs(model.col_upper))
    unbounded = np.flatnonzero(~np.isfinite(far))
    if not len(unbounded):
        return far
    bounded = np.where(np.isfinite(far), far, 0.0)
    products = np.abs(model.coefficients) * bounded[model.col_index]
    activity = np.bincount(model.row_of_entry, products, minlength=model.rows) + _sides(model)
    open_entry = np.isin(model.col_index, unbounded) & (model.coefficients != 0)
    asked = np.zeros(model.columns)
    needs = activity[model.row_of_entry[open_entry]] / np.abs(model.coefficients[open_entry])
    np.maximum.at(asked, model.col_index[open_entry], needs)
    return np.where(np.isfinite(far), far, asked)


def _power(values: Floats) -> Floats:
    """The power of two next below each value; 1 for 0."""
    sound = (values > 0) & np.isfinite(values)
    exponents = np.floor(np.log2(np.where(sound, values, 1.0)))
    return np.exp2(np.where(sound, exponents, 0.0))
