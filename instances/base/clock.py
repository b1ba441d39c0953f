"""The clock of time limits: it stands still while machine code is made, which happens once on a machine.

Whatever the product decides or tells by time reads this clock, and none beside it, so that with `PIPEPLAN_CLOCK_SPEED`
it runs as if the machine were so many times as slow: the tests show with it that speed decides nothing.
"""

from __future__ import annotations

import math
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from types import ModuleType
from typing import Any

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


# ---- stopwatch ------------------------------------------------------------
# Where the time of a process goes, by imported packages and by named parts; measured only where somebody asks for it.
#
# The seconds of a part are without those of imports and of other parts within it, so that nothing counts twice.


class Stopwatch:
    """Measures one thread from now on. As a finder of modules, which finds none, it hears of every import."""

    def __init__(self) -> None:
        self.parts: dict[str, float] = {}
        """Seconds by name, in the order in which they began."""
        self.imports: dict[str, float] = {}
        """Seconds by top-level package."""
        self.processor_seconds_before = processor_seconds()
        """Processor time of the start of Python."""
        self.began = wall()
        self._thread = threading.get_ident()
        self._sought: set[str] = set()
        """Names of the modules that the other finders are looking for."""
        self._inner = [0.0]
        """For every part that runs, the seconds of the parts that have ended within it."""

    @property
    def seconds(self) -> float:
        return wall() - self.began

    @contextmanager
    def counting(self, table: dict[str, float], name: str) -> Iterator[None]:
        """Count the time inside the block under a name; the part that waits for other threads has their time."""
        if threading.get_ident() != self._thread:
            yield
            return
        table.setdefault(name, 0.0)
        began = wall()
        self._inner.append(0.0)
        try:
            yield
        finally:
            whole = wall() - began
            table[name] += whole - self._inner.pop()
            self._inner[-1] += whole

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> Any:
        """What the other finders find, with its loading measured; one of them may ask all finders in turn."""
        if name in self._sought:
            return None
        self._sought.add(name)
        try:
            return self._find(name, path, target)
        finally:
            self._sought.discard(name)

    def _find(self, name: str, path: Sequence[str] | None, target: ModuleType | None) -> Any:
        finders = (finder for finder in sys.meta_path if finder is not self)
        specs = (finder.find_spec(name, path, target) for finder in finders)
        spec = next((spec for spec in specs if spec is not None), None)
        loader = None if spec is None else spec.loader
        if loader is not None and not isinstance(loader, type):  # those of built-in modules are types
            self._measure(loader, name.partition(".")[0])
        return spec

    def _measure(self, loader: Any, package: str) -> None:
        load: Callable[[ModuleType], None] = loader.exec_module

        def measured(module: ModuleType) -> None:
            with self.counting(self.imports, package):
                load(module)

        loader.exec_module = measured


_running: Stopwatch | None = None


def start_watch() -> Stopwatch:
    """Start to measure this thread."""
    global _running
    _running = Stopwatch()
    sys.meta_path.insert(0, _running)
    return _running


def stop_watch() -> None:
    """Measure nothing more."""
    global _running
    if _running is not None:
        sys.meta_path.remove(_running)
    _running = None


@contextmanager
def part(name: str) -> Iterator[None]:
    """Count the time inside the block under this name, where a stopwatch runs."""
    if _running is None:
        yield
        return
    with _running.counting(_running.parts, name):
        yield


# Packages that took fewer seconds are told together.
FEW_S = 0.002
STANDARD = "the standard library"


def where_the_time_went(watch: Stopwatch) -> str:
    """A table for people, in milliseconds; `rest` is what belongs to no part: reading the command line, above all."""
    whole = watch.seconds
    imports = by_package(watch.imports)
    rest = whole - sum(watch.parts.values()) - sum(imports.values())
    rows = {
        "start of Python (processor time)": watch.processor_seconds_before,
        **{f"import {package}": seconds for package, seconds in imports.items()},
        **watch.parts,
        "rest": rest,
        "in all": watch.processor_seconds_before + whole,
    }
    width = max(map(len, rows))
    lines = (f"{name:{width}}  {1000 * seconds:8.1f} ms" for name, seconds in rows.items())
    return "\n".join(["Where the time went:", *lines]) + "\n"


def by_package(imports: Mapping[str, float]) -> dict[str, float]:
    """Seconds by package, the most first: the standard library is one, and quick packages are together at the end."""
    sums: dict[str, float] = {}
    for package, seconds in imports.items():
        name = STANDARD if package in sys.stdlib_module_names else package
        sums[name] = sums.get(name, 0.0) + seconds
    ordered = sorted(sums.items(), key=lambda entry: -entry[1])
    slow = {package: seconds for package, seconds in ordered if seconds >= FEW_S}
    few = sum(seconds for _, seconds in ordered if seconds < FEW_S)
    return {**slow, "others": few} if few else slow
