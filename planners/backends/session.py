"""A worker's view of one task: the clock, the request to stop, offered solutions, and how to tell what was found."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...instances.base.clock import true_seconds, wall
from .model import Floats, Indices, MatrixModel
from .records import Message, Task, finite

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
