"""Hand a model to a solver process, watch it, and always get an answer: the door of the solver layer."""

from __future__ import annotations

import atexit
import itertools
import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ...formulations.contract import NativeModel
from ...instances.base.clock import now, wall
from ...instances.base.errors import InputError, PipeplanError
from ...instances.base.result import Stop
from ..options import Progress, SolveOptions
from .model import Floats, MatrixModel
from .process import Worker
from .records import Answer, Event, Incumbent, Message, Task, settle
from .registry import backend_named, check
from .scaling import OWN, Units, in_own_units

# How long after its time limit a worker that does not answer is killed: a share of the limit, at least some seconds.
LEAST_GRACE_S = 1.0
GRACE_SHARE = 0.1
# How long after the limit a task ends whose worker is still loading its solver; the worker is kept for the next task.
LOADING_GRACE_S = 0.2
# How long after it was asked to stop a worker that does not answer is killed.
INTERRUPT_GRACE_S = 5.0
# Number of idle workers of each backend that are kept for the next task; the others are ended.
IDLE_WORKERS = 2

_numbers = itertools.count(1)


class Job:
    """One task in one solver process. All methods may be called from any thread."""

    def __init__(self, task: Task, backend: str, worker: Worker, units: Units = OWN) -> None:
        self.backend = backend
        self.outcome: Answer | None = None
        """Set when the task has ended, also when its process died."""
        self.error: PipeplanError | None = None
        """What the user can mend (a misspelt option): `poll` and `solve` raise it."""
        self.incumbent: Incumbent | None = None
        """The best solution so far; it is here already, whatever happens to the process."""
        self.bound: float | None = None
        self._task = task
        self._worker = worker
        self._units = units
        self._events: deque[Event] = deque()
        self._changed = threading.Condition()
        self._names = task.model.column_names if isinstance(task.model, MatrixModel) else ()
        self._verdict: tuple[Stop, str] | None = None
        self._interrupted_at: float | None = None
        self._begun = False
        """Has the worker loaded its solver and begun with the task?"""

    @property
    def pid(self) -> int:
        """The worker's process id."""
        return self._worker.pid

    def poll(self, timeout_s: float) -> list[Event]:
        """New events; waits up to `timeout_s` for the first one or for the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._events or self.outcome is not None, timeout_s)
            events = list(self._events)
            self._events.clear()
            error = self.error
        if error is not None and not events:
            raise error
        return events

    def interrupt(self) -> None:
        """Ask the solver to stop and to hand over what it has; it is killed if it does not."""
        if self._interrupted_at is None:
            self._interrupted_at = wall()
            self._worker.send(Message(self._task.number, "interrupt", None))

    def kill(self) -> None:
        """End the process now; what it has told stays."""
        self._end(Stop.INTERRUPTED, "the solver process was killed on request")

    def offer(self, values: Mapping[str, float]) -> bool:
        """Give a solution to the running solver. False where the backend takes none (capability `takes_solutions`)."""
        if not backend_named(self.backend).capabilities.takes_solutions or not isinstance(
            self._task.model, MatrixModel
        ):
            return False
        if self.outcome is None:
            vector = self._units.to_solver(self._task.model.vector(values))
            self._worker.send(Message(self._task.number, "offer", vector))
        return True

    # ---- called by the worker's thread -----------------------------------------------------------------

    def receive(self, message: Message) -> None:
        """Take up what the worker tells of this task."""
        if message.number != self._task.number:
            return
        with self._changed:
            self._begun = True
            if message.kind == "names":
                self._names = message.content
            elif message.kind == "incumbent":
                seconds, value, x, source = message.content
                value *= self._units.objective
                self.incumbent = Incumbent(seconds, value, self._named(x), source or self.backend)
                self._events.append(self.incumbent)
            elif message.kind == "progress":
                seconds, value, bound, nodes = message.content
                self.bound = self._units.value(bound)
                self._events.append(Progress(seconds, self._units.value(value), self.bound, nodes, self.backend))
            elif message.kind == "refused":
                self.error = message.content
                self._finish(Answer(Stop.ERROR, message=str(message.content)))
            elif message.kind == "answer":
                self._finish(self._units.of_answer(message.content))
            self._changed.notify_all()

    def tick(self) -> None:
        """End a worker that does not keep its limits."""
        options, now = self._task.options, wall()
        if self.outcome is not None or self._verdict is not None:
            return
        if options.time_limit_s is not None:
            late = now - self._task.submitted - options.time_limit_s
            grace = max(LEAST_GRACE_S, GRACE_SHARE * options.time_limit_s)
            if late > LOADING_GRACE_S and not self._begun:
                # The worker will see, once it has loaded its solver, that there is no time left for this task.
                with self._changed:
                    self._finish(Answer(Stop.TIME))
                    self._changed.notify_all()
            elif late > grace:
                self._end(
                    Stop.TIME, f"the solver did not keep its time limit and was killed {grace:.0f} s after it"
                )
        if self._interrupted_at is not None and now > self._interrupted_at + INTERRUPT_GRACE_S:
            self._end(Stop.INTERRUPTED, "the solver did not stop when it was asked to, and was killed")
        if options.memory_limit_bytes is not None:
            used = self._worker.memory_bytes()
            if used is not None and used > options.memory_limit_bytes:
                self._end(
                    Stop.MEMORY, f"the solver held {used / 2**20:.0f} MiB, more than its limit, and was killed"
                )

    def died(self, how: str) -> None:
        """The task has ended with its process, unless it had ended before."""
        with self._changed:
            if self.outcome is None:
                stop, message = self._verdict or (Stop.ERROR, how)
                self._finish(Answer(stop, message=message, bound=self.bound))
            self._changed.notify_all()

    def _end(self, stop: Stop, message: str) -> None:
        if self.outcome is None:
            self._verdict = self._verdict or (stop, message)
            self._worker.kill()

    # ---- the end ---------------------------------------------------------------------------------------

    def _named(self, x: Floats) -> dict[str, float]:
        return dict(zip(self._names, self._units.from_solver(x).tolist(), strict=True))

    def _finish(self, told: Answer) -> None:
        """Put together what is known; the best solution may be one that came before the end."""
        model, best = self._task.model, self.incumbent
        answer = replace(
            told,
            x=None,
            values=None if told.x is None else self._named(told.x),
            size=model.size if isinstance(model, MatrixModel) else told.size,
            backend=self.backend,
            version=backend_named(self.backend).version(),
            seconds=wall() - self._task.submitted,
        )
        if best is not None and (answer.objective is None or best.value < answer.objective):
            answer = replace(answer, values=best.values, objective=best.value)
        answer = settle(answer, self._task.options)
        _pool.give_back(self._worker)  # first, so that whoever sees the outcome finds the worker idle
        self.outcome = answer


# How long a worker may take to end when everything ends.
GOODBYE_S = 2.0


class _Pool:
    """Workers that wait for their next task."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: dict[str, list[Worker]] = {}
        self._all: set[Worker] = set()

    def take(self, backend: str) -> Worker:
        with self._lock:
            waiting = self._idle.setdefault(backend, [])
            while waiting:
                worker = waiting.pop()
                if worker.alive():
                    return worker
        worker = Worker(backend, self._forget)
        with self._lock:
            self._all.add(worker)
        return worker

    def give_back(self, worker: Worker) -> None:
        worker.listener = None
        with self._lock:
            waiting = self._idle.setdefault(worker.backend, [])
            if worker.alive() and len(waiting) < IDLE_WORKERS:
                waiting.append(worker)
                return
        worker.kill()

    def _forget(self, worker: Worker) -> None:
        with self._lock:
            self._all.discard(worker)
            waiting = self._idle.get(worker.backend, [])
            if worker in waiting:
                waiting.remove(worker)

    def close(self) -> None:
        """End every worker, idle or not: asked first, so that whoever measures or traces it gets the last word."""
        with self._lock:
            workers, self._all = list(self._all), set()
            self._idle.clear()
        for worker in workers:
            worker.ask_to_end()
        deadline = wall() + GOODBYE_S
        for worker in workers:
            worker.end_by(deadline)

    def reset(self) -> None:
        """After a fork the workers belong to the other process."""
        self.__init__()  # type: ignore[misc]


_pool = _Pool()
# End all solver processes now; the next submission starts new ones.
end_workers = _pool.close
atexit.register(end_workers)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.reset)


def load_ahead(backend: str) -> None:
    """Start a process of the backend, unless one waits already: it loads its solver while a model is made for it."""
    _pool.give_back(_pool.take(backend))


def submit(
    backend: str,
    model: MatrixModel | NativeModel,
    options: SolveOptions | None = None,
    start: Mapping[str, float] | None = None,
) -> Job:
    """Start solving in a process of the backend and return at once.

    `start` gives values to columns, all or some; the outcome says what became of it.
    """
    options = options or SolveOptions()
    submitted = wall()
    check(backend, model)
    _check_log_path(options.log_path)
    number = next(_numbers)
    units = OWN
    if isinstance(model, MatrixModel):
        told = replace(model, row_names=())  # a solver has no use for them
        if not backend_named(backend).capabilities.exact:
            told, units = in_own_units(told)
        vector = None if start is None else units.to_solver(model.vector(start))
        task = Task(number, told, units.options(options), submitted, start=vector)
    else:
        named = None if start is None else dict(start)
        task = Task(number, model, options, submitted, named_start=named, paths=tuple(filter(None, sys.path)))
    worker = _pool.take(backend)
    try:
        job = Job(Task(number, model, options, submitted), backend, worker, units)
        worker.listener = job
        worker.send(task)
        if not worker.alive():
            job.died("the solver process ended before it got its task")
    except BaseException:
        worker.kill()
        raise
    return job


def solve(
    backend: str,
    model: MatrixModel | NativeModel,
    options: SolveOptions | None = None,
    start: Mapping[str, float] | None = None,
    on_event: Callable[[Event], None] | None = None,
) -> Answer:
    """Solve and wait. Ctrl-C asks the solver for what it has and returns that; a second one kills it."""
    job = submit(backend, model, options, start)
    try:
        try:
            return _follow(job, on_event)
        except KeyboardInterrupt:
            job.interrupt()
            return _follow(job, on_event)
    except KeyboardInterrupt:
        job.kill()
        return _follow(job, None)
    except BaseException:
        job.kill()
        raise


def _follow(job: Job, on_event: Callable[[Event], None] | None) -> Answer:
    while True:
        events = job.poll(1.0)
        for event in events:
            if on_event is not None:
                on_event(event)
        if job.outcome is not None and not events:
            return job.outcome


def _check_log_path(path: str | None) -> None:
    """Solvers say nothing when they cannot write their log; so it is opened here first."""
    if path is None:
        return
    try:
        Path(path).open("a").close()
    except OSError as error:
        raise InputError(
            "log_path", f"{path!r} cannot be written ({error.strerror})", "choose another place"
        ) from error


# ---- many small models ---------------------------------------------------------------------------------

CP_SAT = "cp-sat"
# Seconds within which a caller of `Solver.run` notices that it shall stop.
SOLVER_POLL_S = 0.2


@dataclass
class Solver:
    """Hands small native models to CP-SAT: one at a time per caller, with a limit, until the planner stops.

    Shared by all threads of one planner run.
    """

    deadline: float | None = None
    """When to stop, on the clock of limits; None: no limit."""
    seed: int = 0
    memory_limit_bytes: int | None = None
    """Memory that each solver process may use."""
    death: Answer | None = None
    """The last word of a process that failed or was killed; nothing more is asked after it."""
    stopped: threading.Event = field(default_factory=threading.Event)
    asked: bool = False
    """Has any model been handed over, even if it was not solved to the end?"""
    solved: int = 0

    def seconds_left(self) -> float | None:
        return None if self.deadline is None else max(0.0, self.deadline - now())

    def over(self) -> bool:
        left = self.seconds_left()
        return self.stopped.is_set() or (left is not None and left <= 0)

    def unfinished(self) -> Stop:
        """Why a search ends without a proof: its process died, or its time limit came, or, without one, it was done."""
        if self.death is not None:
            return self.death.stop
        return Stop.COMPLETED if self.deadline is None else Stop.TIME

    def messages(self) -> tuple[str, ...]:
        """Messages for a result: how the solver died, if it did."""
        return () if self.death is None else (f"{CP_SAT}: {self.death.message}",)

    def backend(self) -> dict[str, Any]:
        """Facts of the solver for a result: its name, its version, and the models that it solved; none where it was not
        asked."""
        if not self.asked:
            return {}
        return {"name": CP_SAT, "version": backend_named(CP_SAT).version(), "models": self.solved}

    def run(
        self,
        model: NativeModel,
        limit_s: float | None = None,
        threads: int = 1,
        native: Mapping[str, Any] | None = None,
        heard: Callable[[Event], None] | None = None,
    ) -> Answer | None:
        """The solver's answer; None where the time was up or its process died. `heard` gets the events before it."""
        if self.over():
            return None
        limits = [limit for limit in (limit_s, self.seconds_left()) if limit is not None]
        limit = min(limits, default=None)
        options = SolveOptions(
            time_limit_s=limit,
            threads=threads,
            memory_limit_bytes=self.memory_limit_bytes,
            seed=self.seed,
            native=native or {},
        )
        job = submit(model.backend, model, options)
        self.asked = True
        try:
            while job.outcome is None:
                for event in job.poll(SOLVER_POLL_S):
                    if heard is not None:
                        heard(event)
                if self.stopped.is_set():
                    job.interrupt()
        except BaseException:
            job.kill()
            raise
        self.solved += 1
        if job.outcome.stop in (Stop.ERROR, Stop.MEMORY):
            self.death = job.outcome
            self.stopped.set()
            return None
        return job.outcome
