"""All sets of layers that one GPU may hold at a period, and the partitions of the chain into such sets.

A set counts where its load leaves no more than the other GPUs can do, and where a schedule of that GPU alone, with
the others as they like, is not refuted. There are a few thousand of them on chains of twenty layers when the memory
binds, and few partitions, once pairs of sets are refuted in the same way.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from time import sleep
from typing import Any

from ...formulations.beaumont.integer_chain import IntegerChain
from ...instances.clock import now
from ...instances.compiled import compiled
from .annealing import array, tables

UNKNOWN = -1

MOST_LAYERS = 60
"""Sets are the bits of a machine word."""
NODES_ALONE, NODES_TOGETHER, NODES_WHOLE = 2_000, 300, 1_000
"""Patience with one GPU, with several, and with all of them."""
REMEMBERED = 2
"""What is found out about more sets than these is not worth the room."""
CHUNK, SLICE_S, PAUSE_S = 200, 0.3, 0.02

Walk = Iterator[tuple[int, ...] | None]
"""Candidates, and pauses between them."""


def load_sets(chain: IntegerChain, period: int, most: int) -> list[int] | None:
    """Sets of layers, as bits, with a load that neither this GPU nor the others forbid; None where they are many."""
    loads = [chain.load(layer) for layer in range(chain.layers)]
    least = max(1, sum(loads) - (chain.gpus - 1) * period)
    found: list[int] = []
    open_sets = [(0, 0, 0)]
    while open_sets:
        first, members, load = open_sets.pop()
        if members and load >= least:
            found.append(members)
        for layer in range(first, chain.layers):
            if load + loads[layer] <= period:
                open_sets += [(layer + 1, members | 1 << layer, load + loads[layer])]
        if len(found) + len(open_sets) > most:
            return None
    return found


def layers_of(members: int) -> list[int]:
    return [layer for layer in range(members.bit_length()) if members >> layer & 1]


@dataclass
class Facts:
    """Which sets cannot be on GPUs together, for all periods; shared by threads, whose double work does no harm."""

    chain: IntegerChain
    longest_refuted: dict[tuple[int, ...], int] = field(default_factory=dict)
    shortest_open: dict[tuple[int, ...], int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._tables = tables(self.chain)

    @cached_property
    def _refuted(self) -> Callable[..., bool]:
        from . import window_kernel

        return compiled(window_kernel, "refuted")

    def load(self) -> None:
        """Load the loop, or compile it."""
        self.refuted((1,), 1, 1)

    def refuted(self, sets: tuple[int, ...], period: int, nodes: int) -> bool:
        """Is it proven, with so many nodes at most, that they fit no period up to this one?"""
        if len(sets) > REMEMBERED:
            return self._examine(sets, period, nodes)
        if period <= self.longest_refuted.get(sets, 0):
            return True
        if period >= self.shortest_open.get(sets, period + 1):
            return False
        answer = self._examine(sets, period, nodes)
        (self.longest_refuted if answer else self.shortest_open)[sets] = period
        return answer

    def _examine(self, sets: tuple[int, ...], period: int, nodes: int) -> bool:
        gpu = [UNKNOWN] * self.chain.layers
        for number, members in enumerate(sets):
            for layer in layers_of(members):
                gpu[layer] = number
        return bool(self._refuted(self._tables, array(gpu), period, nodes))


@dataclass
class Partitions:
    """One period: a walk over the partitions into its sets that nothing refutes. Threads may walk together."""

    chain: IntegerChain
    facts: Facts
    period: int
    sets: list[int]
    """By load alone; the walk begins with leaving those that a GPU can hold."""
    done: bool = False

    def __post_init__(self) -> None:
        self.found: list[tuple[int, ...]] = []
        """All candidates so far, as allocations."""
        self._lock = threading.Lock()
        self._running = self._unsettled = 0
        self._good: list[int] = []
        self._bits: Any = None
        self._together: dict[int, Any] = {}
        chunks = [self.sets[first : first + CHUNK] for first in range(0, len(self.sets), CHUNK)]
        self._walks: deque[Walk] = deque(map(self._alone, chunks))

    def next(self) -> tuple[int, ...] | None:
        """A candidate, as an allocation, to be settled; None: call again, unless `done` or `idle`."""
        walk = self._take()
        if walk is None:
            return None
        end, sets, ended = now() + SLICE_S, None, True
        for sets in walk:
            if sets is not None or now() > end:
                ended = False
                break
        allocation = None if ended or sets is None else allocation_of(self.chain, sets)
        with self._lock:
            self._running -= 1
            if not ended:
                self._walks.appendleft(walk)
            if allocation is not None:
                self.found.append(allocation)
                self._unsettled += 1
        return allocation

    def settle(self) -> None:
        """What was to be done about one candidate is done; until then the walk is not."""
        with self._lock:
            self._unsettled -= 1

    @property
    def idle(self) -> bool:
        """Is nothing left but candidates that are being settled?"""
        with self._lock:
            return bool(self._unsettled) and not self._walks and not self._running

    def _take(self) -> Walk | None:
        """A piece of the walk that nobody is on."""
        with self._lock:
            if not self._walks and not self._running:
                if self._bits is not None:
                    self.done = not self._unsettled
                    return None
                self._walks.extend(self._branches())
            if self._walks:
                self._running += 1
                return self._walks.popleft()
        sleep(PAUSE_S)
        return None

    def _alone(self, sets: list[int]) -> Walk:
        for members in sets:
            if not self.facts.refuted((members,), self.period, NODES_ALONE):
                self._good.append(members)
            yield None

    def _branches(self) -> list[Walk]:
        """One for each set that the first layer may be in."""
        import numpy as np

        self._good.sort()
        self._bits = np.array(self._good, dtype=np.int64)
        return [self._extend((s,), s, self._row(s)) for s in self._good if s & 1]

    def _extend(self, chosen: tuple[int, ...], covered: int, allowed: Any) -> Walk:
        """Put the first layer that is left on the next GPU, with any set that may be with those before."""
        import numpy as np

        missing = ((1 << self.chain.layers) - 1) & ~covered
        if not missing:
            if not (len(chosen) > 1 and self.facts.refuted(chosen, self.period, NODES_WHOLE)):
                yield chosen
            return
        left = self.chain.gpus - len(chosen)
        if left == 0 or self._load(missing) > left * self.period:
            return
        if np.bitwise_or.reduce(self._bits[allowed], initial=0) != missing:
            return
        first = missing & -missing
        starting = allowed & ((self._bits & first) != 0)
        if left == 1:
            starting &= self._bits == missing
        for index in np.flatnonzero(starting).tolist():
            members = int(self._bits[index])
            if not self._pairs_fit(chosen, members, index):
                continue
            more = (*chosen, members)
            if 2 < len(more) < self.chain.gpus and self.facts.refuted(more, self.period, NODES_TOGETHER):
                yield None
                continue
            yield None
            yield from self._extend(more, covered | members, allowed & self._row(members))

    def _row(self, members: int) -> Any:
        row = self._together.get(members)
        if row is None:
            row = self._together[members] = (self._bits & members) == 0
        return row

    def _pairs_fit(self, chosen: tuple[int, ...], members: int, index: int) -> bool:
        for other in chosen:
            if not self._row(other)[index]:
                return False
            if self.facts.refuted((other, members), self.period, NODES_TOGETHER):
                self._row(other)[index] = False
                return False
        return True

    def _load(self, members: int) -> int:
        return sum(self.chain.load(layer) for layer in layers_of(members))


def allocation_of(chain: IntegerChain, sets: tuple[int, ...]) -> tuple[int, ...]:
    """GPUs numbered by their first layers, which is the order of a walk."""
    gpu = {layer: g for g, members in enumerate(sets) for layer in layers_of(members)}
    return tuple(gpu[layer] for layer in range(chain.layers))
