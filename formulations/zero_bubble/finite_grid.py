"""Grids on which models of given micro-batches lose nothing, or as little as is said.

For makespan the best times of given orders are whole numbers of steps, since they are longest paths. For span they may
be fractions whose denominators are at most the number of devices (`finite_orders._least_span`: the mean of the paths
on a cycle that passes each device at most once). So the grid has parts of a step: fine enough for all of these
fractions where they are few, and else for the largest one that is below the cut-off, as everything that is asked for
is below it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from .finite_problem import SPAN, FiniteProblem

MOST_FRACTIONS = 6
"""Devices: up to so many, one grid holds all possible fractions of a step (60 parts)."""


@dataclass(frozen=True, slots=True)
class Grid:
    """Starts and values are whole numbers of parts of a step."""

    factor: int
    """Parts of a step."""
    limit: int
    """The largest value that is asked for, in parts."""
    loss: int
    """By how many parts the least value on the grid can exceed the true one."""


def grid_of(finite: FiniteProblem, objective: str, cutoff: Fraction | None) -> Grid:
    """The least span is the mean of the paths on a cycle through devices, each at most once: see `_least_span`."""
    limit = Fraction(finite.longest)
    if cutoff is not None:
        limit = min(limit, cutoff * finite.steps)
    devices = len(finite.on_device)
    if objective != SPAN or devices <= 1:
        return Grid(1, math.floor(limit), 0)
    if devices <= MOST_FRACTIONS:
        factor = math.lcm(*range(1, devices + 1))
        return Grid(factor, math.floor(limit * factor), 0)
    best = max((Fraction(math.floor(limit * q), q) for q in range(1, devices + 1)), default=limit)
    return Grid(best.denominator, best.numerator, 1)
