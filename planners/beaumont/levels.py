"""At which period to walk over the partitions next: low ones are exhausted soon, high ones lift the bound more."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from ...formulations.beaumont.integer_chain import IntegerChain
from ...instances.clock import now
from .layer_sets import MOST_LAYERS, Facts, Partitions

SHARE = 0.5
"""Where in the gap the next level lies."""
CLOSE_SHARE = 0.01
"""A gap this small, relative to the longest period of interest, is taken at once."""
PATIENCE_S = 15.0
"""At a level before a lower one is exhausted first; doubled when it comes back to it."""


@dataclass
class Levels:
    """The walk that is on, and those that wait for it. Changed under the lock of the search."""

    chain: IntegerChain
    current: Partitions | None = None
    waiting: list[Partitions] = field(default_factory=list)
    """Begun at higher levels and left."""
    since: float = 0.0
    patience_s: float = PATIENCE_S
    most: int | None = None
    """From this period on there are too many sets."""

    def __post_init__(self) -> None:
        self.suited = self.chain.memory is not None and self.chain.layers <= MOST_LAYERS

    @cached_property
    def facts(self) -> Facts:
        return Facts(self.chain)

    def walk(self, floor: int, ceiling: int) -> Partitions | None:
        """A walk with a period above `floor` and up to `ceiling`; None where there are too many sets."""
        current = self.current
        if current is not None and current.too_many:
            self.most, self.current, current = current.period, None, None
        if self.most is not None:
            ceiling = min(ceiling, self.most - 1)
        self.waiting = [walk for walk in self.waiting if floor < walk.period <= ceiling]
        if current is not None and floor < current.period <= ceiling:
            if now() - self.since < self.patience_s:
                return current
            self.since, self.patience_s = now(), 2 * self.patience_s
            lower = self._between(floor, current.period)
            if lower == current.period:
                return current
            self.waiting.append(current)
            return self._begin(lower) or current
        if self.waiting:
            self.waiting.sort(key=lambda walk: -walk.period)
            self.since, self.current = now(), self.waiting.pop()
            return self.current
        self.patience_s = PATIENCE_S
        return self._begin(self._between(floor, ceiling)) if floor < ceiling else None

    def _between(self, floor: int, ceiling: int) -> int:
        if ceiling - floor <= CLOSE_SHARE * ceiling:
            return ceiling
        return floor + max(1, int(SHARE * (ceiling - floor)))

    def _begin(self, period: int) -> Partitions | None:
        sets = self.facts.load_sets(period)
        if sets is None:
            self.most = period
            return None
        self.since = now()
        self.current = Partitions(self.chain, self.facts, period, sets)
        return self.current
