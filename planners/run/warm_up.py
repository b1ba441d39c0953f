"""The machine code of all methods, made ahead, so that nobody waits for it later."""

from __future__ import annotations

from collections.abc import Callable

from ...formulations.registry import FORMULATIONS, Entry
from ...instances.base.compiled import always_compiled
from ...instances.catalogue import load_packaged
from ..method_options import CYCLES
from ..registry import EXACT, all_methods
from .solve import solve

# Cycles of annealing, of each kind one: more of them ask for no other code.
FEW_CYCLES = 3


def warm_up(tell: Callable[[str], None]) -> None:
    """Make and keep on disk what is not there yet; `tell` hears the name of each method before its turn."""
    with always_compiled():
        for entry in all_methods():
            for name in entry.compiles_on:
                tell(entry.name)
                _run(entry, name)


def _run(entry: Entry, instance: str) -> None:
    """Run the method to its end, so that it asks for all its code: under a limit it asks for less on a slow machine."""
    formulation = entry.name if entry.name in FORMULATIONS else None
    planner = entry.name if formulation is None else EXACT
    anneals = any(option.name == CYCLES.name for option in entry.options)
    options = {CYCLES.name: FEW_CYCLES} if anneals else None
    solve(load_packaged(instance), planner=planner, formulation=formulation, options=options, warm_start="none")
