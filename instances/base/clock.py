"""The clock of time limits: it stands still while machine code is made, which happens once on a machine.

Whatever the product decides or tells by time reads this clock, and none beside it, so that with `PIPEPLAN_CLOCK_SPEED`
it runs as if the machine were so many times as slow: the tests show with it that speed decides nothing.
"""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache

from .errors import UsageError

SPEED = "PIPEPLAN_CLOCK_SPEED"


@cache
def speed() -> float:
    """Seconds of this clock in one true second, the same in every process that this one starts."""
    told = os.environ.get(SPEED, "1")
    try:
        speed = float(told)
    except ValueError:
        speed = math.nan
    if not 0 < speed < math.inf:
        raise UsageError(f"{SPEED} is {told!r}, which is no number above 0; give one like 20 or 0.05, or unset it.")
    return speed


def wall() -> float:
    """Seconds that go on while code is compiled; all processes of a machine share their beginning."""
    return speed() * time.monotonic()


def processor_seconds() -> float:
    """Seconds that this process has worked, on all its threads."""
    return speed() * time.process_time()


def true_seconds(seconds: float) -> float:
    """What others count who know nothing of this clock: solvers and the operating system."""
    return seconds / speed()


class _Compiling:
    """Time that code was compiled so far, however many threads compiled at once."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.running = 0
        self.since = 0.0
        self.seconds = 0.0
        self.announce: Callable[[], None] | None = None

    def so_far(self, now: float) -> float:
        return self.seconds + (now - self.since if self.running else 0.0)


_compiling = _Compiling()


def when_compiling(announce: Callable[[], None]) -> None:
    """`announce` is called once, when the first code of this process is compiled."""
    _compiling.announce = announce


def now() -> float:
    """Seconds on a clock of which only differences mean something: the time in which nothing was compiled."""
    with _compiling.lock:
        real = wall()
        return real - _compiling.so_far(real)


def seconds_compiling() -> float:
    """Seconds by which this clock is behind the true one since the process began."""
    with _compiling.lock:
        return _compiling.so_far(wall())


def stop() -> None:
    """Compiling begins; calls may be nested and come from several threads."""
    with _compiling.lock:
        announce, _compiling.announce = _compiling.announce, None
        _compiling.running += 1
        if _compiling.running == 1:
            _compiling.since = wall()
    if announce is not None:
        announce()


def go_on() -> None:
    """Tell the clock that compiling has ended, so that it goes on."""
    with _compiling.lock:
        _compiling.running -= 1
        if not _compiling.running:
            _compiling.seconds += wall() - _compiling.since


# When the work of this thread has to end, for loops so far below a planner that nobody tells them; None: no limit.
_end: ContextVar[float | None] = ContextVar("_end", default=None)


@contextmanager
def within(seconds: float | None) -> Iterator[None]:
    """Limit the work inside the block to so many seconds, as `seconds_left` tells it; None: no limit."""
    token = _end.set(None if seconds is None else now() + seconds)
    try:
        yield
    finally:
        _end.reset(token)


def seconds_left() -> float | None:
    """Seconds that the block of `within` has left, never fewer than 0; None: there is no limit."""
    end = _end.get()
    return None if end is None else max(0.0, end - now())
