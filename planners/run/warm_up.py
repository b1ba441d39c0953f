"""The machine code of all methods, made ahead, so that nobody waits for it later."""

from __future__ import annotations

from collections.abc import Callable

from ...formulations.registry import FORMULATIONS
from ...instances.base.compiled import always_compiled, asked_for
from ...instances.base.result import Stop
from ...instances.catalogue import load_packaged
from ..options import SolveOptions
from ..registry import EXACT, all_methods
from .solve import solve

# Seconds of a method's first run, and the most that a later one has; the making of code is not counted.
FIRST_S, MOST_S = 0.5, 64.0


def warm_up(tell: Callable[[str], None]) -> None:
    """Make and keep on disk what is not there yet; `tell` hears the name of each method before its turn."""
    with always_compiled():
        for entry in all_methods():
            for name in entry.compiles_on:
                tell(entry.name)
                _run(entry.name, name)


def _run(method: str, instance: str) -> None:
    """Run the method until it has asked for all its code: on a slow machine a limit may be over before it does, so
    each run has twice the time of the one before, until one asks for nothing new."""
    formulation = method if method in FORMULATIONS else None
    planner = method if formulation is None else EXACT
    seconds, stop, settled = FIRST_S, Stop.TIME, False
    while stop == Stop.TIME and not settled and seconds <= MOST_S:
        times, different = asked_for()
        limits = SolveOptions(time_limit_s=seconds)
        stop = solve(
            load_packaged(instance), planner=planner, formulation=formulation, limits=limits, warm_start="none"
        ).stop
        settled = asked_for()[0] > times and asked_for()[1] == different
        seconds *= 2
