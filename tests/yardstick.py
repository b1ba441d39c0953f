"""Work in units that are the same on a slow machine and on a busy one."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def million_turns() -> Iterator[Callable[[], float]]:
    """Within it, tells what this process and its children that ended have worked so far, in times that a million turns
    of an empty loop take."""
    unit = a_million_turns_s()
    began = _worked_s()
    yield lambda: (_worked_s() - began) / unit


def _worked_s() -> float:
    return sum(os.times()[:4])


def a_million_turns_s() -> float:
    """Seconds of the processor for a million turns of an empty loop."""
    return min(_turns() for _ in range(3))


def _turns() -> float:
    began = time.process_time()
    for _ in range(10**6):
        pass
    return time.process_time() - began
