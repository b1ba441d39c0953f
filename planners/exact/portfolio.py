"""Which backends run, with how many threads, for how long: the portfolio behind `--solver auto`.

What a study of open solvers on these models found, and our own runs confirm: with stage order CP-SAT alone is
best by far; without it, CP-SAT decides packing-like problems within seconds or not at all, while HiGHS
needs some start-up and then grinds down the communication-bound ones.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

SPRINT_S = 5.0
"""How long CP-SAT has the machine for itself on problems without stage order."""

IMPROVE_S = 10.0
"""How long CP-SAT may work on a plan that is nearly good enough."""

SEARCH_S = (4.0, 8.0)
"""How long local search may take, the first and the second time."""

RESTRICT_S = 6.0
"""How long the contiguous problem may be worked on for the sake of the other one."""

Kind = Literal["decide", "improve", "search", "restrict"]


@dataclass(frozen=True, slots=True)
class Stage:
    """One kind of work for a while; `seconds` None: until the end.

    decide: is there a plan that is better by the whole gap? The backends race, the first answer wins.
    improve: is there any better plan? Starts from the best one; worth while only close to the bound.
    search: annealing, without a solver.
    restrict: the contiguous problem instead, which is much easier and whose plans are plans here, too.
    """

    kind: Kind
    threads_of: Mapping[str, int]
    seconds: float | None = None


def lineup(
    preferred: tuple[str, ...] | None,
    solver: str,
    options: Mapping[str, Any],
    threads: int | None,
    near: bool = False,
    search: bool = False,
) -> tuple[Stage, ...]:
    """A named solver, several joined by commas, or `auto`: `preferred` where there are such, or a portfolio.

    `near`: value and bound are within a small multiple of the gap, so that a slightly better plan ends the
    run; then plans come first, proofs later. `search`: local search is wanted.
    """
    available = threads or os.cpu_count() or 1
    if solver != "auto":
        names = tuple(dict.fromkeys(name.strip() for name in solver.split(",")))
        return (Stage("decide", _share(names, available)),)
    if preferred is not None:
        return (Stage("decide", _share(preferred, available)),)
    if options.get("variant") == "plain":
        return (Stage("decide", {"highs": available}),)
    if not options.get("non_contiguous"):
        return (Stage("decide", {"cp-sat": available}),)
    sprint = Stage("decide", {"cp-sat": available}, SPRINT_S)
    searches = tuple(Stage("search", {}, seconds) for seconds in SEARCH_S)
    restrict = Stage("restrict", {}, RESTRICT_S)
    improve = Stage("improve", {"cp-sat": available}, IMPROVE_S)
    race = Stage("decide", _share(("highs", "cp-sat"), available))
    if not search:
        return (sprint, race)
    if near:
        return (restrict, searches[0], improve, sprint, searches[1], improve, race)
    return (sprint, restrict, *searches, race)


def _share(names: tuple[str, ...], threads: int) -> dict[str, int]:
    """At least one thread for each; HiGHS hardly uses more than one, so the last named gets the rest."""
    share = dict.fromkeys(names, 1)
    share[names[-1]] += max(0, threads - len(names))
    return share
