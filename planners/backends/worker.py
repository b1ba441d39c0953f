"""The solver process: ``python -P -m pipeplan.planners.backends.worker BACKEND FILE_DESCRIPTOR PARENT``.

Tasks come and messages go through one socket, so nothing that a solver prints can get between them.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import queue
import signal
import sys
import threading
from dataclasses import replace
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from ...formulations.contract import NativeModel
from ...instances.base.errors import PipeplanError
from ...instances.base.result import Stop, WarmStart
from .model import MatrixModel
from .process import die_with_parent
from .records import Answer, Message, Task
from .registry import backend_named
from .session import Session, assess


def main(backend: str, descriptor: int, parent: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent says when to stop
    die_with_parent()  # no solver outlives the process that started it; the end of the socket says the same
    if os.getppid() != parent:
        return
    connection: Connection[Any, Any] = Connection(descriptor)
    sessions: queue.SimpleQueue[Session] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(connection, sessions), daemon=True).start()
    driver = importlib.import_module(backend_named(backend).driver, __package__).Driver()
    while True:
        _work(driver, sessions.get())


def _listen(connection: Connection[Any, Any], sessions: queue.SimpleQueue[Session]) -> None:
    """Hear the parent while the solver works; when the parent is gone, so are we."""
    lock = threading.Lock()

    def send(message: Message) -> None:
        with lock, contextlib.suppress(BrokenPipeError):
            connection.send(message)

    current: Session | None = None
    while True:
        try:
            word = connection.recv()
        except (EOFError, OSError):
            _end_group()
        if isinstance(word, Task):
            current = Session(word, send)
            sessions.put(current)
        elif current is not None and word.number == current.task.number:
            if word.kind == "interrupt":
                current.stop.set()
            elif word.kind == "offer":
                current.offer(*word.content)


def _end_group() -> None:
    """End this process with the programs it started."""
    if os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os._exit(0)


def _work(driver: Any, session: Session) -> None:
    task = session.task
    session.send(Message(task.number, "begun", None))
    try:
        answer = _solve(driver, session)
    except PipeplanError as error:
        session.send(Message(task.number, "refused", error))
        return
    except MemoryError:
        answer = Answer(Stop.MEMORY, message="the solver ran out of memory")
    except Exception as error:  # whatever a solver throws costs this task only
        answer = Answer(Stop.ERROR, message=f"{type(error).__name__}: {error}")
    session.send(Message(task.number, "answer", _best(answer, session)))


def _solve(driver: Any, session: Session) -> Answer:
    task = session.task
    if isinstance(task.model, NativeModel):
        sys.path += [path for path in task.paths if path not in sys.path]
        answer: Answer = driver.solve_native(task.model, task.options, task.named_start, session)
        return answer
    trivial = _trivial(task.model)
    if trivial is not None and not session.out_of_time():
        return trivial
    start, warm = None, WarmStart()
    if task.start is not None:
        start, warm = assess(driver, task.model, task.options, task.start, session)
    if session.stop.is_set():
        return Answer(Stop.INTERRUPTED, warm_start=warm)
    if session.out_of_time():
        return Answer(Stop.TIME, warm_start=warm)
    answer = driver.solve(task.model, task.options, start, session)
    return replace(answer, warm_start=warm)


def _trivial(model: MatrixModel) -> Answer | None:
    """Models that solvers call malformed and mathematics does not: crossed bounds, no columns."""
    if np.any(model.col_lower > model.col_upper) or np.any(model.row_lower > model.row_upper):
        return Answer(Stop.INFEASIBLE)
    if model.columns:
        return None
    nothing = np.zeros(0)
    feasible = model.is_feasible(nothing)
    return Answer(Stop.PROVEN, nothing, model.offset, model.offset) if feasible else Answer(Stop.INFEASIBLE)


def _best(answer: Answer, session: Session) -> Answer:
    """The solver's last solution or a better one from before; the model's own objective of it."""
    model = session.task.model
    if isinstance(model, MatrixModel) and answer.x is not None:
        x = model.rounded(answer.x)
        if x is None:
            message = "the solver's solution has fractions in integer columns; " + answer.message
            answer = replace(answer, x=None, objective=None, message=message.removesuffix("; "))
        else:
            answer = replace(answer, x=x, objective=model.objective(x))
    if answer.bound is None and answer.stop != Stop.UNBOUNDED:
        answer = replace(answer, bound=session.best_bound)
    if (
        isinstance(model, MatrixModel)
        and not model.costs.any()
        and answer.stop not in (Stop.INFEASIBLE, Stop.ERROR)
    ):
        answer = replace(answer, bound=model.offset)  # whatever is found, it costs that
    return answer if answer.nodes is not None else replace(answer, nodes=session.nodes)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
