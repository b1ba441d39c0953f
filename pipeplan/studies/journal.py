"""Finished work on disk, so that a study that was killed can go on, and the versions of what made it.

A journal has one JSON line for each piece of work, written through at once. What makes a result besides its question is
the version of this program and of solvers, and the code of plug-ins: where one differs, stored work is not used again.
"""

from __future__ import annotations

import json
import os
import platform
import threading
from collections.abc import Callable, Iterable, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, TypeVar

from ..formulations.plugins import OURS, code_digest, installed, module_at
from ..formulations.registry import FORMULATIONS, Entry
from ..formulations.registry import GROUP as FORMULATION_PLUGINS
from ..instances.base.errors import InputError
from ..instances.base.json_file import MAX_FILE_BYTES, read_bytes
from ..planners.backends.registry import BACKENDS, STANDARD, backend_named
from ..planners.backends.registry import GROUP as BACKEND_PLUGINS
from ..planners.registry import GROUP as PLANNER_PLUGINS
from ..planners.registry import PLANNERS

Parsed = TypeVar("Parsed")


class Journal:
    """An append-only file. A half-written last line, left by a kill, counts as not written."""

    def __init__(self, path: Path | None, what: str, remedy: str) -> None:
        """Errors say `what` every line should be, and the `remedy`. Without a path nothing is kept."""
        self.path = path
        self._what, self._remedy = what, remedy
        self._lock = threading.Lock()

    def exists(self) -> bool:
        return self.path is not None and self.path.exists()

    def read(self, parse: Callable[[Any], Parsed]) -> list[tuple[int, Parsed]]:
        """All lines, each with its number in the file."""
        if self.path is None or not self.path.exists():
            return []
        # What follows the last line break is empty, or a line that was never finished.
        whole = read_bytes(self.path, MAX_FILE_BYTES).split(b"\n")[:-1]
        return [(n, self._parsed(n, line, parse)) for n, line in enumerate(whole, start=1) if line.strip()]

    def _parsed(self, number: int, line: bytes, parse: Callable[[Any], Parsed]) -> Parsed:
        try:
            return parse(json.loads(line))
        except (ValueError, KeyError, TypeError, RecursionError):
            raise InputError(f"line {number}", f"is no {self._what}", self._remedy, str(self.path)) from None

    def append(self, content: Mapping[str, Any]) -> None:
        self.extend([content])

    def extend(self, contents: Iterable[Mapping[str, Any]]) -> None:
        """Write lines through to the disk; the work counts as finished only afterwards."""
        if self.path is None:
            return
        text = "".join(map(line_of, contents))
        with self._lock, self.path.open("ab+") as file:
            _drop_half_line(self.path, file.fileno())
            file.write(text.encode())
            file.flush()
            os.fsync(file.fileno())


def line_of(content: Mapping[str, Any]) -> str:
    return json.dumps(content, allow_nan=False) + "\n"


def _drop_half_line(path: Path, descriptor: int) -> None:
    size = os.fstat(descriptor).st_size
    if size and os.pread(descriptor, 1, size - 1) != b"\n":
        whole = path.read_bytes().rfind(b"\n") + 1
        os.ftruncate(descriptor, whole)


# ---- what made it ---------------------------------------------------------------------------------------------


def own_version() -> str | None:
    """The version of this program; None in a checkout that is not installed."""
    try:
        return version("pipeplan")
    except PackageNotFoundError:
        return None


def versions(*solvers: str) -> dict[str, str | None]:
    """The versions of this program, of the standard solvers, which many planners use, and of these, by name."""
    solved_by = {name: backend_named(name).version() for name in (*STANDARD, *solvers)}
    return {"pipeplan": own_version(), "python": platform.python_version(), **solved_by}


def made_by(entry: Entry, solver: str) -> dict[str, str | None]:
    """The version of everything that takes part in runs of a method, by name."""
    return {**versions(*_named(solver)), **plugin_code(entry, solver)}


def plugin_code(entry: Entry, solver: str) -> dict[str, str | None]:
    """Digests of the code of plug-ins and of the user's own files, by what they bring: the method, a solver."""
    modules = {entry.name: _modules_of_method(entry)}
    modules |= {name: _modules_of_solver(name) for name in _named(solver) if name not in BACKENDS}
    theirs = {name: [m for m in of if m.partition(".")[0] not in ("", OURS)] for name, of in modules.items()}
    depends = {entry.name: entry.depends}
    return {f"the code of {name}": code_digest(of, depends.get(name, ())) for name, of in theirs.items() if of}


def changed(before: Mapping[str, str | None], now: Mapping[str, str | None]) -> list[str]:
    """The names of what is not as it was."""
    return [name for name in dict.fromkeys((*now, *before)) if before.get(name) != now.get(name)]


def _named(solver: str) -> list[str]:
    return [] if solver == "auto" else [name.strip() for name in solver.split(",")]


def _modules_of_method(entry: Entry) -> list[str]:
    """Where the method is named (`module:NAME`, or an entry point), where it stands, and its family."""
    addresses = [address for one in entry.all_kinds for address in (one.address, one.scope or "")]
    if entry.name not in FORMULATIONS and entry.name not in PLANNERS:
        points = {**installed(FORMULATION_PLUGINS), **installed(PLANNER_PLUGINS)}
        addresses.append(points[entry.name].value if entry.name in points else entry.name)
    return [module_at(address.partition(":")[0]) for address in addresses]


def _modules_of_solver(name: str) -> list[str]:
    """The module that names the solver, and the one that drives it."""
    points = installed(BACKEND_PLUGINS)
    return [backend_named(name).driver, *([points[name].module] if name in points else [])]
