"""The machine code of all methods, made ahead, so that nobody waits for it later."""

from __future__ import annotations

from collections.abc import Callable

from ...formulations.registry import FORMULATIONS
from ...instances.base.compiled import always_compiled
from ...instances.catalogue import load_packaged
from ..options import SolveOptions
from ..registry import EXACT, all_methods
from .solve import solve

BRIEFLY = SolveOptions(time_limit_s=1.0)
"""Enough for a method to need its code, whose making is not counted."""


def warm_up(tell: Callable[[str], None]) -> None:
    """Make and keep on disk what is not there yet; `tell` hears the name of each method before its turn."""
    with always_compiled():
        for entry in all_methods():
            for name in entry.compiles_on:
                tell(entry.name)
                formulation = entry.name if entry.name in FORMULATIONS else None
                planner = entry.name if formulation is None else EXACT
                solve(
                    load_packaged(name), planner=planner, formulation=formulation, limits=BRIEFLY, warm_start="none"
                )
