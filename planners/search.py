"""What searches share: how they end in time, the best assignment that a heuristic has seen, with its bound, and even
shares of a row, to begin with or to compare with."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, Generic, TypeVar

from ..formulations.contract import Plan
from ..instances.base.result import Stop, WarmStart, met
from .contract import Outcome, Request

Item = TypeVar("Item")


WORK_ALONE = "work alone takes no less: a bound without transfers and without a search"


class OutOfTimeError(Exception):
    """Ends a search between two of its steps."""


def tick_of(request: Request) -> Callable[[], None]:
    """What a search calls between two steps: it raises when the time is over."""

    def tick() -> None:
        if request.out_of_time():
            raise OutOfTimeError

    return tick


@dataclass
class Incumbent:
    """Takes assignments, a number for each thing that is placed; those that break a rule count for nothing."""

    request: Request
    value_of: Callable[[Sequence[int]], float]
    """The value that is minimised, of an assignment."""
    fits: Callable[[Sequence[int]], bool]
    """Does it obey the rules?"""
    plan_of: Callable[[Sequence[int]], Plan]
    """The plan that an assignment stands for."""
    lower_bound: Callable[[], float | None]
    """A bound that no plan is better than; None: there is none."""
    best: list[int] | None = None
    value: float = math.inf

    @cached_property
    def bound(self) -> float | None:
        return self.lower_bound()

    def offer(self, assignment: Sequence[int]) -> bool:
        """Keep and post it if it is better than everything before."""
        value = self.value_of(assignment)
        if value >= self.value or not self.fits(assignment):
            return False
        self.best, self.value = list(assignment), value
        self.request.board.post(self.plan_of(self.best), value)
        return True

    def tried(self, assignments: Iterable[Sequence[int] | None], if_nothing: str) -> Outcome:
        """What the planner answers after assignments, made one by one until there are no more or time is over."""
        for assignment in assignments:
            if assignment is not None:
                self.offer(assignment)
            if self.request.out_of_time():
                return self.outcome(Stop.TIME)
        return self.completed(if_nothing)

    def completed(self, if_nothing: str) -> Outcome:
        """What the planner answers at its end, with a message where it has found nothing."""
        return self.outcome(Stop.COMPLETED, *([if_nothing] if self.best is None else []))

    def outcome(self, stop: Stop, *messages: str, warm_start: WarmStart | None = None) -> Outcome:
        """What the planner answers: `stop`, unless the value meets the bound."""
        warm_start = warm_start or WarmStart()
        bound = self.bound
        if self.best is None:
            return Outcome(stop, bound=bound, warm_start=warm_start, messages=messages)
        if met(self.value, bound):
            stop = Stop.PROVEN
        bound = None if bound is None else min(bound, self.value)
        plan = self.plan_of(self.best)
        return Outcome(stop, plan, self.value, bound, warm_start, messages=messages, checks=(WORK_ALONE,))


def shares(items: Sequence[Item], parts: int) -> list[Sequence[Item]]:
    """The items in a row, cut into shares of equal size; the first ones get one more where a rest is left, and none is
    empty."""
    parts = min(parts, len(items))
    size, more = divmod(len(items), parts)
    borders = [part * size + min(part, more) for part in range(parts + 1)]
    return [items[start:end] for start, end in pairwise(borders)]


# ---- best first ------------------------------------------------------------------------------------------

Bounded = TypeVar("Bounded", bound=tuple[Any, ...])


class OpenItems(Generic[Bounded]):
    """Items in the order of their bounds, which come first in each: tuples that compare.

    A loop over the items takes the least one each time, also of those that are added meanwhile. The item that was
    taken stays counted until the loop asks for the next one. So whatever ends the loop early (an interrupt, a limit, an
    error, or `break`), `least` holds for everything that was not dealt with to the end.
    """

    def __init__(self, items: Iterable[Bounded] = ()) -> None:
        self._heap = list(items)
        heapq.heapify(self._heap)
        self._taken: tuple[Bounded, ...] = ()

    def add(self, item: Bounded) -> None:
        heapq.heappush(self._heap, item)

    def __iter__(self) -> Iterator[Bounded]:
        while self._heap:
            self._taken = (self._heap[0],)  # for a moment it counts twice, and never not at all
            heapq.heappop(self._heap)
            yield self._taken[0]
        self._taken = ()

    @property
    def left(self) -> tuple[Bounded, ...]:
        """All items that are not dealt with, in no order."""
        return (*self._taken, *self._heap)

    @property
    def least(self) -> float:
        """The least bound of an item that is not dealt with; infinite: there is none."""
        return min((item[0] for item in (*self._taken, *self._heap[:1])), default=math.inf)
