"""The backends by name: what each can do, whether it is here, and in which version; no solver is imported.

Those of other packages come in by entry points of the group `pipeplan.backends`, each the address of a `Backend`.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import cache
from typing import Any

from ...formulations.contract import NativeModel
from ...formulations.plugins import PluginError, installed, load_installed
from ...instances.base.errors import NotInstalledError, UsageError, unknown_name
from .model import MatrixModel


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What callers may count on. What is False here is refused or left out with a message, never done silently."""

    warm_start: bool = True
    """A start guides the search (an accepted one is kept in any case)."""
    takes_solutions: bool = False
    """Takes incumbents while it runs."""
    progress: bool = True
    """Tells bounds while it runs."""
    incumbents: bool = True
    """Tells solutions while it runs, so that they survive its death."""
    interrupt: bool = True
    """Stops when asked and still answers; others are ended, with what they told until then."""
    unbounded: bool = True
    """Takes columns without finite bounds, and recognises unbounded models."""
    continuous: bool = True
    """Takes any continuous column; others need a grid for it, or data that imply one."""
    native: bool = False
    """Takes models of its own library (`NativeModel`) as well."""
    exact: bool = False
    """Computes in whole numbers: its proofs hold as they are (`trust` says what others' are worth)."""
    threads: bool = True
    """Can use more than one thread."""
    seed: bool = True
    """Takes a seed for its random numbers."""
    absolute_gap: bool = True
    """Stops at an absolute gap; others stop at a relative one only."""


@dataclass(frozen=True, slots=True)
class Backend:
    """One solver: a package or a program, and the module that drives it inside a worker."""

    name: str
    title: str
    driver: str
    """Import name of a module with a class `Driver`; with a leading dot: in this package."""
    capabilities: Capabilities
    package: str | None = None
    """The import name of the solver's Python package."""
    distribution: str | None = None
    program: str | None = None
    """The name of the solver's executable."""
    version_option: str = "--version"
    """Option with which the executable prints its version and ends."""
    remedy: str = ""

    def available(self) -> bool:
        """Is it installed? Cheap: nothing is imported or started."""
        if self.package is not None:
            return importlib.util.find_spec(self.package) is not None
        return self.program is not None and shutil.which(self.program) is not None

    def version(self) -> str | None:
        """The version, or None where it is not installed or does not say."""
        if not self.available():
            return None
        if self.distribution is not None:
            try:
                return importlib.metadata.version(self.distribution)
            except importlib.metadata.PackageNotFoundError:
                return None
        return None if self.program is None else _program_version(self.program, self.version_option)


_ONE_THREAD = Capabilities(threads=False)

BACKENDS: Mapping[str, Backend] = {
    entry.name: entry
    for entry in (
        Backend(
            "highs", "HiGHS", ".highs", Capabilities(takes_solutions=True), "highspy", "highspy",
            remedy="pip install highspy",
        ),
        Backend(
            "cp-sat", "OR-Tools CP-SAT", ".cp_sat",
            Capabilities(unbounded=False, continuous=False, native=True, exact=True), "ortools", "ortools",
            remedy="pip install ortools",
        ),
        Backend(
            "scip", "SCIP (through OR-Tools)", ".scip", _ONE_THREAD, "ortools", "ortools",
            remedy="pip install ortools",
        ),
    )
}  # fmt: skip


# Installed with pipeplan, and between them they take every model.
STANDARD = ("highs", "cp-sat")

# Entry points of this group bring backends of other packages.
GROUP = "pipeplan.backends"
# Our plug-ins: name, title, folder in plugins/, and what else their solver needs.
_IN_A_CHECKOUT = (
    ("gurobi", "Gurobi", "pipeplan-gurobi", " (a licence is needed for all but small models)"),
    ("cplex", "CPLEX", "pipeplan-cplex", " (a licence is needed for all but small models)"),
    ("xpress", "FICO Xpress", "pipeplan-xpress", " (a licence is needed for all but small models)"),
    ("cbc", "COIN-OR CBC", "pipeplan-programs", ", and the program cbc"),
    ("glpk", "GLPK", "pipeplan-programs", ", and the program glpsol"),
)
# How they are listed where they are not installed.
OFFERED: Mapping[str, Backend] = {
    name: Backend(
        name, title, "", Capabilities(), remedy=f"pip install ./plugins/{folder} in a checkout of pipeplan{need}"
    )
    for name, title, folder, need in _IN_A_CHECKOUT
}


@cache
def plugged_in() -> Mapping[str, Backend]:
    """The backends of other packages. To look for them takes longer than to plan a small problem."""
    return {name: _loaded(point) for name, point in installed(GROUP).items() if name not in BACKENDS}


def _loaded(point: importlib.metadata.EntryPoint) -> Backend:
    try:
        return replace(load_installed(point, Backend), name=point.name)
    except PluginError as error:  # whatever is wrong with one plug-in, the others work
        remedy = f"its plug-in cannot be loaded ({error.reason}), {error.remedy}"
        return Backend(point.name, point.name, "", Capabilities(), remedy=remedy)


def all_backends() -> Mapping[str, Backend]:
    """Ours, installed or not, and those that are plugged in."""
    return {**BACKENDS, **OFFERED, **plugged_in()}


def backend_named(name: str) -> Backend:
    """The backend of that name; plug-ins are looked for only where it is none of ours."""
    return BACKENDS[name] if name in BACKENDS else all_backends()[name]


def find_backend(name: str) -> Backend:
    """The backend of that name, installed, or a `UsageError` with the remedy."""
    if name not in BACKENDS and name not in all_backends():
        raise unknown_name("solver named", name, all_backends())
    backend = backend_named(name)
    if not backend.available():
        raise NotInstalledError(
            f"The solver {name!r} is not installed: {backend.remedy}; installed here: {', '.join(available())}."
        )
    return backend


def available() -> list[str]:
    """Names of the installed backends, the default first."""
    return [name for name, entry in all_backends().items() if entry.available()]


def check(name: str, model: MatrixModel | NativeModel) -> None:
    """Refuse what the backend can never take, before any process starts."""
    backend = find_backend(name)
    if isinstance(model, NativeModel) and not (backend.capabilities.native and model.backend == name):
        raise UsageError(
            f"The solver {name!r} does not take a native model for {model.backend}; "
            f"choose {model.backend}, or build a linear model."
        )


def describe() -> list[dict[str, Any]]:
    """One row per backend for `plan solvers`: name, title, installed, version, capabilities, remedy."""
    return [
        {
            "name": entry.name,
            "title": entry.title,
            "available": entry.available(),
            "version": entry.version(),
            "capabilities": asdict(entry.capabilities),
            "remedy": None if entry.available() else entry.remedy,
        }
        for entry in all_backends().values()
    ]


@cache
def _program_version(program: str, option: str) -> str | None:
    """The first thing that looks like a version in what the program prints about itself."""
    try:
        run = subprocess.run(
            [program, option], capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.search(r"\b\d+\.\d+(?:\.\d+)?\b", run.stdout)
    return match.group() if match else None
