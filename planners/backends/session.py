"""A worker's view of one task: the clock, the request to stop, how to tell what was found, and what becomes of a start.

What drivers import, ours and those of plug-ins: they get a `Session` and a `Start`, and answer with a record. What is
told to the parent is in `records`; a change of these two is a change of every driver.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np

from ...instances.base.clock import true_seconds, wall
from ...instances.base.result import StartOutcome, Stop, WarmStart
from ..options import SolveOptions
from .model import FEASIBILITY, Floats, Indices, MatrixModel
from .records import Answer, Message, Task, finite

# Least time between two messages on progress.
PROGRESS_INTERVAL_S = 0.1
# Time between two looks at whether the solver has ended, and whether it is to stop.
WATCH_INTERVAL_S = 0.05

# Solvers' values from here on mean infinity.
INFINITE = 1e20

Send = Callable[[Message], None]


@dataclass
class Session:
    """Through this drivers report; the thread that listens to the parent sets `stop` and calls `offer`."""

    task: Task
    send: Send
    deadline: float | None = None
    stop: threading.Event = field(default_factory=threading.Event)
    best_value: float | None = None
    best_bound: float | None = None
    nodes: int | None = None
    _offers: list[tuple[Indices, Floats]] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _told: float = 0.0

    def __post_init__(self) -> None:
        limit = self.task.options.time_limit_s
        if self.deadline is None and limit is not None:
            self.deadline = self.task.submitted + limit

    # ---- the clock and the request to stop ----------------------------------------------------------------

    @property
    def seconds(self) -> float:
        return wall() - self.task.submitted

    def seconds_left(self) -> float | None:
        """Seconds until the deadline, never fewer than 0; None: there is no limit."""
        return None if self.deadline is None else max(0.0, self.deadline - wall())

    def solver_seconds_left(self) -> float | None:
        """Seconds until the deadline as a solver counts them, whose clock is not ours."""
        left = self.seconds_left()
        return None if left is None else true_seconds(left)

    def out_of_time(self) -> bool:
        left = self.seconds_left()
        return left is not None and left <= 0

    @contextmanager
    def when_stopped(self, act: Callable[[], None]) -> Iterator[None]:
        """Within it, `act` is called when the request to stop comes, and again until the solver has heard it."""
        done = threading.Event()

        def watch() -> None:
            while not done.is_set():
                if self.stop.wait(WATCH_INTERVAL_S) and not done.wait(WATCH_INTERVAL_S / 5):
                    act()

        threading.Thread(target=watch, daemon=True).start()
        try:
            yield
        finally:
            done.set()  # the thread sees it soon; waiting for it would cost every small task a pause

    def subtask(self, seconds: float | None) -> Session:
        """A session that tells nobody, for a subproblem of at most that many seconds."""
        left = self.seconds_left()
        limits = [limit for limit in (seconds, left) if limit is not None]
        deadline = wall() + min(limits) if limits else None
        return Session(self.task, lambda message: None, deadline, self.stop)

    # ---- offers ----------------------------------------------------------------------------------------

    def offer(self, index: Indices, values: Floats) -> None:
        with self._lock:
            self._offers.append((index, values))

    def take_offer(self) -> tuple[Indices, Floats] | None:
        """The latest offer; older ones are worse or equal."""
        with self._lock:
            offers, self._offers = self._offers, []
        return offers[-1] if offers else None

    # ---- what was found --------------------------------------------------------------------------------

    def found(self, x: Floats, value: float | None = None, source: str = "") -> bool:
        """Tell a solution if it is the best so far; of a matrix model the value is computed here."""
        if isinstance(self.task.model, MatrixModel):
            rounded = self.task.model.rounded(x)
            if rounded is None or not np.all(np.abs(rounded) < INFINITE):
                return False
            x, value = rounded, self.task.model.objective(rounded)
        assert value is not None
        with self._lock:
            if self.best_value is not None and value >= self.best_value:
                return False
            self.best_value = value
        self._tell("incumbent", (self.seconds, value, x, source))
        return True

    def progress(self, bound: float | None = None, nodes: int | None = None) -> None:
        """Tell bound and nodes, not more often than anybody can read."""
        bound = finite(bound)
        if bound is not None and (self.best_bound is None or bound > self.best_bound):
            self.best_bound = bound
        if nodes is not None and nodes >= 0:
            self.nodes = nodes
        now = wall()
        if now - self._told >= PROGRESS_INTERVAL_S:
            self._told = now
            self._tell("progress", (self.seconds, self.best_value, self.best_bound, self.nodes))

    def tell_names(self, names: tuple[str, ...]) -> None:
        """Tell the names of the numbers of an incumbent, which native models have in the worker alone."""
        self._tell("names", names)

    def _tell(self, kind: str, content: Any) -> None:
        self.send(Message(self.task.number, kind, content))


# ---- What becomes of a warm start, by evidence: it is checked on the matrix, completed or repaired, or rejected.

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
