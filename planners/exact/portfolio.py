"""Which backends run, with how many threads: those that the user names, or what the formulation wants."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from ...formulations.contract import Formulation, Problem, Stage, side_by_side


def stages(
    formulation: Formulation, problem: Problem, options: Mapping[str, Any], solver: str, near: bool, found: bool
) -> tuple[Stage, ...]:
    """A named solver, several joined by commas, or `auto`: the formulation's own portfolio."""
    if solver != "auto":
        return side_by_side(*dict.fromkeys(name.strip() for name in solver.split(",")))
    return formulation.portfolio(problem, options, near=near, found=found)


def share(names: tuple[str, ...], threads: int | None) -> dict[str, int]:
    """At least one thread for each; HiGHS hardly uses more than one, so the last named gets the rest."""
    shares = dict.fromkeys(names, 1)
    shares[names[-1]] += max(0, (threads or os.cpu_count() or 1) - len(names))
    return shares
