"""The least time with a flush behind every batch, from decisions on loads: on flat networks and on levels alike.

A plan whose stages have X copies in all, and none fewer than m, takes N + X - m slots as long as its largest load for a
batch of N micro-batches. For each m, the least X within a limit on all loads never grows with the limit. So between two
limits every plan takes at least the lower one, times the slots of the upper one; the interval with the least such bound
is divided first, until it is no better than the best plan.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import NamedTuple

from ...instances.base.errors import UsageError
from ...instances.physics.tolerances import BETTER
from ...instances.registry import evaluation_of
from ...instances.staging.problem import StagingProblem
from ..search import OpenItems
from .search import NEAR, Found, Planned

# From a limit and a number to a plan with all loads within the limit and at least so many copies of each stage, and of
# such plans the one with the least sum of copies; None: there is none.
Decide = Callable[[float, int], Found[Planned] | None]


class _Interval(NamedTuple):
    """Plans with at least `fewest` copies of every stage and a largest load above `low`, up to `high`."""

    bound: float
    """No such plan takes less."""
    fewest: int
    low: float
    high: float
    more: int
    """Slots beyond the micro-batches that every such plan has at least."""


def flushed_value(problem: StagingProblem, found: Found[Planned]) -> float:
    """Time per micro-batch, filling and draining included."""
    return float(found.load * evaluation_of(problem, found.plan).slots / problem.micro_batches)


def least_flushed(
    problem: StagingProblem,
    decide: Decide[Planned],
    first: Found[Planned],
    low: float,
    numbers: Iterable[int],
    hear: Callable[[Found[Planned], float], None],
) -> Found[Planned]:
    """The best plan, from any one and a bound `low` on all loads; a stage may have any of `numbers` of copies.

    `hear` gets the best plan and the bound at that time, and at last both equal but for rounding.
    """
    if problem.exact_batches:
        raise UsageError("--objective flush plans for at most --batch replicas; drop --option exact-batches.")
    batches = problem.micro_batches
    best, value = first, flushed_value(problem, first)
    open_intervals = OpenItems(_Interval(low, fewest, low, math.inf, 0) for fewest in sorted(numbers))
    for interval in open_intervals:
        hear(best, min(interval.bound, value))
        if interval.bound >= value * (1 - 2 * BETTER):
            break
        highest = value * batches / (batches + interval.more)  # no plan with a greater load is better
        limit = _limit(interval, highest)
        if limit <= interval.low:
            continue
        found = decide(limit, interval.fewest)
        more = math.inf
        if found is not None:
            if flushed_value(problem, found) < value:
                best, value = found, flushed_value(problem, found)
            more = evaluation_of(problem, found.plan).degrees - interval.fewest
            if found.load > interval.low:
                bound = interval.low * (batches + more) / batches
                open_intervals.add(_Interval(bound, interval.fewest, interval.low, found.load, more))
        if interval.high <= highest and more > interval.more:
            bound = limit * (batches + interval.more) / batches
            open_intervals.add(interval._replace(bound=bound, low=limit))
    hear(best, value)
    return best


def _limit(interval: _Interval, highest: float) -> float:
    """The limit to decide next: at first the load of any better plan, then the middle, at last just below the end."""
    if interval.high > highest:
        return highest * (1 - BETTER)
    if interval.high - interval.low <= NEAR * interval.high or interval.low <= 0:
        return interval.high * (1 - BETTER)
    return math.sqrt(interval.low * interval.high)
