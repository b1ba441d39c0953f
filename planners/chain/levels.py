"""At which period to walk over the partitions next: low ones are exhausted soon, high ones lift the bound more."""

from __future__ import annotations

from dataclasses import dataclass, field

from ...formulations.beaumont.integer_chain import IntegerChain
from .layer_sets import Facts, Partitions, facts_of

SHARE = 0.5
"""Where in the gap the next level lies."""
CLOSE_SHARE = 0.01
"""A gap this small, relative to the longest period of interest, is taken at once."""
PATIENCE_S = 3.0
"""At a level before lower ones are exhausted first; longer each time that there is none left below it."""


@dataclass
class Levels:
    """The walk that is on, and those that wait for it. Changed under the lock of the search."""

    chain: IntegerChain
    current: Partitions | None = None
    waiting: list[Partitions] = field(default_factory=list)
    """Begun at higher levels and left."""
    patience_s: float = PATIENCE_S
    until_s: float = 0.0
    """May be spent on the current walk before lower ones."""
    most: int | None = None
    """From this period on there are too many sets, or partitions of a part of the chain that nothing refutes."""

    def __post_init__(self) -> None:
        self.suited = self.chain.memory is not None
        self.facts: Facts | None = None

    def load(self, period: int) -> None:
        """Load the compiled loops, for periods up to this one."""
        facts = facts_of(self.chain, period)
        facts.load()
        self.facts = facts

    def walk(self, floor: int, ceiling: int) -> Partitions | None:
        """A walk with a period above `floor` and up to `ceiling`; None where walks lead nowhere."""
        current = self.current
        if current is not None and current.hopeless:
            self.most, self.current, current = current.period, None, None
        if self.most is not None:
            ceiling = min(ceiling, self.most - 1)
        self.waiting = [walk for walk in self.waiting if floor < walk.period <= ceiling]
        if current is not None and floor < current.period <= ceiling:
            if current.spent_s < self.until_s:
                return current
            self.waiting.append(current)
        if not self.waiting:
            self.patience_s = PATIENCE_S
            return self._begin(self._between(floor, ceiling)) if floor < ceiling else None
        lowest = min(self.waiting, key=lambda walk: walk.period)
        lower = self._between(floor, lowest.period)
        if lower < lowest.period:
            return self._begin(lower)
        self.waiting.remove(lowest)
        self.patience_s *= 2
        self.current, self.until_s = lowest, lowest.spent_s + self.patience_s
        return lowest

    def _between(self, floor: int, ceiling: int) -> int:
        if ceiling - floor <= CLOSE_SHARE * ceiling:
            return ceiling
        return floor + max(1, int(SHARE * (ceiling - floor)))

    def _begin(self, period: int) -> Partitions | None:
        assert self.facts is not None
        sets = self.facts.load_sets(period)
        if sets is None:
            self.most = period
            return None
        self.until_s = self.patience_s
        self.current = Partitions(self.chain, self.facts, period, sets)
        return self.current
