"""Which continuous columns an integer solver may take, on which grid, and what that costs at most.

Think of a column whose cost is not negative (the other case is its mirror image). Rows that bound it from below
push it, rows that bound it from above are hurt by it. In some optimal solution it lies as low as its pushing
rows and its own bound let it. So:

- exact: where its pushing rows hold only columns on exact grids besides it, that lowest value is a multiple of a
  step that the rows' numbers tell: nothing is lost on this grid. (Numbers are read as the decimals they print as.)
- network: where the open columns of every row have one size and at most one of each sign (differences of start
  times), or every open column has at most one entry of each sign (flows, deviations), the corners of what is left
  for them lie on a common grid; one of them is optimal.
- fine: where no row is hurt, it may be raised to the next multiple of any step: at most cost x step is lost.
- bounds: without an upper bound of its own it need not exceed what its pushing rows can ask for.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from ...instances.base.amounts import as_written, common_unit
from ...instances.base.errors import UsageError
from .model import Floats, MatrixModel

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
