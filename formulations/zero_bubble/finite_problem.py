"""A schedule problem of given micro-batches in whole numbers, and what its edges and memory alone say: orders, windows,
and what makespan and span cannot fall below, without any solver. Each bound has its argument.

Micro-batches are alike, so each block may be taken to run them in order: see `in_order` in `finite_orders.py`. Numbers
are whole steps, and starts are those of such a schedule.
"""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import product

from ...instances.base.amounts import as_written
from ...instances.base.errors import UsageError
from ...instances.base.graph import adjacency, topological_order
from ...instances.schedule.problem import ScheduleProblem, whole_times
from ..contract import check_type

SPAN = "span"

# A block and a micro-batch.
Node = tuple[int, int]

# The most steps of the longest schedule on a grid for integer solvers; finer times are rounded down to whole steps.
MOST_STEPS = 10**12

# Rounds in which windows are narrowed; each round is valid by itself.
MOST_ROUNDS = 50


@dataclass(frozen=True, slots=True)
class Arc:
    """`target` of micro-batch n + `offset` starts no earlier than `wait` after `source` of micro-batch n starts."""

    source: int
    target: int
    wait: int
    offset: int


@dataclass(frozen=True)
class FiniteProblem:
    """Times are whole numbers of steps; memory is in whole numbers of a unit of its own on each device."""

    problem: ScheduleProblem
    steps: Fraction
    """Steps in one time unit."""
    batches: int
    times: tuple[int, ...]
    arcs: tuple[Arc, ...]
    exact: bool = True
    """Are these the problem's own times? If not, they are rounded down, and no schedule is longer than in truth."""
    reversed: bool = False
    """Does time run backwards, so that blocks take what they give back, and the other way round?"""

    @cached_property
    def backwards(self) -> FiniteProblem:
        """The problem in reversed time: see `_waits`."""
        times = self.times
        arcs = tuple(
            Arc(arc.target, arc.source, arc.wait - times[arc.source] + times[arc.target], arc.offset)
            for arc in self.arcs
        )
        return replace(self, arcs=arcs, reversed=not self.reversed)

    @cached_property
    def order(self) -> tuple[int, ...]:
        """Positions of the blocks in an order in which every arc without offset leads forward."""
        return self.problem.order[::-1] if self.reversed else self.problem.order

    @cached_property
    def on_device(self) -> tuple[tuple[int, ...], ...]:
        """Blocks of each device that has any."""
        return tuple(blocks for blocks in self.problem.on_device if blocks)

    @cached_property
    def loads(self) -> tuple[int, ...]:
        """Work of one micro-batch, of the devices that have any blocks."""
        return tuple(sum(self.times[b] for b in blocks) for blocks in self.on_device)

    @cached_property
    def memories(self) -> tuple[DeviceMemory, ...]:
        """Memory of the devices that have any blocks."""
        memories = (device_memory(self.problem, d) for d, blocks in enumerate(self.problem.on_device) if blocks)
        return tuple(memory.backwards(self.batches) if self.reversed else memory for memory in memories)

    @cached_property
    def within_batch(self) -> tuple[tuple[Arc, ...], ...]:
        """Arcs without offset, by their sources."""
        return self._by_source(0)

    @cached_property
    def leaving(self) -> tuple[tuple[Arc, ...], ...]:
        """All arcs, by their sources."""
        return self._by_source(math.inf)

    def _by_source(self, most_offset: float) -> tuple[tuple[Arc, ...], ...]:
        arcs_of: list[list[Arc]] = [[] for _ in self.times]
        for arc in self.arcs:
            if arc.offset <= most_offset:
                arcs_of[arc.source].append(arc)
        return tuple(map(tuple, arcs_of))

    @cached_property
    def longest(self) -> int:
        """An upper bound on any schedule in which every block starts as soon as its order lets it."""
        lag = sum(arc.wait - self.times[arc.source] for arc in self.arcs)
        return self.batches * (sum(self.times) + lag)

    @cached_property
    def source(self) -> int | None:
        """The block that all others of its micro-batch follow; None: there is none."""
        waited_for = {arc.target for arc in self.arcs if not arc.offset}
        free = [b for b in range(len(self.times)) if b not in waited_for]
        return free[0] if len(free) == 1 else None

    @cached_property
    def _distances(self) -> dict[int, dict[int, int]]:
        return {}

    def distances(self, block: int) -> dict[int, int]:
        """The longest path from the block's start to that of each block that follows in the same micro-batch."""
        if block not in self._distances:
            distances = {block: 0}
            for b in self.order:
                if b in distances:
                    for arc in self.within_batch[b]:
                        distances[arc.target] = max(distances.get(arc.target, 0), distances[b] + arc.wait)
            self._distances[block] = distances
        return self._distances[block]

    @cached_property
    def heads(self) -> tuple[int, ...]:
        """Longest path to the start of each block within a micro-batch."""
        heads = [0] * len(self.times)
        for b in self.order:
            for arc in self.within_batch[b]:
                heads[arc.target] = max(heads[arc.target], heads[b] + arc.wait)
        return tuple(heads)

    @cached_property
    def tails(self) -> tuple[int, ...]:
        """Longest path from the end of each block to the end of all that follows within its micro-batch."""
        return self.backwards.heads

    @cached_property
    def _offsets(self) -> dict[int, dict[int, int]]:
        return {}

    def offsets_from(self, block: int) -> dict[int, int]:
        """By which offset each block follows at least: k of micro-batch n waits for `block` of micro-batch n - offset,
        and for all before, since every block runs its micro-batches in order."""
        if block not in self._offsets:
            offsets: dict[int, int] = {}
            queue = [(0, block)]
            while queue:
                offset, b = heapq.heappop(queue)
                if b not in offsets:
                    offsets[b] = offset
                    for arc in self.leaving[b]:
                        if arc.target not in offsets:
                            heapq.heappush(queue, (offset + arc.offset, arc.target))
            self._offsets[block] = offsets
        return self._offsets[block]

    def comes_before(self, first: Node, second: Node) -> bool | None:
        """Must the first run come before the second (True) or after it (False), by edges alone? None: that is open.

        Asked of two different runs of one device.
        """
        (i, n), (k, u) = first, second
        if i == k:
            return n < u
        after = self.offsets_from(i).get(k)
        if after is not None and n <= u - after:
            return True
        before = self.offsets_from(k).get(i)
        if before is not None and u <= n - before:
            return False
        return None

    @cached_property
    def forward(self) -> tuple[tuple[int, int, tuple[tuple[int, int, int], ...]], ...]:
        """(block, micro-batch, what waits for it) in an order in which every arc leads forward."""
        m = self.batches
        leaving = [
            (*((arc.target, arc.wait, arc.offset) for arc in arcs), (b, self.times[b], 1))
            for b, arcs in enumerate(self.leaving)
        ]
        waits = (
            (b * m + n, target * m + n + offset)
            for b, arcs in enumerate(leaving)
            for target, _, offset in arcs
            for n in range(m - offset)
        )
        order = topological_order(adjacency(len(self.times) * m, waits))
        assert order is not None, "every offset leads to a later micro-batch"
        return tuple((number // m, number % m, leaving[number // m]) for number in order)

    def windows(self, limit: int, objective: str) -> Windows | None:
        """Earliest and latest starts of all runs in any schedule of at most that value; None: there is no such
        schedule.

        From start to end of a micro-batch by the longest paths. For `span`, a device's last end and its first start
        are at most `limit` apart, whichever blocks they are, and that is applied in turn with the paths.
        """
        span = objective == SPAN
        far = len(self.on_device) * (limit + self.longest) if span else limit
        m = self.batches
        early = [[0] * m for _ in self.times]
        late = [[far - time] * m for time in self.times]
        if span and self.source is not None:
            late[self.source][0] = 0  # everything follows from it, so it is the first to start
        for _ in range(MOST_ROUNDS):
            before = [list(map(tuple, early)), list(map(tuple, late))]
            self._follow_paths(early, late)
            if any(early[b][n] > late[b][n] for b in range(len(self.times)) for n in range(m)):
                return None
            if not span:
                break
            self._keep_spans(early, late, limit)
            if [list(map(tuple, early)), list(map(tuple, late))] == before:
                break
        return Windows(tuple(map(tuple, early)), tuple(map(tuple, late)))

    def _follow_paths(self, early: list[list[int]], late: list[list[int]]) -> None:
        m = self.batches
        for b, n, following in self.forward:
            for target, wait, offset in following:
                if n + offset < m:
                    early[target][n + offset] = max(early[target][n + offset], early[b][n] + wait)
        for b, n, following in reversed(self.forward):
            for target, wait, offset in following:
                if n + offset < m:
                    late[b][n] = min(late[b][n], late[target][n + offset] - wait)

    def _keep_spans(self, early: list[list[int]], late: list[list[int]], limit: int) -> None:
        """Narrow windows so that no device runs longer than `limit` from its first start to its last end."""
        last = self.batches - 1
        for blocks in self.on_device:
            end = min(late[a][0] for a in blocks) + limit
            start = max(early[b][last] + self.times[b] for b in blocks) - limit
            for b in blocks:
                for n in range(self.batches):
                    late[b][n] = min(late[b][n], end - self.times[b])
                early[b][0] = max(early[b][0], start)

    def earliest(self) -> list[list[int]]:
        """The earliest starts that the edges alone allow."""
        early = [[0] * self.batches for _ in self.times]
        self._follow_paths(early, [[0] * self.batches for _ in self.times])
        return early


@dataclass(frozen=True, slots=True)
class Windows:
    """The earliest and the latest start of every block, by micro-batch."""

    early: tuple[tuple[int, ...], ...]
    late: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class DeviceMemory:
    """What the blocks of a device do to its memory, by block; only where they do anything."""

    room: int | None
    """Memory beside what stands there all the time; None: there is no limit."""
    standing: int
    """Memory that is taken all the time: blocks may give back up to this much before they have taken any."""
    changes: dict[int, int]
    workspace: dict[int, int]

    def backwards(self, batches: int) -> DeviceMemory:
        """The memory in reversed time, which begins with what is left at the end."""
        left = batches * sum(self.changes.values())
        return DeviceMemory(
            None if self.room is None else self.room - left,
            self.standing + left,
            {b: -change for b, change in self.changes.items()},
            self.workspace,
        )

    def needed(self, block: int) -> int:
        """Memory that a run of the block needs while it runs, beyond what is there before it."""
        return max(self.changes.get(block, 0), 0) + self.workspace.get(block, 0)


def device_memory(problem: ScheduleProblem, d: int) -> DeviceMemory:
    """The memory of a device in whole numbers of its own unit."""
    device = problem.devices[d]
    changes, workspace = {}, {}
    for b in problem.on_device[d]:
        block = problem.blocks[b]
        if change := as_written(block.memory.get(device.name, 0)):
            changes[b] = change
        if amount := as_written(block.workspace.get(device.name, 0)):
            workspace[b] = amount
    standing = as_written(device.standing)
    limit = None if device.memory is None else as_written(device.memory)
    amounts = [standing, *changes.values(), *workspace.values(), *([] if limit is None else [limit])]
    unit = math.lcm(*(amount.denominator for amount in amounts))
    return DeviceMemory(
        None if limit is None else int((limit - standing) * unit),
        int(standing * unit),
        {b: int(change * unit) for b, change in changes.items()},
        {b: int(amount * unit) for b, amount in workspace.items()},
    )


def finite_problem(problem: ScheduleProblem, method: str) -> FiniteProblem:
    """The problem in whole steps, on the grid of its own times."""
    check_type(method, problem, ScheduleProblem)
    if problem.micro_batches is None:
        raise UsageError(
            f"{method} plans given micro-batches, and the problem has none: give --batch, "
            "or choose cp-periodic for the steady state."
        )
    steps, times, lags = whole_times(problem)
    arcs = tuple(
        Arc(i, j, times[i] + lag, edge.offset)
        for (i, j), lag, edge in zip(problem.ends, lags, problem.edges, strict=True)
    )
    return FiniteProblem(problem, Fraction(steps), problem.micro_batches, times, arcs)


def for_integers(finite: FiniteProblem) -> FiniteProblem:
    """The problem on a grid for integer solvers: the same one, or a coarser one with times and lags rounded down.

    Rounded down, waits are shorter, and every schedule's orders are still possible at no greater value. So what is
    proven there holds for the true times.
    """
    if finite.longest <= MOST_STEPS:
        return finite
    share = Fraction(MOST_STEPS, finite.longest)
    arcs = tuple(
        replace(
            arc, wait=int(finite.times[arc.source] * share) + int((arc.wait - finite.times[arc.source]) * share)
        )
        for arc in finite.arcs
    )
    times = tuple(int(time * share) for time in finite.times)
    return replace(finite, steps=finite.steps * share, times=times, arcs=arcs, exact=False)


# The most blocks, and the most runs times devices, for which bounds of idle times are worth their time.
MOST_BLOCKS, MOST_RUNS = 300, 300_000
# The most ways to choose what runs before a block; where there are more, no wait for it is known.
MOST_SUMS = 20_000


def lower_bound_of(problem: ScheduleProblem, objective: str) -> Fraction:
    """The best of all bounds, in the problem's time unit."""
    finite = finite_problem(problem, "A bound on given micro-batches")
    return Fraction(lower_bound(finite, objective)) / finite.steps


def lower_bound(finite: FiniteProblem, objective: str) -> int:
    """A lower bound on makespan or span, in steps."""
    work = work_bound(finite, objective)
    if objective != SPAN:
        return max(work, path_bound(finite))
    runs = len(finite.times) * finite.batches * len(finite.on_device)
    if len(finite.times) > MOST_BLOCKS or runs > MOST_RUNS:
        return work
    return max(work, idle_bound(finite))


def work_bound(finite: FiniteProblem, objective: str) -> int:
    """A device runs one block at a time, so its span is at least its work. Nothing of it starts before the shortest of
    the paths that lead to its blocks, and when it has ended, the shortest of the paths from its blocks is still to
    come: head + work + tail <= makespan."""
    bounds = []
    for blocks, load in zip(finite.on_device, finite.loads, strict=True):
        around = (
            0 if objective == SPAN else min(finite.heads[b] for b in blocks) + min(finite.tails[b] for b in blocks)
        )
        bounds.append(around + finite.batches * load)
    return max(bounds)


def path_bound(finite: FiniteProblem) -> int:
    """No makespan is shorter than the longest path through all micro-batches: each block waits for the blocks before
    it, and for its own run of the micro-batch before."""
    starts = finite.earliest()
    return max(row[-1] + time for row, time in zip(starts, finite.times, strict=True))


# A bound on the span from how long a device idles while the pipeline fills, and again while it drains.


@dataclass(frozen=True, slots=True)
class Wait:
    """How a device waits between its first start and the first run of one of its blocks."""

    idle: int
    """Lower bound on the idle time."""
    ended: tuple[int, ...]
    """Runs of each block of the device that may have ended then, at most."""


def idle_bound(finite: FiniteProblem) -> int:
    """Work, and idle time at both ends of it, fit into no shorter span.

    A path leads from the device's first start to the first run of block b, say from the first forward pass through all
    later stages to the first gradient. Whatever the device runs meanwhile it must have memory for, so that it idles for
    the rest of that time. The same is true in reversed time, from the last run of block c to the device's last end:
    what is left to do then is what the memory held. Where not all runs of c can have ended before b runs for the
    first time, the two waits do not overlap, and the device's span is at least its work and both idle times.
    """
    best = 0
    for d, blocks in enumerate(finite.on_device):
        filling, draining = _waits(finite, d), _waits(finite.backwards, d)
        idle = max((wait.idle for wait in (*filling.values(), *draining.values())), default=0)
        for wait in filling.values():
            for c, rest in draining.items():
                if wait.ended[blocks.index(c)] < finite.batches:
                    idle = max(idle, wait.idle + rest.idle)
        best = max(best, finite.batches * finite.loads[d] + idle)
    return best


def _waits(finite: FiniteProblem, d: int) -> dict[int, Wait]:
    """The wait before each block's first run, where anything is known of it."""
    blocks = finite.on_device[d]
    # The block of the device that all others on it follow.
    first = next((a for a in blocks if finite.distances(a).keys() >= set(blocks)), None)
    waits = {}
    for b in blocks if first is not None else ():
        counts = counts_before(finite, d, b) if b != first else []
        if first is not None and counts:
            most = max(sum(n * finite.times[k] for n, k in zip(row, blocks, strict=True)) for row in counts)
            ended = tuple(map(max, zip(*counts, strict=True)))
            waits[b] = Wait(max(0, finite.distances(first)[b] - most), ended)
    return waits


def counts_before(finite: FiniteProblem, d: int, block: int) -> list[tuple[int, ...]]:
    """Numbers of runs of each block of the device that may have ended when the block runs for the first time; empty:
    there are too many ways, so nothing is known.

    Of each block, a number between those runs that must and those that may come before; no more than of a block that
    comes before it within a micro-batch; and what they have taken and not given back fits the memory.
    """
    memory, blocks = finite.memories[d], finite.on_device[d]
    ranges, ways = [], 1
    for b in blocks:
        before = [n < 0 if b == block else finite.comes_before((b, n), (block, 0)) for n in range(finite.batches)]
        counts = range(sum(k is True for k in before), sum(k is not False for k in before) + 1)
        ranges.append(counts)
        ways *= len(counts)
    if ways > MOST_SUMS:
        return []
    chains = [
        (i, j) for i, a in enumerate(blocks) for j, b in enumerate(blocks) if i != j and b in finite.distances(a)
    ]
    possible = []
    for chosen in product(*ranges):
        if any(chosen[later] > chosen[earlier] for earlier, later in chains):
            continue
        bytes_held = sum(count * memory.changes.get(b, 0) for count, b in zip(chosen, blocks, strict=True))
        if memory.room is None or bytes_held + memory.needed(block) <= memory.room:
            possible.append(chosen)
    return possible
