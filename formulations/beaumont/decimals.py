"""Times as exact fractions, and grids on which integer models of them lose nothing, or next to nothing.

Of whole times the periods that can be optimal are fractions with small denominators (`formulations/least_periods.py`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from ...instances.base.amounts import as_written
from ...instances.chain.problem import ChainProblem
from ..least_periods import largest_fraction, unit_of_times

# Relative part of the period that a grid for arbitrary numbers may cost.
FINE = Fraction(1, 10**7)

# Upper bound on the periods by which one activity lags behind the previous one of its batch.
STAGES = 2


@dataclass(frozen=True, slots=True)
class Grid:
    """Steps per time unit, and the longest period in steps that a model needs to consider.

    `loss`: by how many steps the shortest period on the grid can exceed the true one.
    """

    steps: Fraction
    ceiling: int
    loss: Fraction
    exact: bool
    """Are all times whole numbers of steps?"""


def unit_of(problem: ChainProblem) -> Fraction | None:
    """The largest unit of which all times are whole multiples; None where there are too many units."""
    return unit_of_times(as_written(time) for time in (*problem.durations, *problem.edge_times))


def most_periods(problem: ChainProblem, batches: int = 1) -> int:
    """Upper bound on the number of periods that a simple cycle of waits spans."""
    return STAGES * batches * (problem.tasks + len(problem.remote_edges))


def grid_below(problem: ChainProblem, longest: Fraction, cutoff: Fraction | None, batches: int = 1) -> Grid:
    """The grid for periods up to a cut-off, or up to `longest` where there is none."""
    unit = unit_of(problem)
    most = most_periods(problem, batches)
    if unit is None:
        goal = longest if cutoff is None else min(longest, cutoff)
        steps = Fraction(most) / (goal * FINE)
        return Grid(steps, math.ceil(goal * steps), Fraction(1), exact=False)
    if cutoff is None or cutoff >= longest:
        return Grid(1 / unit, math.ceil(longest / unit), 1 - Fraction(1, most), exact=True)
    candidate = largest_fraction(cutoff / unit, most)
    denominator = candidate.denominator
    return Grid(denominator / unit, candidate.numerator, 1 - Fraction(1, most), exact=True)
