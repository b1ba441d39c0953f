"""Which backends run, with how many threads, for how long: the portfolio behind `--solver auto`.

What a study of open solvers on these models found, and our own runs confirm: with stage order CP-SAT alone is
best by far; without it, CP-SAT decides packing-like problems within seconds or not at all, while HiGHS
needs some start-up and then grinds down the communication-bound ones.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

SPRINT_S = 8.0
"""How long CP-SAT has the machine for itself on problems without stage order."""


@dataclass(frozen=True, slots=True)
class Stage:
    """Backends that race together; `seconds` None: until the end."""

    threads_of: Mapping[str, int]
    seconds: float | None = None


def lineup(solver: str, formulation: str, options: Mapping[str, Any], threads: int | None) -> tuple[Stage, ...]:
    """A named solver, several joined by commas, or `auto`."""
    available = threads or os.cpu_count() or 1
    if solver != "auto":
        names = tuple(dict.fromkeys(name.strip() for name in solver.split(",")))
        return (Stage(_share(names, available)),)
    if options.get("variant") == "plain":
        return (Stage({"highs": available}),)
    if not options.get("non_contiguous"):
        return (Stage({"cp-sat": available}),)
    return (
        Stage({"cp-sat": available}, SPRINT_S),
        Stage(_share(("highs", "cp-sat"), available)),
    )


def _share(names: tuple[str, ...], threads: int) -> dict[str, int]:
    """At least one thread for each; HiGHS hardly uses more than one, so the last named gets the rest."""
    share = dict.fromkeys(names, 1)
    share[names[-1]] += max(0, threads - len(names))
    return share
