"""Where the time of a process goes, by imported packages and by named parts; measured only where somebody asks for it.

The seconds of a part are without those of imports and of other parts within it, so that nothing counts twice.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from . import clock


class Stopwatch:
    """Measures one thread from now on. As a finder of modules, which finds none, it hears of every import."""

    def __init__(self) -> None:
        self.parts: dict[str, float] = {}
        """Seconds by name, in the order in which they began."""
        self.imports: dict[str, float] = {}
        """Seconds by top-level package."""
        self.processor_seconds_before = clock.processor_seconds()
        """Processor time of the start of Python."""
        self.began = clock.wall()
        self._thread = threading.get_ident()
        self._sought: set[str] = set()
        """Names of the modules that the other finders are looking for."""
        self._inner = [0.0]
        """For every part that runs, the seconds of the parts that have ended within it."""

    @property
    def seconds(self) -> float:
        return clock.wall() - self.began

    @contextmanager
    def counting(self, table: dict[str, float], name: str) -> Iterator[None]:
        """Count the time inside the block under a name; the part that waits for other threads has their time."""
        if threading.get_ident() != self._thread:
            yield
            return
        table.setdefault(name, 0.0)
        began = clock.wall()
        self._inner.append(0.0)
        try:
            yield
        finally:
            whole = clock.wall() - began
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


def start() -> Stopwatch:
    """Start to measure this thread."""
    global _running
    _running = Stopwatch()
    sys.meta_path.insert(0, _running)
    return _running


def stop() -> None:
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


def told(watch: Stopwatch) -> str:
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
