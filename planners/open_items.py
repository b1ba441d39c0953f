"""What a best-first search has yet to deal with; an interrupt at any moment loses none of it."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Iterator
from typing import Any, Generic, TypeVar

Item = TypeVar("Item", bound=tuple[Any, ...])


class OpenItems(Generic[Item]):
    """Items in the order of their bounds, which come first in each: tuples that compare.

    A loop over the items takes the least one each time, also of those that are added meanwhile. The item that was
    taken stays counted until the loop asks for the next one. So whatever ends the loop early (an interrupt, a limit, an
    error, or `break`), `least` holds for everything that was not dealt with to the end.
    """

    def __init__(self, items: Iterable[Item] = ()) -> None:
        self._heap = list(items)
        heapq.heapify(self._heap)
        self._taken: tuple[Item, ...] = ()

    def add(self, item: Item) -> None:
        heapq.heappush(self._heap, item)

    def __iter__(self) -> Iterator[Item]:
        while self._heap:
            self._taken = (self._heap[0],)  # for a moment it counts twice, and never not at all
            heapq.heappop(self._heap)
            yield self._taken[0]
        self._taken = ()

    @property
    def left(self) -> tuple[Item, ...]:
        """All items that are not dealt with, in no order."""
        return (*self._taken, *self._heap)

    @property
    def least(self) -> float:
        """The least bound of an item that is not dealt with; infinite: there is none."""
        return min((item[0] for item in (*self._taken, *self._heap[:1])), default=math.inf)
