"""What becomes of a warm start, by evidence: it is checked on the matrix, completed or repaired, or rejected.

Accepted: feasible with every given value kept (missing values were filled in). Repaired: feasible with the given
values of the integer columns, other given values changed. Rejected: no feasible point has those integers; the
solver may still use it as a hint.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from ...instances.base.result import StartOutcome, Stop, WarmStart
from ..options import SolveOptions
from .model import FEASIBILITY, Floats, Indices, MatrixModel
from .records import Answer
from .session import Session

# What the completion of a start may take: a share of the time that is left, which is the same work on every machine
# whose limit is as much longer as it is slower; a minute where there is no limit.
SHARE_OF_TIME = 0.5
SECONDS_WITHOUT_LIMIT = 60.0


def completion_seconds(session: Session) -> float:
    """Seconds that the completion of a start may take."""
    left = session.seconds_left()
    return SECONDS_WITHOUT_LIMIT if left is None else SHARE_OF_TIME * left


@dataclass(frozen=True, slots=True)
class Start:
    """A feasible point where there is one, and in any case the values that were given."""

    index: Indices
    values: Floats
    x: Floats | None = None

    def given(self) -> tuple[Indices, Floats]:
        """The point that a solver is told: the whole one where there is one."""
        if self.x is None:
            return self.index, self.values
        return np.arange(len(self.x), dtype=np.int32), self.x


class MatrixDriver(Protocol):
    """The methods that every driver offers."""

    def solve(self, model: MatrixModel, options: SolveOptions, start: Start | None, session: Session) -> Answer:
        """Solve within `session`; report what is found on the way."""
        ...


def unbounded_or_infeasible(
    driver: MatrixDriver, model: MatrixModel, options: SolveOptions, session: Session
) -> Answer:
    """Decide what solvers leave open: the same model without costs has a solution (unbounded) or has none."""
    if not model.costs.any():
        return Answer(Stop.INFEASIBLE)  # nothing can be unbounded without costs
    free = replace(model, costs=np.zeros(model.columns), offset=0.0)
    answer = driver.solve(free, options, None, session.subtask(None))
    if answer.stop != Stop.PROVEN:
        return Answer(answer.stop, message=answer.message)
    return Answer(Stop.UNBOUNDED, x=answer.x)


def assess(
    driver: MatrixDriver, model: MatrixModel, options: SolveOptions, given: tuple[Indices, Floats], session: Session
) -> tuple[Start, WarmStart]:
    """Check the given values; where they are not a feasible point, let the driver look for one that has them."""
    index, values = given
    complete = len(np.unique(index)) == model.columns
    if complete:
        point = np.zeros(model.columns)
        point[index] = values
        if model.is_feasible(point):
            return _keep(point, StartOutcome.ACCEPTED, given, model, session)
    for fixed_index, fixed_values in _attempts(model, index, values, complete):
        if session.out_of_time() or session.stop.is_set():
            break
        completed = _complete(driver, model.fixed(fixed_index, fixed_values), options, session)
        if completed is not None and model.is_feasible(completed):
            kept = np.abs(completed[index] - values) <= FEASIBILITY * np.maximum(1.0, np.abs(values))
            outcome = StartOutcome.ACCEPTED if kept.all() else StartOutcome.REPAIRED
            return _keep(completed, outcome, given, model, session)
    return Start(index, values), WarmStart(StartOutcome.REJECTED)


def _attempts(
    model: MatrixModel, index: Indices, values: Floats, complete: bool
) -> Iterator[tuple[Indices, Floats]]:
    """First everything that was given is held (useless where it is complete: that was checked), then its integers."""
    integer = model.integer[index]
    whole = np.round(values)
    if np.any(np.abs(whole - values)[integer] > FEASIBILITY):
        return  # a fraction for an integer column is no start at all
    held = np.where(integer, whole, values)
    if not complete and len(index):
        yield index, held
    if integer.any() and not integer.all():
        yield index[integer], held[integer]


def _complete(driver: MatrixDriver, model: MatrixModel, options: SolveOptions, session: Session) -> Floats | None:
    if np.any(model.col_lower > model.col_upper):
        return None
    quiet = session.subtask(completion_seconds(session))
    answer = driver.solve(model, replace(options, log_path=None), None, quiet)
    return None if answer.x is None else model.rounded(answer.x)


def _keep(
    point: Floats, outcome: StartOutcome, given: tuple[Indices, Floats], model: MatrixModel, session: Session
) -> tuple[Start, WarmStart]:
    """Round a feasible point, report it to the session as a solution, and make it the start."""
    whole = np.where(model.integer, np.round(point), point)
    session.found(whole, source="start")
    return Start(*given, x=whole), WarmStart(outcome, value=model.objective(whole))
