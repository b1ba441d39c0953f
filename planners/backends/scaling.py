"""A matrix model in whole numbers, so scaled that every bound proved on them holds for the true data.

Rows whose numbers are decimals of few digits are scaled exactly. Others are rounded, and their sides moved
outwards by what rounding can do, here and where floats were added before: 0.1 + 0.2 is 0.30000000000000004, and three
tenths are meant. So no feasible point is lost, and the rows are met up to about 1e-11 of their size.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from ...instances.base.amounts import common_unit
from .grids import Grids, choose_grids, decimal, refusal
from .model import Floats, MatrixModel

# Exact rows may reach this activity; CP-SAT refuses sums near 2**63 and becomes slow long before.
EXACT_LIMIT = 2**50
# Rounded rows are scaled to about this activity.
ROUNDED_LIMIT = 2**40
# A column with so many steps must not have its coefficient rounded.
FINE_REACH = 2**10
# Decimals of so many digits come back from a float as they are; in longer ones the last digits may be its noise.
EXACT_DIGITS = 10**15
# Share of the size of a row by which sums of floats may be off.
NOISE = Fraction(1, 2**49)
# A side of a row that is infinite.
INFINITE = 2**62
# Share of a step by which a value may fall short of a multiple of it and count as that multiple.
NEARLY = Fraction(1, 10**6)


@dataclass(frozen=True)
class Row:
    """lower <= coefficients . columns <= upper, in whole numbers."""

    columns: list[int]
    coefficients: list[int]
    lower: int
    upper: int


@dataclass(frozen=True)
class IntegerForm:
    """Column j is `steps[j]` x a whole number from `lower[j]` to `upper[j]`.

    true objective >= (integer objective - slack) / scale + offset, and equal to it where slack is 0.
    """

    steps: Floats
    lower: list[int]
    upper: list[int]
    rows: list[Row]
    costs: list[int]
    scale: float
    slack: float
    offset: float
    loss: float
    """Upper bound on what the grids cost: a bound on them is lowered by it."""
    rounded_rows: int

    def true_bound(self, integer_bound: float) -> float:
        return (integer_bound - self.slack) / self.scale + self.offset - self.loss

    def point(self, numbers: Sequence[int] | NDArray[np.int64]) -> Floats:
        return np.asarray(numbers, dtype=np.float64) * self.steps

    def hint(self, index: int, value: float, upwards: bool) -> int:
        """The whole number for a value; a column that costs is rounded up, so that its rows stay satisfied."""
        number = float(value / self.steps[index])
        whole = math.ceil(number - 1e-6) if upwards else round(number)
        return min(max(whole, self.lower[index]), self.upper[index])


class _Box:
    """The columns in whole numbers: steps, bounds, and how far they reach from 0."""

    def __init__(self, grids: Grids) -> None:
        self.steps = grids.steps
        self.lower = [-_most_steps(-low, step) for low, step in zip(grids.lower.tolist(), self.steps, strict=True)]
        self.upper = [_most_steps(high, step) for high, step in zip(grids.upper.tolist(), self.steps, strict=True)]
        self.reach = [max(abs(low), abs(high)) for low, high in zip(self.lower, self.upper, strict=True)]


def integer_form(model: MatrixModel) -> IntegerForm:
    """Scale the model, or raise a `UsageError` that names what stands in the way."""
    grids = choose_grids(model)
    box = _Box(grids)
    beyond = next((j for j, far in enumerate(box.reach) if far >= INFINITE), None)
    if beyond is not None:
        raise refusal(model, beyond, "has more steps than a whole number of 64 bits can count")
    rounded = 0
    rows = []
    plain = _plain_rows(model, grids)
    for i in range(model.rows):
        if plain[i]:
            row, exact = _plain_row(model, i), True
        else:
            row, exact = _scaled_row(model, i, box)
        rows.append(row)
        rounded += not exact
    costs, scale, slack = _scaled_costs(model, box)
    numbers = np.array([float(step) for step in box.steps])
    return IntegerForm(numbers, box.lower, box.upper, rows, costs, scale, slack, model.offset, grids.loss, rounded)


def _most_steps(value: float, step: Fraction) -> int:
    """The largest multiple of the step up to the value; what is nearly there counts."""
    if step == 1:
        return math.floor(value + float(NEARLY))
    return math.floor(decimal(value) / step + NEARLY)


def _plain_rows(model: MatrixModel, grids: Grids) -> NDArray[np.bool_]:
    """Rows that are whole numbers as they stand; most are, and they take the short way."""
    unit = np.array([step == 1 for step in grids.steps], dtype=np.bool_)
    values = model.coefficients
    whole = unit[model.col_index] & (values == np.round(values)) if len(values) else np.zeros(0, np.bool_)
    broken = np.bincount(model.row_of_entry[~whole], minlength=model.rows) > 0
    far = np.maximum(np.abs(grids.lower), np.abs(grids.upper))
    size = np.bincount(model.row_of_entry, np.abs(values) * far[model.col_index], minlength=model.rows)
    sides = [model.row_lower, model.row_upper]
    fine = [np.isinf(side) | ((side == np.round(side)) & (np.abs(side) < EXACT_LIMIT)) for side in sides]
    return np.asarray(~broken & (size < EXACT_LIMIT) & fine[0] & fine[1])


def _plain_row(model: MatrixModel, i: int) -> Row:
    index, coefficients = model.row(i)
    low, high = float(model.row_lower[i]), float(model.row_upper[i])
    return Row(
        index.tolist(),
        [int(a) for a in coefficients.tolist()],
        -INFINITE if low == -math.inf else int(low),
        INFINITE if high == math.inf else int(high),
    )


def _scaled_row(model: MatrixModel, i: int, box: _Box) -> tuple[Row, bool]:
    index, coefficients = model.row(i)
    columns = index.tolist()
    numbers = [decimal(a) * box.steps[j] for j, a in zip(columns, coefficients.tolist(), strict=True)]
    sides = [float(model.row_lower[i]), float(model.row_upper[i])]
    finite = [decimal(side) for side in sides if math.isfinite(side)]
    scale = _exact_scale([*numbers, *finite], numbers, [box.reach[j] for j in columns])
    exact, noise = scale is not None, Fraction(0)
    if scale is None:
        reach = [box.reach[j] for j in columns]
        scale = _rounding_scale(numbers, reach, finite)
        noise = NOISE * scale * sum(abs(number) * far for number, far in zip(numbers, reach, strict=True))
    scaled = [round(number * scale) for number in numbers]
    errors = [number * scale - whole for number, whole in zip(numbers, scaled, strict=True)]
    least, most = _error_range(errors, columns, box)
    low = -INFINITE if sides[0] == -math.inf else math.ceil(decimal(sides[0]) * scale - most - noise)
    high = INFINITE if sides[1] == math.inf else math.floor(decimal(sides[1]) * scale - least + noise)
    return Row(columns, scaled, _clipped(low), _clipped(high)), exact


def _clipped(side: int) -> int:
    return max(-INFINITE, min(INFINITE, side))


def _scaled_costs(model: MatrixModel, box: _Box) -> tuple[list[int], float, float]:
    """Whole costs, their scale, and by how much the scaled objective may exceed the true one."""
    columns = np.flatnonzero(model.costs).tolist()
    numbers = [decimal(model.costs[j]) * box.steps[j] for j in columns]
    scale = _exact_scale(numbers, numbers, [box.reach[j] for j in columns])
    if scale is None:
        scale = _rounding_scale(numbers, [box.reach[j] for j in columns], [])
    costs = [0] * model.columns
    errors = []
    for j, number in zip(columns, numbers, strict=True):
        costs[j] = round(number * scale)
        errors.append(number * scale - costs[j])
    least, _ = _error_range(errors, columns, box)
    return costs, float(scale), float(-least)


def _exact_scale(numbers: Sequence[Fraction], terms: Sequence[Fraction], reach: Sequence[int]) -> Fraction | None:
    """The scale that makes every number whole and as small as possible; None where that is too large."""
    nonzero = [number for number in numbers if number]
    if not nonzero:
        return Fraction(1)
    scale = 1 / common_unit(nonzero)
    activity = sum(abs(term) * far for term, far in zip(terms, reach, strict=True)) * scale
    largest = max(abs(number) for number in nonzero) * scale
    return scale if activity < EXACT_LIMIT and largest < EXACT_DIGITS else None


def _rounding_scale(terms: Sequence[Fraction], reach: Sequence[int], sides: Sequence[Fraction]) -> Fraction:
    """A scale for rounding. The column on the finest grid gets an exact coefficient: its error would weigh most."""
    activity = sum(abs(term) * max(far, 1) for term, far in zip(terms, reach, strict=True))
    size = max([activity, *(abs(side) for side in sides if abs(side) <= activity)])
    if not size:
        return Fraction(1)
    scale = Fraction(2) ** math.floor(math.log2(ROUNDED_LIMIT) - math.log2(size))
    far, finest = max((far, abs(term)) for term, far in zip(terms, reach, strict=True) if term)
    whole = max(1, math.floor(finest * scale))
    return whole / finest if far >= FINE_REACH and size * whole / finest < EXACT_LIMIT else scale


def _error_range(errors: Sequence[Fraction], columns: Sequence[int], box: _Box) -> tuple[Fraction, Fraction]:
    """The least and the most that errors . x can be."""
    least = most = Fraction(0)
    for error, j in zip(errors, columns, strict=True):
        at_lower, at_upper = error * box.lower[j], error * box.upper[j]
        least += min(at_lower, at_upper)
        most += max(at_lower, at_upper)
    return least, most
