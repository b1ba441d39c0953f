"""One list schedule, made run by run: among the runs that may start within memory, a rule says which comes first.

After each decision it must still be possible to end all micro-batches one after the other (`Safety`), so a rule never
ends where devices wait for each other's memory.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from ...instances.schedule.plan import SchedulePlan
from ...instances.schedule.problem import ScheduleProblem
from .alone import Safety, order_alone
from .whole import WholeProblem, in_whole_numbers

# In steps, by block and micro-batch.
Starts = list[list[int]]
# Rank of a block and a micro-batch: the smallest goes first.
Rank = Callable[[int, int], tuple[float, ...]]


@dataclass(frozen=True, slots=True)
class Rule:
    """How one list schedule is made."""

    rank: Rank
    patience: Fraction
    """How long a device may idle for a better block, as a share of the time until another block could have ended there:
    0 never waits, 1 yields schedules in which no block could move ahead alone."""
    in_flight: int | None = None
    """Micro-batches that may have begun and not ended; None: as many as the memory allows."""
    between: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    """For a block another one, and how many micro-batches may have begun the former and not the latter."""
    hasty: frozenset[int] = frozenset()
    """Devices that never wait."""


def why_none(problem: ScheduleProblem) -> str:
    """A sentence on why there is no list schedule."""
    whole = in_whole_numbers(problem)
    alone = order_alone(whole)
    if alone is False:
        return "not even one micro-batch alone fits the memory, in any order of its blocks"
    if alone is True:
        return "no order was found in which one micro-batch alone fits the memory"
    if problem.micro_batches is not None and not Safety(whole, alone, problem.micro_batches).holds():
        return "what the micro-batches leave behind does not fit the memory"
    return "the referee accepted none of the schedules"


def as_plan(whole: WholeProblem, starts: Sequence[Sequence[int]]) -> SchedulePlan:
    return SchedulePlan(
        {
            block.id: tuple(Fraction(start, whole.steps) for start in row)
            for block, row in zip(whole.problem.blocks, starts, strict=True)
        }
    )


def rules(whole: WholeProblem) -> Iterator[Rule]:
    """Orders of blocks, each with several degrees of patience, and then with fewer micro-batches in flight."""
    count = range(len(whole.times))
    last = [not any(not offset for _, offset, _ in whole.after[b]) for b in count]
    gives = [any(change < 0 for *_, change in whole.uses[b]) for b in count]
    heads, tails, load = whole.heads, whole.tails, max(whole.load, 1)
    ranks: tuple[Rank, ...] = (
        # Older micro-batches first, and among them what the longest path hangs on; ends that nobody waits for fill in.
        lambda b, n: (last[b], n, -tails[b]),
        # What comes late in a micro-batch first, so that backward passes go before forward passes.
        lambda b, n: (last[b], -heads[b], n),
        # By the time at which it would run if a micro-batch came in each time that the busiest device is done with one.
        lambda b, n: (n * load + heads[b], b),
        # What gives memory back first.
        lambda b, n: (last[b], not gives[b], n, -tails[b]),
        # The longest path to the end of all micro-batches.
        lambda b, n: (n * load - tails[b], b),
    )
    for in_flight in (None, *_counts(whole)):
        for patience in (Fraction(1), Fraction(0), Fraction(1, 2)):
            for rank in ranks:
                yield Rule(rank, patience, in_flight)


def _counts(whole: WholeProblem) -> Iterator[int]:
    """Micro-batches in flight that keep the busiest device at work, and about so many."""
    enough = -(-max(whole.tails) // max(whole.load, 1))
    tried = {enough, enough + 1, max(1, enough - 1), enough + 2, 2 * enough}
    yield from sorted(n for n in tried if n < (whole.problem.micro_batches or 1))


def listed(whole: WholeProblem, rule: Rule, alone: tuple[int, ...], batches: int) -> Starts | None:
    """The schedule that a rule makes; each block runs its micro-batches in order. None: not all of them fit."""
    safety = Safety(whole, alone, batches)
    return _Listing(whole, rule, safety, batches).run() if safety.holds() else None


class _Listing:
    """Candidates are the next micro-batch of each block. Of those that may start, the one that could end first says how
    long a device may wait: whoever shares a device with it and can start until then may come before it."""

    def __init__(self, whole: WholeProblem, rule: Rule, safety: Safety, batches: int) -> None:
        self.whole, self.rule, self.safety, self.batches = whole, rule, safety, batches
        count = len(whole.times)
        self.starts: Starts = [[] for _ in range(count)]
        self.free = [0] * len(whole.room)
        self.at_once: list[tuple[int, tuple[int, int, int]]] = [(-1, (0, 0, 0))] * len(whole.room)
        """When a device last ran a block without time, and which: at one instant they follow an order of their own."""
        self.on_device = whole.problem.on_device
        self.possible: list[tuple[int, tuple[float, ...]] | None] = [None] * count
        """Start and rank of each block's next run, where it may start."""
        self.version = [0] * count
        self.queue: list[tuple[int, int, tuple[float, ...], int, int]] = []
        self.left = [count] * batches
        self.ended = 0
        """Micro-batches that are done; those in flight come after them."""

    def run(self) -> Starts | None:
        for b in range(len(self.starts)):
            self._look_at(b)
        left = len(self.starts) * self.batches
        while left:
            chosen = self._choose()
            if chosen is None:
                return None
            self._start(chosen)
            left -= 1
        return self.starts

    def _look_at(self, b: int) -> None:
        """Find out anew when the next run of the block may start, if it may."""
        self.version[b] += 1
        self.possible[b] = None
        n, whole = len(self.starts[b]), self.whole
        if n == self.batches or (self.rule.in_flight is not None and n >= self.ended + self.rule.in_flight):
            return
        other, most = self.rule.between.get(b, (b, 1))
        if n - len(self.starts[other]) >= most:
            return
        at = 0
        for i, offset, lag in whole.before[b]:
            if offset <= n:
                row = self.starts[i]
                if len(row) <= n - offset:
                    return
                at = max(at, row[n - offset] + whole.times[i] + lag)
        if not self.safety.allows(b, n):
            return
        for d in whole.devices[b]:
            at = max(at, self.free[d])
        if not whole.times[b]:
            key = (n, *whole.orders[b])
            while any(self.at_once[d][0] == at and key < self.at_once[d][1] for d in whole.devices[b]):
                at += 1
        rank = self.rule.rank(b, n)
        self.possible[b] = at, rank
        heapq.heappush(self.queue, (at + whole.times[b], at, rank, b, self.version[b]))

    def _choose(self) -> int | None:
        whole = self.whole
        while self.queue and self.queue[0][-1] != self.version[self.queue[0][-2]]:
            heapq.heappop(self.queue)
        if not self.queue:
            return None
        end, at, rank, b, _ = self.queue[0]
        until = at if self.rule.hasty.intersection(whole.devices[b]) else at + (end - at) * self.rule.patience
        best = (rank, at, b)
        for d in whole.devices[b]:
            for other in self.on_device[d]:
                run = self.possible[other]
                if run is not None and (run[0] < until or run[0] <= at):
                    best = min(best, (run[1], run[0], other))
        return best[-1]

    def _start(self, b: int) -> None:
        chosen = self.possible[b]
        assert chosen is not None, "it was chosen among those that may start"
        at, n, whole = chosen[0], len(self.starts[b]), self.whole
        self.starts[b].append(at)
        self.safety.run(b, n)
        for d in whole.devices[b]:
            self.free[d] = max(self.free[d], at + whole.times[b])
            if not whole.times[b]:
                self.at_once[d] = (at, (n, *whole.orders[b]))
        touched = {b, *(j for j, _, _ in whole.after[b])}
        for d in whole.devices[b]:
            touched.update(self.on_device[d])
        self.left[n] -= 1
        ended = self.ended
        while self.ended < self.batches and not self.left[self.ended]:
            self.ended += 1
        if ended < self.ended and self.rule.in_flight is not None:
            touched.update(range(len(self.starts)))
        for other in touched:
            self._look_at(other)


def cost(whole: WholeProblem, starts: Starts, objective: str) -> int:
    """Makespan or span, in steps."""
    rows = [row for row in whole.problem.on_device if row]
    first = [min(starts[b][0] for b in row) for row in rows]
    last = [max(starts[b][-1] + whole.times[b] for b in row) for row in rows]
    if objective == "span":
        return max(end - start for start, end in zip(first, last, strict=True))
    return max(last) - min(first)


def mirrored(whole: WholeProblem, starts: Starts) -> Starts:
    """The schedule as time runs backwards, from its last end."""
    end = max(row[-1] + time for row, time in zip(starts, whole.times, strict=True))
    return [[end - start - time for start in reversed(row)] for row, time in zip(starts, whole.times, strict=True)]


def late(whole: WholeProblem, starts: Starts) -> Starts:
    """The schedule with the same order and last end on every device, and everything else as late as it may be.

    What a device holds depends on its order alone, so memory does not change; but a device that began before it had to
    begins later, and its span is shorter.
    """
    batches = len(starts[0])
    runs = sorted(
        (
            (starts[b][n], whole.times[b] > 0, n, *whole.orders[b])
            for b in range(len(starts))
            for n in range(batches)
        ),
        reverse=True,
    )
    ends = [
        max((starts[b][n] + whole.times[b] for b in row for n in range(batches)), default=0)
        for row in whole.problem.on_device
    ]
    moved: Starts = [[0] * batches for _ in starts]
    for *_, n, _, b in runs:
        due = min(ends[d] for d in whole.devices[b])
        for j, offset, lag in whole.after[b]:
            if n + offset < batches:
                due = min(due, moved[j][n + offset] - lag)
        moved[b][n] = due - whole.times[b]
        for d in whole.devices[b]:
            ends[d] = moved[b][n]
    return moved
