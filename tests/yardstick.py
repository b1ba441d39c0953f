"""Work in units that are the same on a slow machine and on a busy one."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def million_turns() -> Iterator[Callable[[], float]]:
    """Within it, tells what this process has worked so far, in times that a million turns of an empty loop take."""
    unit = a_million_turns_s()
    began = time.process_time()
    yield lambda: (time.process_time() - began) / unit


def a_million_turns_s() -> float:
    """Seconds of the processor for a million turns of an empty loop."""
    return min(_turns() for _ in range(3))


def _turns() -> float:
    began = time.process_time()
    for _ in range(10**6):
        pass
    return time.process_time() - began
