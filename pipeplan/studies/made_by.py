"""What makes a result besides its question: the versions of this program and of solvers, and plug-ins."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version

from ..formulations.plugins import OURS, code_digest, installed
from ..formulations.registry import FORMULATIONS, Entry
from ..formulations.registry import GROUP as FORMULATION_PLUGINS
from ..planners.backends.registry import BACKENDS, STANDARD, backend_named
from ..planners.backends.registry import GROUP as BACKEND_PLUGINS
from ..planners.registry import GROUP as PLANNER_PLUGINS
from ..planners.registry import PLANNERS


def own_version() -> str | None:
    """The version of this program; None in a checkout that is not installed."""
    try:
        return version("pipeplan")
    except PackageNotFoundError:
        return None


def versions(*solvers: str) -> dict[str, str | None]:
    """The versions of this program, of the standard solvers, which many planners use, and of these, by name."""
    return {"pipeplan": own_version(), **{name: backend_named(name).version() for name in (*STANDARD, *solvers)}}


def made_by(entry: Entry, solver: str) -> dict[str, str | None]:
    """The version of everything that takes part in runs of a method, by name."""
    return {**versions(*_named(solver)), **plugin_code(entry, solver)}


def plugin_code(entry: Entry, solver: str) -> dict[str, str | None]:
    """Digests of the code of plug-ins and of the user's own files, by what they bring: the method, a solver."""
    modules = {entry.name: _modules_of_method(entry)}
    modules |= {name: _modules_of_solver(name) for name in _named(solver) if name not in BACKENDS}
    theirs = {name: [m for m in of if m.partition(".")[0] not in ("", OURS)] for name, of in modules.items()}
    return {f"the code of {name}": code_digest(of) for name, of in theirs.items() if of}


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
    return [address.partition(":")[0] for address in addresses]


def _modules_of_solver(name: str) -> list[str]:
    """The module that names the solver, and the one that drives it."""
    points = installed(BACKEND_PLUGINS)
    return [backend_named(name).driver, *([points[name].module] if name in points else [])]
