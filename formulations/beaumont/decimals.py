"""Times as exact fractions, and grids on which integer models of them lose nothing, or next to nothing.

With whole times the shortest period is a maximum cycle ratio: a whole length over the number of periods that the
cycle spans. So the periods that can be optimal are fractions with small denominators, and between two neighbours
of them nothing needs to be asked.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from ...instances.amounts import as_written, common_unit
from ...instances.chain.problem import ChainProblem

MOST_UNITS = 10**6
"""Times that are whole multiples of a unit, but of more units than this together, count as arbitrary numbers."""

FINE = Fraction(1, 10**7)
"""What a grid for arbitrary numbers may cost, relative to the period."""

STAGES = 2
"""By how many periods one activity may lag behind the previous one of its batch, at most."""


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
    times = [as_written(time) for time in (*problem.durations, *problem.edge_times) if time]
    if not times:
        return Fraction(1)
    unit = common_unit(times)
    return unit if sum(times) / unit <= MOST_UNITS else None


def most_periods(problem: ChainProblem, batches: int = 1) -> int:
    """How many periods a simple cycle of waits can span."""
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


def largest_fraction(limit: Fraction, most: int) -> Fraction:
    """The largest fraction of at most `limit` whose denominator is at most `most`."""
    return max(Fraction(limit.numerator * q // limit.denominator, q) for q in range(1, most + 1))
