"""One list schedule in whole numbers, made run by run: among the runs that may start within memory, a rule says which
comes first.

After each decision it must still be possible to end all micro-batches one after the other (`Safety`), in the order in
which one passes alone (`order_alone`), so a rule never ends where devices wait for each other's memory. Another rule is
another `Rule`; nothing else here needs to know it.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property

from ...formulations.zero_bubble.finite_problem import device_memory
from ...instances.schedule.plan import SchedulePlan
from ...instances.schedule.problem import ScheduleProblem, whole_times


@dataclass(frozen=True)
class WholeProblem:
    """Times and lags in steps, memory in whole units of each device; blocks and devices by their positions."""

    problem: ScheduleProblem
    steps: int
    """Steps in one time unit, such that all times are whole numbers of steps."""
    times: tuple[int, ...]
    devices: tuple[tuple[int, ...], ...]
    """The devices of each block."""
    before: tuple[tuple[tuple[int, int, int], ...], ...]
    """What each block waits for: (block, offset, lag)."""
    after: tuple[tuple[tuple[int, int, int], ...], ...]
    """What waits for each block: (block, offset, lag)."""
    room: tuple[int | None, ...]
    """Memory of each device above what always stands there; None: no limit."""
    standing: tuple[int, ...]
    """What always stands on each device: the changes on it may go so far below 0."""
    uses: tuple[tuple[tuple[int, int, int], ...], ...]
    """What each block does to devices: (device, what it adds at most while it runs, what it changes), where that is not
    0."""
    backwards: bool = False
    """Does time run backwards?"""

    @cached_property
    def order(self) -> tuple[int, ...]:
        """Positions of blocks such that every edge without offset leads forward."""
        return self.problem.order[::-1] if self.backwards else self.problem.order

    @cached_property
    def orders(self) -> tuple[tuple[int, int], ...]:
        """Keys by which blocks that take no time follow each other at one instant: topological position, then order in
        the file; the micro-batch comes before both."""
        sign = -1 if self.backwards else 1
        return tuple((sign * depth, sign * b) for b, depth in enumerate(self.problem.depths))

    @cached_property
    def gives_first(self) -> tuple[bool, ...]:
        """May a device come to have given back more than it ever held, in some order of a micro-batch's blocks?"""
        least = list(self.standing)
        for rows in self.uses:
            for d, _, change in rows:
                least[d] += min(change, 0)
        return tuple(amount < 0 for amount in least)

    @cached_property
    def tails(self) -> tuple[int, ...]:
        """The longest path from the start of each block to the end of its micro-batch."""
        tails = list(self.times)
        for b in reversed(self.order):
            follow = (lag + tails[j] for j, offset, lag in self.after[b] if not offset)
            tails[b] = self.times[b] + max(follow, default=0)
        return tuple(tails)

    @cached_property
    def heads(self) -> tuple[int, ...]:
        """The longest path to the start of each block within its micro-batch."""
        heads = [0] * len(self.times)
        for b in self.order:
            heads[b] = max((heads[i] + self.times[i] + lag for i, o, lag in self.before[b] if not o), default=0)
        return tuple(heads)

    @cached_property
    def load(self) -> int:
        """Load of the busiest device in one micro-batch."""
        return int(max(self.problem.loads) * self.steps)

    def mirrored(self) -> WholeProblem:
        """The problem as time runs backwards, and micro-batches from the last one on: what was given back is taken.

        Whoever waited is waited for, and a device holds the same between the same two blocks.
        """
        uses = tuple(
            tuple((d, peak - max(change, 0) + max(-change, 0), -change) for d, peak, change in rows)
            for rows in self.uses
        )
        return replace(self, before=self.after, after=self.before, uses=uses, backwards=not self.backwards)


def in_whole_numbers(problem: ScheduleProblem) -> WholeProblem:
    steps, times, lags = whole_times(problem)
    before: list[list[tuple[int, int, int]]] = [[] for _ in problem.blocks]
    after: list[list[tuple[int, int, int]]] = [[] for _ in problem.blocks]
    for (i, j), edge, lag in zip(problem.ends, problem.edges, lags, strict=True):
        before[j].append((i, edge.offset, lag))
        after[i].append((j, edge.offset, lag))
    memories = [device_memory(problem, d) for d in range(len(problem.devices))]
    uses = tuple(
        tuple(
            (d, memory.needed(b), memory.changes.get(b, 0))
            for d, memory in enumerate(memories)
            if b in memory.changes or b in memory.workspace
        )
        for b in range(len(times))
    )
    return WholeProblem(
        problem,
        steps,
        times,
        tuple(tuple(problem.device_index[name] for name in block.devices) for block in problem.blocks),
        tuple(map(tuple, before)),
        tuple(map(tuple, after)),
        tuple(memory.room for memory in memories),
        tuple(memory.standing for memory in memories),
        uses,
    )


# ---- An order in which one micro-batch passes alone within the memory of all devices, and what is safe beside it.

# Sets of blocks that the search for an order looks at; beyond them it gives up.
MOST_STATES = 100_000


def order_alone(whole: WholeProblem) -> tuple[int, ...] | bool:
    """Blocks in an order that one micro-batch can follow when there is no other.

    False: there is none, so that no schedule exists where nothing is given back before it is taken. True: there may be
    one, but it was not found among so many states.

    A block that fits and keeps no memory runs at once: it never harms those that come later. Only among blocks that
    keep memory is there a choice; the smallest comes first, and the search goes back from dead ends.
    """
    count = len(whole.times)
    if all(room is None for room in whole.room) and not any(whole.gives_first):
        return whole.problem.order
    blocking = [sum(1 for _, o, _ in rows if not o) for rows in whole.before]
    memory = [0] * len(whole.room)
    order: list[int] = []
    ready = [b for b in range(count) if not blocking[b]]
    seen: set[int] = set()
    done = 0

    def fits(b: int) -> bool:
        return all(
            (room := whole.room[d]) is None or memory[d] + peak <= room for d, peak, _ in whole.uses[b]
        ) and all(memory[d] + whole.standing[d] + change >= 0 for d, _, change in whole.uses[b])

    def run(b: int, sign: int) -> None:
        nonlocal done
        done ^= 1 << b
        for d, _, change in whole.uses[b]:
            memory[d] += sign * change
        if sign > 0:
            order.append(b)
            ready.remove(b)
        else:
            order.pop()
        for j, offset, _ in whole.after[b]:
            if not offset:
                blocking[j] -= sign
                if sign > 0 and not blocking[j]:
                    ready.append(j)
                elif sign < 0 and blocking[j] == 1:
                    ready.remove(j)
        if sign < 0:
            ready.append(b)

    def choices() -> list[int]:
        able = [b for b in ready if fits(b)]
        free = [b for b in able if all(c <= 0 and not whole.gives_first[d] for d, _, c in whole.uses[b])]
        if free:
            return free[:1]
        return sorted(able, key=lambda b: (sum(change for *_, change in whole.uses[b]), whole.tails[b], b))

    levels: list[Iterator[int]] = [iter(choices())]
    while len(order) < count:
        b = next(levels[-1], None)
        if b is None:
            levels.pop()
            if not levels:
                return False
            run(order[-1], -1)
            continue
        run(b, 1)
        if done in seen:
            run(b, -1)
            continue
        if len(seen) >= MOST_STATES:
            return True
        seen.add(done)
        levels.append(iter(choices()))
    return tuple(order)


@dataclass(frozen=True, slots=True)
class Rest:
    """What the blocks that a micro-batch has still to run on a device do to its memory, in the order that it follows
    alone, relative to what is held before them."""

    change: int
    """After the last of them."""
    most: int
    """The most at any time."""
    least: int
    """The least after any of them; not above 0."""


@dataclass
class Safety:
    """May a block start so that afterwards all micro-batches can still end, one after the other, in their order?

    Each follows the order that one can follow alone, as far as it has not run it yet. Blocks change the memory of their
    own devices alone, so every device is looked at by itself. From such a state there is always a block that may start
    next: the first one that is left, by micro-batch and then by that order. So whoever keeps to safe states never ends
    up with devices that wait for each other's memory.
    """

    whole: WholeProblem
    alone: tuple[int, ...]
    batches: int
    held: list[int] = field(init=False)
    _own: list[list[int]] = field(init=False)
    """The blocks of each device that use memory, in the order that a micro-batch follows alone."""
    _bit: list[dict[int, int]] = field(init=False)
    _left: list[dict[int, int]] = field(init=False)
    """For each device, the blocks that are left of each micro-batch that has begun there, as bits, by micro-batch in
    order."""
    _rests: list[dict[int, Rest]] = field(init=False)
    _begun: list[int] = field(init=False)
    _watched: list[bool] = field(init=False)

    def __post_init__(self) -> None:
        devices = range(len(self.whole.room))
        self.held = [0 for _ in devices]
        self._own = [[b for b in self.alone if any(d == e for e, *_ in self.whole.uses[b])] for d in devices]
        self._bit = [{b: 1 << k for k, b in enumerate(row)} for row in self._own]
        self._left = [{} for _ in devices]
        self._rests = [{} for _ in devices]
        self._begun = [0 for _ in devices]
        self._watched = [self.whole.room[d] is not None or self.whole.gives_first[d] for d in devices]

    def holds(self) -> bool:
        """Is the state before the first block safe? Where a micro-batch leaves memory behind, too many may not fit."""
        return all(self._ends(d, []) for d in range(len(self.held)) if self._watched[d])

    def allows(self, b: int, n: int) -> bool:
        """May the next run of a block start, whose micro-batches run in order?"""
        for d, peak, change in self.whole.uses[b]:
            if not self._watched[d]:
                continue
            room, floor = self.whole.room[d], -self.whole.standing[d]
            memory_after = self.held[d] + change
            if (room is not None and self.held[d] + peak > room) or memory_after < floor:
                return False
            left, bit = self._left[d], self._bit[d][b]
            rests = [self._rest(d, bits & ~bit if k == n else bits) for k, bits in left.items()]
            if n not in left:
                rests.append(self._rest(d, self._all(d) & ~bit))
            if not self._ends(d, rests, memory_after, n not in left):
                return False
        return True

    def _ends(self, d: int, rests: list[Rest], held: int = 0, one_more: bool = False) -> bool:
        """Can the micro-batches that have begun end, and then all others, where the device holds `held` now?"""
        room, floor = self.whole.room[d], -self.whole.standing[d]
        waiting = self.batches - self._begun[d] - one_more
        for rest in rests:
            if (room is not None and held + rest.most > room) or held + rest.least < floor:
                return False
            held += rest.change
        if not waiting:
            return True
        rest = self._rest(d, self._all(d))
        last = held + (waiting - 1) * rest.change
        return (room is None or max(held, last) + rest.most <= room) and min(held, last) + rest.least >= floor

    def _all(self, d: int) -> int:
        return (1 << len(self._own[d])) - 1

    def run(self, b: int, n: int) -> None:
        for d, _, change in self.whole.uses[b]:
            self.held[d] += change
            if not self._watched[d]:
                continue
            left = self._left[d]
            if n not in left:
                self._begun[d] += 1
            left[n] = left.get(n, self._all(d)) & ~self._bit[d][b]
            if not left[n]:
                del left[n]

    def _rest(self, d: int, bits: int) -> Rest:
        rest = self._rests[d].get(bits)
        if rest is None:
            change = most = least = 0
            for b in self._own[d]:
                if bits & self._bit[d][b]:
                    peak, added = next((peak, added) for e, peak, added in self.whole.uses[b] if e == d)
                    most = max(most, change + peak)
                    change += added
                    least = min(least, change)
            rest = self._rests[d][bits] = Rest(change, most, least)
        return rest


# ---- One list schedule, made run by run: among the runs that may start within memory, a rule says which comes first.

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
