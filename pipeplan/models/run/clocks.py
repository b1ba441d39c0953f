"""When a pass began and ended: wall clock and CPU time of the thread on a CPU, events on a GPU."""

from __future__ import annotations

import time
from typing import Any, NamedTuple, Protocol

import torch


class Moment(NamedTuple):
    """Seconds; the wall clock is that of the machine, the same for all processes."""

    wall: float
    cpu: float | None
    """CPU time of this thread; None: a GPU works without it."""


class Clock(Protocol):
    """Marks are cheap to set and are read when the step is over."""

    def begin(self) -> None:
        """To be called before the first mark of a step."""

    def mark(self) -> Any:
        """Set a mark now; `read` tells its moment later."""

    def read(self, mark: Any) -> Moment:
        """The moment at which the mark was set."""
        ...


class CpuClock:
    """For one thread: backward passes on a CPU run in the thread that asks for them."""

    def begin(self) -> None:
        """There is nothing to prepare on a CPU."""

    def mark(self) -> Moment:
        return Moment(time.perf_counter(), time.thread_time())

    def read(self, mark: Moment) -> Moment:
        return mark


class CudaClock:
    """Events on the current stream, placed on the machine's clock by the first of them."""

    def begin(self) -> None:
        torch.cuda.synchronize()
        self._start = self.mark()
        self._wall = time.perf_counter()

    def mark(self) -> torch.cuda.Event:
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def read(self, mark: torch.cuda.Event) -> Moment:
        mark.synchronize()
        return Moment(self._wall + self._start.elapsed_time(mark) / 1e3, None)
