"""The time limit of other packages' methods, which need not look at it: they are interrupted, then left behind."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from contextvars import copy_context
from dataclasses import replace

from ...instances.base.result import Stop
from ..contract import Outcome, Request

# A method that keeps its limit may answer so much later: a share of the limit, and seconds.
LATE_SHARE, LATE_S = 0.1, 1.0
# Seconds in which an interrupted method may still answer. Then it is left behind: its plans count, its thread does not.
GRACE_S = 2.0
# Seconds between two looks at the clock.
TICK_S = 0.05


def plan_within_limit(plan: Callable[[Request], Outcome], request: Request, name: str) -> Outcome:
    """The outcome of a method that is told its limit, interrupted if it overruns, and left behind if it goes on then.

    It runs in a thread of its own, since nothing else could be left behind. Times are those of the clock of limits.
    """
    limit, board = request.limits.time_limit_s, request.board
    if limit is None:
        return plan(request)
    call = _Call(plan, request)
    try:
        if call.ends_by(limit * (1 + LATE_SHARE) + LATE_S):
            return call.outcome()
    except KeyboardInterrupt:  # of the user, for the method as well
        if call.interrupted():
            return call.outcome()
        raise
    after = board.seconds
    said = f"{name} did not stop at its time limit of {limit:g} s and was interrupted after {after:.3g} s"
    if call.interrupted():
        outcome = call.outcome()
        return replace(outcome, messages=(*outcome.messages, said))
    return Outcome(Stop.TIME, messages=(said,))


class _Call:
    """A method at work in a thread."""

    def __init__(self, plan: Callable[[Request], Outcome], request: Request) -> None:
        self._board = request.board
        self._outcome: Outcome | None = None
        self._error: BaseException | None = None
        context = copy_context()
        self._thread = threading.Thread(target=lambda: context.run(self._run, plan, request), daemon=True)
        self._thread.start()

    def _run(self, plan: Callable[[Request], Outcome], request: Request) -> None:
        try:
            self._outcome = plan(request)
        except BaseException as error:  # told where it was called
            self._error = error

    def ends_by(self, seconds: float) -> bool:
        """Wait until it ends, or until the board has so many seconds; has it ended?"""
        while self._thread.is_alive() and self._board.seconds <= seconds:
            self._thread.join(TICK_S)
        return not self._thread.is_alive()

    def outcome(self) -> Outcome:
        if self._error is not None:
            raise self._error
        assert self._outcome is not None
        return self._outcome

    def interrupted(self) -> bool:
        """Interrupt it; is there an answer within the grace? Without one its posts are no longer heard."""
        self._throw(KeyboardInterrupt)
        ended = self.ends_by(self._board.seconds + GRACE_S)
        if not ended:
            self._throw(SystemExit)
        if ended and not isinstance(self._error, KeyboardInterrupt):
            return True
        self._board.close()
        return False

    def _throw(self, kind: type[BaseException]) -> None:
        """Raise in its thread, which notices as soon as it is back from a library's code."""
        thread = self._thread.ident
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread or 0), ctypes.py_object(kind))
