"""Numbers that suit a solver: units of a model's own magnitude for float solvers, whole numbers for CP-SAT.

Every bound proved on them holds for the true data. Whole numbers: rows whose numbers are decimals of few digits are
scaled exactly. Others are rounded, and their sides moved outwards by what rounding can do, here and where floats were
added before: 0.1 + 0.2 is 0.30000000000000004, and three tenths are meant. So no feasible point is lost, and the rows
are met up to about 1e-11 of their size. Limits may be changed as long as tests/planners/backends/test_scaling.py holds.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from ...instances.base.amounts import as_written, common_unit
from ...instances.base.errors import UsageError
from ..options import SolveOptions
from .model import Floats, Indices, MatrixModel
from .records import Answer

# ---- grids -----------------------------------------------------------------------------------------------
# Which continuous columns an integer solver may take, on which grid, and what that costs at most.
#
# Think of a column whose cost is not negative (the other case is its mirror image). Rows that bound it from below
# push it, rows that bound it from above are hurt by it. In some optimal solution it lies as low as its pushing
# rows and its own bound let it. So:
#
# - exact: where its pushing rows hold only columns on exact grids besides it, that lowest value is a multiple of a
#   step that the rows' numbers tell: nothing is lost on this grid. (Numbers are read as the decimals they print as.)
# - network: where the open columns of every row have one size and at most one of each sign (differences of start
#   times), or every open column has at most one entry of each sign (flows, deviations), the corners of what is left
#   for them lie on a common grid; one of them is optimal.
# - fine: where no row is hurt, it may be raised to the next multiple of any step: at most cost x step is lost.
# - bounds: without an upper bound of its own it need not exceed what its pushing rows can ask for.

# A grid with more steps between the bounds of a column is too fine to be searched.
MOST_STEPS = 2**40
# Steps of a grid that we choose ourselves.
FINE_STEPS = 2**32
# Smaller numbers are taken for 0: no solver and no product of ours tells them apart.
TINY = 1e-100
# Rounds in which bounds and grids of some columns may tell those of others.
PASSES = 20

ONE = Fraction(1)


@dataclass(frozen=True)
class Grids:
    """A step per column, bounds that no optimal solution needs to leave, and the most that the grids cost."""

    steps: list[Fraction]
    lower: Floats
    upper: Floats
    loss: float


def choose_grids(model: MatrixModel) -> Grids:
    """Steps and finite bounds for every column, or a `UsageError` naming one that has none."""
    search = _Search(model)
    for _ in range(PASSES):
        if not search.improve():
            break
    search.take_network()
    search.fill_with_fine_grids()
    return search.result()


def decimal(value: float) -> Fraction:
    """The number as written, but for those that nothing tells apart from 0."""
    return as_written(float(value)) if abs(value) >= TINY else Fraction(0)


class _Search:
    """Steps and bounds of the columns of one model, as far as they have been found."""

    def __init__(self, model: MatrixModel) -> None:
        self.model = model
        self.lower, self.upper = model.col_lower.copy(), model.col_upper.copy()
        whole = model.integer
        self.lower[whole] = np.ceil(self.lower[whole] - 1e-9)
        self.upper[whole] = np.floor(self.upper[whole] + 1e-9)
        self.steps: list[Fraction | None] = [ONE if is_whole else None for is_whole in whole.tolist()]
        self.loss = 0.0
        self._take_declared()
        self.open = [j for j, step in enumerate(self.steps) if step is None]
        infinite = ~np.isfinite(self.lower) | ~np.isfinite(self.upper)
        self.infinite = np.flatnonzero(infinite).tolist()
        by_column = model.A.tocsc()
        self.starts, self.row_of = by_column.indptr.tolist(), by_column.indices.tolist()
        self.coefficients = by_column.data.tolist()

    def _take_declared(self) -> None:
        for name, step in self.model.grids.items():
            j = self.model.position.get(name)
            if j is not None and self.steps[j] is None:
                self.steps[j] = decimal(step)
        if self.model.grids:
            self.loss += self.model.grid_loss
        for j in np.flatnonzero((self.lower == self.upper) & ~self.model.integer).tolist():
            self.steps[j] = abs(decimal(self.lower[j])) or ONE

    def improve(self) -> bool:
        """One round of bounds and exact grids; did anything come of it?"""
        before = (len(self.infinite), len(self.open))
        self.infinite = [j for j in self.infinite if not self._bounded(j)]
        self.open = [j for j in self.open if not self._exact(j)]
        return (len(self.infinite), len(self.open)) != before

    # ---- the rows of one column, seen so that its cost is not negative ---------------------------------

    def _sign(self, j: int) -> int:
        return -1 if self.model.costs[j] < 0 else 1

    def _rows(self, j: int, sign: int) -> tuple[list[tuple[int, float]], list[tuple[int, float]]]:
        """The rows that push column j and those that it hurts, with its coefficient; equations are in both."""
        pushing, hurt = [], []
        for k in range(self.starts[j], self.starts[j + 1]):
            i, a = self.row_of[k], self.coefficients[k]
            low, high = math.isfinite(self.model.row_lower[i]), math.isfinite(self.model.row_upper[i])
            upward = a * sign > 0
            if low if upward else high:
                pushing.append((i, a))
            if high if upward else low:
                hurt.append((i, a))
        return pushing, hurt

    # ---- bounds ----------------------------------------------------------------------------------------

    def _bounded(self, j: int) -> bool:
        """Try to give column j finite bounds."""
        sign = self._sign(j)
        pushing, hurt = self._rows(j, sign)
        low, high = self._own_bounds(j, sign)
        if low == -math.inf and pushing:
            low = max(self._reach(i, a, j, sign, largest=False) for i, a in pushing)
        if high == math.inf:
            needs = [self._reach(i, a, j, sign, largest=True) for i, a in pushing]
            limits = [-self._reach(i, a, j, -sign, largest=False) for i, a in hurt]
            least_need = max(needs, default=-math.inf) if low == -math.inf else max([low, *needs])
            high = min([least_need, *limits])
        if high == -math.inf:
            return False
        self._set_bounds(j, sign, low, high)
        return math.isfinite(low) and math.isfinite(high)

    def _own_bounds(self, j: int, sign: int) -> tuple[float, float]:
        low, high = float(self.lower[j]), float(self.upper[j])
        return (low, high) if sign > 0 else (-high, -low)

    def _set_bounds(self, j: int, sign: int, low: float, high: float) -> None:
        if sign < 0:
            low, high = -high, -low
        if self.model.integer[j]:
            low = math.floor(low + 1e-9) if math.isfinite(low) else low
            high = math.ceil(high - 1e-9) if math.isfinite(high) else high
        self.lower[j], self.upper[j] = max(self.lower[j], low), min(self.upper[j], high)

    def _reach(self, i: int, a: float, j: int, sign: int, largest: bool) -> float:
        """The least value of sign x column j that row i asks for, over all (`largest`: the worst) other columns."""
        upward = a * sign > 0
        right = float(self.model.row_lower[i] if upward else -self.model.row_upper[i])
        index, coefficients = self.model.row(i)
        others = (index != j) & (coefficients != 0)
        towards = coefficients[others] if upward else -coefficients[others]
        low, high = self.lower[index[others]], self.upper[index[others]]
        # The row asks: |a| x_j >= right - towards . others
        picks = np.where((towards > 0) == largest, low, high)
        total = float(np.sum(towards * picks)) if len(picks) else 0.0
        return (right - total) / abs(a)

    # ---- grids -----------------------------------------------------------------------------------------

    def _exact(self, j: int) -> bool:
        """Try to find the step that the rows imply for column j."""
        signs = (1, -1) if self.model.costs[j] == 0 else (self._sign(j),)
        return any(self._exact_towards(j, sign) for sign in signs)

    def _exact_towards(self, j: int, sign: int) -> bool:
        pushing, _ = self._rows(j, sign)
        low, _ = self._own_bounds(j, sign)
        if low == -math.inf and not pushing:
            return False
        numbers = [] if low == -math.inf else [decimal(low)]
        for i, a in pushing:
            of_row = self._numbers_of_row(i, a, (j,))
            if of_row is None:
                return False
            numbers += of_row
        step = common_unit(numbers) or ONE
        step = ONE if step == 1 else step
        if math.isfinite(self.lower[j]) and math.isfinite(self.upper[j]):
            reach = max(abs(self.lower[j]), abs(self.upper[j]))
            if reach / step > MOST_STEPS:
                return False
        self.steps[j] = step
        return True

    def _numbers_of_row(self, i: int, a: float, besides: Collection[int]) -> list[Fraction] | None:
        """What the other side of the row is a sum of multiples of; None where a column there has no exact step."""
        index, coefficients = self.model.row(i)
        # Most columns are whole and few numbers differ: fractions are made of the different ones only.
        plain, numbers = set(), []
        for k, coefficient in zip(index.tolist(), coefficients.tolist(), strict=True):
            if k in besides:
                continue
            step = self.steps[k]
            if step is None:
                return None
            if step is ONE:
                plain.add(abs(coefficient))
            else:
                numbers.append(abs(decimal(coefficient) * step))
        sides = (abs(float(self.model.row_lower[i])), abs(float(self.model.row_upper[i])))
        plain.update(side for side in sides if math.isfinite(side))
        divisor = abs(decimal(a))
        if not divisor:
            return None
        numbers += [decimal(value) for value in plain]
        return numbers if divisor == 1 else [number / divisor for number in numbers]

    def take_network(self) -> None:
        """Give all open columns one grid where they form a network matrix (which is totally unimodular)."""
        members = set(self.open)
        rows = sorted({i for j in self.open for i in self.row_of[self.starts[j] : self.starts[j + 1]]})
        numbers: list[Fraction] = []
        signs_of_column: dict[int, list[bool]] = {j: [] for j in self.open}
        rows_fit = True
        for i in rows:
            entries = [
                (j, a) for j, a in zip(*(part.tolist() for part in self.model.row(i)), strict=True) if j in members
            ]
            if len({abs(a) for _, a in entries}) > 1:
                return
            of_row = self._numbers_of_row(i, entries[0][1], members)
            if of_row is None:
                return
            numbers += of_row
            rows_fit &= len({a > 0 for _, a in entries}) == len(entries)
            for j, a in entries:
                signs_of_column[j].append(a > 0)
        if not rows_fit and not all(len(set(signs)) == len(signs) for signs in signs_of_column.values()):
            return
        bounds = [side for j in self.open for side in (self.lower[j], self.upper[j])]
        if not self.open or not np.all(np.isfinite(bounds)):
            return
        step = common_unit([*numbers, *(abs(decimal(side)) for side in bounds)]) or ONE
        if max(map(abs, bounds)) / step <= MOST_STEPS:
            for j in self.open:
                self.steps[j] = step
            self.open = []

    def fill_with_fine_grids(self) -> None:
        """Columns without an implied step that hurt no row get a step of our own."""
        still_open = []
        for j in self.open:
            sign = self._sign(j)
            _, hurt = self._rows(j, sign)
            low, high = self._own_bounds(j, sign)
            if hurt or not math.isfinite(low) or not math.isfinite(high):
                still_open.append(j)
                continue
            reach = max(abs(low), abs(high))
            # The upper bound must be on the grid, or raising could leave the domain.
            anchor = abs(high) or abs(low)
            cells = FINE_STEPS if anchor == reach else max(1, math.floor(FINE_STEPS * anchor / reach))
            step = decimal(anchor) / cells
            self.steps[j] = step
            self.loss += abs(float(self.model.costs[j])) * float(step)
        self.open = still_open

    # ---- the result ------------------------------------------------------------------------------------

    def result(self) -> Grids:
        if self.open:
            raise refusal(self.model, self.open[0], "is continuous, has no grid, and the data imply none")
        infinite = np.flatnonzero(~np.isfinite(self.lower) | ~np.isfinite(self.upper))
        if len(infinite):
            raise refusal(self.model, int(infinite[0]), "has no finite bounds")
        return Grids([step or ONE for step in self.steps], self.lower, self.upper, self.loss)


def refusal(model: MatrixModel, j: int, why: str) -> UsageError:
    name = model.column_names[j] if model.column_names else f"number {j}"
    return UsageError(
        f"The solver 'cp-sat' cannot take this model: column {name} {why}; "
        "give it finite bounds and a grid, or choose a solver for continuous columns (highs, scip)."
    )


# ---- scaling ------------------------------------------------------------

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


# ---- Units that suit a float solver: every model in its own magnitude, scaled by powers of two, so exactly undone.

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
