"""Who works on the throughput program where the user names no solver, for how long, and what else is worth a try.

What a study of open solvers on these models found, and our own runs confirm: with stage order CP-SAT alone is
best by far; without it, CP-SAT decides packing-like problems within seconds or not at all, while HiGHS
needs some start-up and then grinds down the communication-bound ones. Most of these fall to column generation.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..contract import Stage, side_by_side

SPRINT = Stage("decide", ("cp-sat",), 5.0)
"""CP-SAT has the machine for itself."""

IMPROVE = Stage("improve", ("cp-sat",), 10.0)
"""A plan that is nearly good enough is worked on."""

SEARCHES = tuple(
    Stage("search", seconds=seconds, planner="lns", options={"cycles": 10_000}) for seconds in (4.0, 8.0)
)
"""Annealing, the first and the second time."""

DEVICES = Stage("search", seconds=900.0, planner="device-sets", share=0.8)
"""Column generation over what one device can hold: where transfers are dear, bounds come from here."""

RESTRICT = Stage("restrict", seconds=6.0, options={"non_contiguous": False})
"""The contiguous problem is much easier, and its plans are plans here, too."""


def portfolio(options: Mapping[str, Any], near: bool, found: bool) -> tuple[Stage, ...]:
    """Close to the bound plans come first, proofs later; without any plan there is nothing to search from."""
    if options["variant"] == "plain":
        return side_by_side("highs")
    if not options["non_contiguous"]:
        return side_by_side("cp-sat")
    both = side_by_side("highs", "cp-sat")
    if not found:
        return (SPRINT, *both)
    if near:
        return (RESTRICT, SEARCHES[0], IMPROVE, SPRINT, SEARCHES[1], IMPROVE, DEVICES, *both)
    return (SPRINT, RESTRICT, DEVICES, *SEARCHES, *both)
