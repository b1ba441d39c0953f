"""A lower bound without a solver: the largest load below which the columns already show that there is no plan."""

from __future__ import annotations

import math

from .candidates import find_candidates
from .stages import StageBook

PRECISION = 1e-4
"""Relative: how closely the largest such load is enclosed."""
SMALL = 1e-6
"""Of the worst load, and of every load that is possible: where the search goes on while nothing is known but 0."""
GROWTH = 1.4
MAX_STEPS = 50
"""Where the bound is 0 no relative precision is ever reached."""


def work_bound(book: StageBook) -> float:
    """The devices share at best all device time, the replicas all time; what cannot run at all counts nothing."""
    work, time = (math.fsum(filter(math.isfinite, values)) for values in (book.least_work, book.least_time))
    return max(work / book.capacity, time / book.most)


def column_bound(book: StageBook) -> float:
    """The bound of the work, raised by bisection; of an infeasible problem it is the bound of the work."""
    worst = book.worst_load
    low = work_bound(book)
    high = low or SMALL * worst
    while not _possible(book, high):
        if high > worst:
            return work_bound(book)
        low, high = high, GROWTH * high
    for _ in range(MAX_STEPS):
        if high - low <= PRECISION * high:
            break
        middle = (low + high) / 2 if low else SMALL * high
        if _possible(book, middle):
            high = middle
        else:
            low = middle
    return low


def _possible(book: StageBook, load: float) -> bool:
    return bool(find_candidates(book, load, load).columns)
