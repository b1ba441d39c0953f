"""All sets of layers that one GPU may hold at a period, and the partitions of the chain into such sets.

A set counts where its load leaves no more than the other GPUs can do, and where a schedule of that GPU alone, with
the others as they like, is not refuted. There are a few thousand of them on chains of twenty layers when the memory
binds, but few partitions: these are listed first, and only the pairs of sets that occur in them are examined.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from time import sleep
from typing import Any

import numpy as np

from ...formulations.beaumont.integer_chain import IntegerChain
from ...instances.base.clock import now
from ...instances.base.compiled import compiled
from . import sets_kernel
from .schedule import array, tables
from .sets_kernel import OPEN, UNKNOWN

# What a walk calls.
LOOPS = ((sets_kernel, "refuted"), (sets_kernel, "list_sets"), (sets_kernel, "begin"), (sets_kernel, "go_on"))

# Sets are bits of a machine word. Of longer chains only the first layers are in sets; the others are on any GPU.
MOST_LAYERS = 60
# Of a long chain as many layers are in sets as have no more sets than this.
MOST_SETS_OF_FIRST = 20_000
# Sets that load and area allow. If there are more, there is no walk.
MOST_SETS = 200_000
# Sets that a GPU can hold. A table takes a bit for each pair of them.
MOST_GOOD = 20_000
# Nodes of search for one GPU, for several, and for all of them.
NODES_ALONE, NODES_TOGETHER, NODES_WHOLE = 2_000, 300, 10_000
# Answers about more sets than this together are not remembered, since they would take much room.
REMEMBERED = 2
# Sets in one piece of the walk that asks which sets a GPU can hold, and steps of a walk over partitions at a time.
CHUNK, STEPS = 200, 2_000
# Seconds for which a thread goes on with a piece, and for which it sleeps if no piece is left.
SLICE_S, PAUSE_S = 0.3, 0.02

# A candidate (sets, or the allocation made of them), or None: a pause between two candidates.
Step = tuple[int, ...] | None
Steps = Iterator[Step]


@dataclass
class Facts:
    """What is known of sets of layers at all periods: which ones cannot be on GPUs together. Threads share the facts,
    and two threads may find out the same."""

    chain: IntegerChain
    layers: int
    """Number of the first layers that are in sets; the others are on any GPU."""
    longest_refuted: dict[tuple[int, ...], int] = field(default_factory=dict)
    """For sets of layers, the longest period at which they are proven not to fit."""
    shortest_open: dict[tuple[int, ...], int] = field(default_factory=dict)
    """For sets of layers, the shortest period at which no proof was found that they do not fit."""

    def __post_init__(self) -> None:
        self.tables = tables(self.chain)

    def load(self) -> None:
        """Load the loops, or compile them."""
        self.refuted((1,), 1, 1)
        walk = Covering(self, [(1 << self.layers) - 1], 1)
        walk.go_on(walk.begin(-1), 1)
        self.load_sets(1, 1)

    @property
    def whole(self) -> bool:
        """Are all layers in sets?"""
        return self.layers == self.chain.layers

    def load_sets(self, period: int, most: int | None = None) -> list[int] | None:
        """Sets of layers, as bits, that a GPU may hold at this period by load and area; None: there are too many."""
        loads = sum(map(self.chain.load, range(self.layers)))
        sets = np.zeros(MOST_SETS if most is None else most, np.int64)
        least = max(1, loads - (self.chain.gpus - 1) * period)
        count = compiled(sets_kernel, "list_sets")(self.tables, self.layers, period, least, sets)
        return None if count < 0 else sets[:count].tolist()

    def refuted(self, sets: tuple[int, ...], period: int, nodes: int) -> bool:
        """Is it proven, with at most this many nodes of search, that these sets fit no period up to this one?"""
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
        """Ask the compiled search whether these sets, one on each GPU, can have a schedule of this period."""
        gpu = [UNKNOWN] * self.layers + [OPEN] * (self.chain.layers - self.layers)
        for number, members in enumerate(sets):
            for layer in layers_of(members):
                gpu[layer] = number
        return bool(compiled(sets_kernel, "refuted")(self.tables, array(gpu), period, nodes))


def facts_of(chain: IntegerChain, period: int) -> Facts:
    """Facts about a chain whose layers are all in sets; of a long chain only the first layers are, as many as
    have few sets at the period."""
    if chain.layers <= MOST_LAYERS:
        return Facts(chain, chain.layers)
    few = 1 + bisect_left(
        range(2, MOST_LAYERS + 1),
        True,
        key=lambda count: Facts(chain, count).load_sets(period, MOST_SETS_OF_FIRST) is None,
    )
    return Facts(chain, few)


def layers_of(members: int) -> list[int]:
    """Layers of a set, given as bits."""
    return [layer for layer in range(members.bit_length()) if members >> layer & 1]


class Covering:
    """The compiled walks over the partitions into some sets, and the pairs of sets that cannot be together."""

    def __init__(self, facts: Facts, sets: Sequence[int], period: int) -> None:
        """`sets`: the sets of layers as bits."""
        chain = facts.chain
        loads = [chain.load(layer) for layer in range(facts.layers)]
        self.covers = sets_kernel.Covers(
            sets=array(sets),
            loads=array([sum(loads[layer] for layer in layers_of(members)) for members in sets]),
            apart=np.zeros((len(sets), len(sets) // 8 + 1), np.uint8),
            layer_loads=array(loads),
            gpus=chain.gpus,
            period=period,
        )

    def begin(self, root: int) -> Any:
        """A walk over the partitions with the set of this number; if it is negative, over all partitions."""
        n, gpus = len(self.covers.sets), self.covers.gpus
        walk = sets_kernel.Walk(
            depth=array([0]),
            chosen=np.zeros(gpus, np.int64),
            open=np.zeros((gpus + 1, n), np.int32),
            counts=np.zeros(gpus + 1, np.int64),
            ways=np.zeros((gpus + 1, n), np.int32),
            ways_counts=np.zeros(gpus + 1, np.int64),
            at=np.zeros(gpus + 1, np.int64),
        )
        compiled(sets_kernel, "begin")(self.covers, walk, root)
        return walk

    def roots(self) -> list[int]:
        """Numbers of sets of which each partition has one."""
        walk = self.begin(-1)
        return [int(root) for root in walk.ways[0, : walk.ways_counts[0]]]

    def go_on(self, walk: Any, steps: int) -> int:
        return int(compiled(sets_kernel, "go_on")(self.covers, walk, steps))

    def chosen(self, walk: Any) -> list[int]:
        return [int(i) for i in walk.chosen[: walk.depth[0] + 1]]

    def put_apart(self, i: int, j: int) -> None:
        """Note that the two sets of these numbers are in no partition together."""
        sets_kernel.put_apart(self.covers, i, j)


@dataclass
class Partitions:
    """One period: a walk over the partitions into its sets that nothing refutes. Threads may walk together."""

    chain: IntegerChain
    facts: Facts
    period: int
    sets: Sequence[int]
    """Sets that load and area allow; the walk begins with leaving those that a GPU can hold."""
    done: bool = False
    spent_s: float = 0.0
    """Seconds that all threads together have spent on the walk."""
    hopeless: bool = False
    """Can GPUs hold more sets than the walk has room for, or is a partition left of the first layers of a chain?"""

    def __post_init__(self) -> None:
        self.found: list[tuple[int, ...]] = []
        """All candidates so far, as allocations."""
        self._lock = threading.Lock()
        self._running = self._unsettled = 0
        self._good: list[int] = []
        self._covering: Covering | None = None
        chunks = [self.sets[first : first + CHUNK] for first in range(0, len(self.sets), CHUNK)]
        self._walks: deque[Steps] = deque(map(self._alone, chunks))

    def next(self) -> Step:
        """A candidate, as an allocation, to be settled; None: call again, unless `done` or `idle`."""
        walk = self._take()
        if walk is None:
            return None
        begun, sets, ended = now(), None, True
        for sets in walk:
            if sets is not None or now() > begun + SLICE_S:
                ended = False
                break
        self.hopeless = self.hopeless or (sets is not None and not self.facts.whole)
        allocation = None if ended or sets is None or self.hopeless else allocation_of(self.chain, sets)
        with self._lock:
            self._running -= 1
            self.spent_s += now() - begun
            if not ended:
                self._walks.appendleft(walk)
            if allocation is not None:
                self.found.append(allocation)
                self._unsettled += 1
        return allocation

    def settle(self) -> None:
        """Note that one candidate has been dealt with; the walk is not `done` before."""
        with self._lock:
            self._unsettled -= 1

    @property
    def idle(self) -> bool:
        """Is nothing left but candidates that are being settled?"""
        with self._lock:
            return bool(self._unsettled) and not self._walks and not self._running

    def _take(self) -> Steps | None:
        """A piece of the walk that nobody is on."""
        with self._lock:
            if not self._walks and not self._running:
                if self._covering is not None:
                    self.done = not self._unsettled
                    return None
                self.hopeless = len(self._good) > MOST_GOOD
                if self.hopeless:
                    return None
                self._good.sort()
                self._covering = Covering(self.facts, self._good, self.period)
                self._walks.extend(map(self._partitions, self._covering.roots()))
            if self._walks:
                self._running += 1
                return self._walks.popleft()
        sleep(PAUSE_S)
        return None

    def _alone(self, sets: Sequence[int]) -> Steps:
        """Collect those of the sets that a GPU can hold, with a pause after each."""
        for members in sets:
            if not self.facts.refuted((members,), self.period, NODES_ALONE):
                self._good.append(members)
            yield None

    def _partitions(self, root: int) -> Steps:
        """Partitions with the set `root`, of which no group of sets that was asked about is refuted."""
        covering = self._covering
        assert covering is not None
        walk = covering.begin(root)
        together: list[int] = []
        while (state := covering.go_on(walk, STEPS)) != sets_kernel.DONE:
            if state == sets_kernel.FOUND:
                chosen = covering.chosen(walk)
                fitting = self._fitting(covering, chosen, together)
                together = chosen[:fitting]
                if fitting == len(chosen):
                    yield tuple(self._good[i] for i in chosen)
                else:
                    walk.depth[0] = fitting
            yield None

    def _fitting(self, covering: Covering, chosen: list[int], before: list[int]) -> int:
        """Number of sets, from the first one on, that are not refuted together; it is known of those in `before`."""
        sets = [self._good[i] for i in chosen]
        for i, j in sorted(combinations(range(len(sets)), 2), key=lambda pair: pair[1]):
            if self.facts.refuted(_in_order((sets[i], sets[j])), self.period, NODES_TOGETHER):
                covering.put_apart(chosen[i], chosen[j])
                return j
        for count in range(3, len(sets) + 1):
            if chosen[:count] != before[:count]:
                nodes = NODES_WHOLE if count == len(sets) else NODES_TOGETHER
                if self.facts.refuted(_in_order(sets[:count]), self.period, nodes):
                    return count - 1
        return len(sets)


def _in_order(sets: Iterable[int]) -> tuple[int, ...]:
    """The sets in the order of their first layers."""
    return tuple(sorted(sets, key=lambda members: members & -members))


def allocation_of(chain: IntegerChain, sets: Iterable[int]) -> tuple[int, ...]:
    """The allocation with one set on each GPU, GPUs numbered by their first layers."""
    gpu = {layer: g for g, members in enumerate(_in_order(sets)) for layer in layers_of(members)}
    return tuple(gpu[layer] for layer in range(chain.layers))
