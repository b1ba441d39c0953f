"""What makespan and span of given micro-batches cannot fall below, without any solver. Each function has its argument.

All numbers are whole steps, and starts are those of a schedule in which each block runs its micro-batches in order.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from ...instances.schedule.problem import ScheduleProblem
from .finite_problem import SPAN, DeviceMemory, FiniteProblem, Node, finite_problem
from .finite_warm_up import MOST_BLOCKS, counts_before, only_first, warm_up_bound, work_of

# The most blocks that may be the first on a device: with more of them its bound is that of its work.
MOST_FIRST = 8

# The most runs times devices for bounds device by device; beyond it, only work and whole paths are counted.
MOST_RUNS_FOR_PATHS = 300_000

# Starts by block and micro-batch; None: the run does not follow.
Starts = list[list[int | None]]

# Release, time, and what remains at least after its end.
Job = tuple[int, int, int]


def lower_bound_of(problem: ScheduleProblem, objective: str) -> Fraction:
    """The best of all bounds, in the problem's time unit."""
    finite = finite_problem(problem, "A bound on given micro-batches")
    return Fraction(lower_bound(finite, objective)) / finite.steps


def lower_bound(finite: FiniteProblem, objective: str) -> int:
    """A lower bound on makespan or span, in steps."""
    simple = max(work_bound(finite, objective), path_bound(finite, objective))
    if len(finite.times) * finite.batches * len(finite.on_device) > MOST_RUNS_FOR_PATHS:
        return simple
    best = max(simple, device_bound(finite, objective))
    if objective != SPAN:
        return max(best, device_bound(reversed_problem(finite), objective))
    best = max(best, idle_bound(finite))
    return max(warm_up_bound(finite, best), warm_up_bound(reversed_problem(finite), best))


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


def path_bound(finite: FiniteProblem, objective: str) -> int:
    """Length of the longest path through all micro-batches: each block waits for the blocks before it, and for its own
    run of the micro-batch before.

    For span only paths count that begin and end on one device: the first micro-batch goes from block a to block b of
    the device, and then b still has all its runs to do.
    """
    if objective != SPAN:
        starts = finite.earliest()
        return max(row[-1] + time for row, time in zip(starts, finite.times, strict=True))
    best = 0
    for blocks in finite.on_device:
        here = set(blocks)
        for a in blocks:
            for b, distance in finite.distances(a).items():
                if b in here:
                    best = max(best, distance + finite.batches * finite.times[b])
    return best


def device_bound(finite: FiniteProblem, objective: str) -> int:
    """One device as a machine of its own: jobs with releases, times, and what remains after each.

    For makespan the releases are earliest starts, and what remains after a run is the longest path from its end. For
    span time is counted from the device's own first start: a run that follows from the first block cannot come before
    the path that leads from there to it, through whatever devices (the first backward pass of a stage waits until its
    first forward pass has been to the last stage and back), and the same in reversed time says what remains after it
    until the device's last end. Memory delays releases as well: see `_wait_for_memory`. A machine that may interrupt
    its jobs is never worse, and the best such schedule always runs the released job with the most remaining after it
    (Jackson): `interrupted`.
    """
    best = 0
    if objective != SPAN:
        starts = _released(finite, finite.earliest())
        remaining = _remaining(finite)
        for blocks in finite.on_device:
            runs = ((b, n) for b in blocks for n in range(finite.batches))
            best = max(best, interrupted((starts[b][n] or 0, finite.times[b], remaining[b][n]) for b, n in runs))
        return best
    backwards = reversed_problem(finite)
    for d, blocks in enumerate(finite.on_device):
        releases, rest = (_since_first_start(way, d) for way in (finite, backwards))
        jobs = ((releases[b][n], finite.times[b], rest[b][-1 - n]) for b in blocks for n in range(finite.batches))
        best = max(best, interrupted(jobs))
    return best


def _since_first_start(finite: FiniteProblem, d: int) -> dict[int, list[int]]:
    """Earliest starts of all runs of a device, from its own first start on, whichever block that is of."""
    blocks, memory = finite.on_device[d], finite.memories[d]
    firsts = first_blocks(finite, blocks)
    if len(firsts) > MOST_FIRST:
        return {b: [0] * finite.batches for b in blocks}
    rows = [_released(finite, _after(finite, a), memory_of=(blocks, memory)) for a in firsts]
    return {b: [min(row[b][n] or 0 for row in rows) for n in range(finite.batches)] for b in blocks}


def first_blocks(finite: FiniteProblem, blocks: Iterable[int]) -> list[int]:
    """The blocks that follow no other block of the device in their micro-batch: one of them is the first that it
    runs."""
    here = set(blocks)
    after: set[int] = set()
    for b in here:
        after |= (finite.distances(b).keys() & here) - {b}
    return sorted(here - after)


def _after(finite: FiniteProblem, block: int) -> Starts:
    """Earliest starts of all that follows from the block's first run, which starts at 0."""
    starts: Starts = [[None] * finite.batches for _ in finite.times]
    starts[block][0] = 0
    _follow(finite, starts)
    return starts


def _follow(finite: FiniteProblem, starts: Starts) -> None:
    """Raise starts, in place, to the earliest ones that edges from the runs that have a start allow."""
    for b, n, following in finite.forward:
        start = starts[b][n]
        if start is None:
            continue
        for target, wait, offset in following:
            if n + offset < finite.batches:
                before = starts[target][n + offset]
                if before is None or before < start + wait:
                    starts[target][n + offset] = start + wait


def _released(
    finite: FiniteProblem,
    starts: Sequence[Sequence[int | None]],
    memory_of: tuple[Sequence[int], DeviceMemory] | None = None,
) -> Starts:
    """Earliest starts, with the memory of all devices, or of one, in account."""
    releases: Starts = [list(row) for row in starts]
    devices = [memory_of] if memory_of else list(zip(finite.on_device, finite.memories, strict=True))
    for blocks, memory in devices:
        if memory.room is not None:
            for b in blocks:
                if memory.changes.get(b, 0) > 0:
                    for n in range(finite.batches):
                        _wait_for_memory(finite, releases, blocks, memory, (b, n))
                        _pass_on(finite, releases, b, n)
    return releases


def _pass_on(finite: FiniteProblem, starts: Starts, b: int, n: int) -> None:
    """Hand a start on to later runs of the block and, on the longest paths, to blocks that wait for it."""
    start = starts[b][n]
    if start is None:
        return
    for k, distance in finite.distances(b).items():
        for u in range(n, finite.batches):
            before = starts[k][u]
            later = start + distance + (u - n) * max(finite.times[b], finite.times[k])
            if before is None or before < later:
                starts[k][u] = later
            else:
                break


def _wait_for_memory(
    finite: FiniteProblem, starts: Starts, blocks: Sequence[int], memory: DeviceMemory, run: Node
) -> None:
    """A run that takes waits until enough was given back.

    Before it come, by the edges, certain runs that take. What they and it need beyond the room must have been given
    back by runs of this device that do not follow from it. Each of these gives back at its end, which is not before its
    earliest start and its time; so the earliest ones that suffice have to have ended.
    """
    assert memory.room is not None
    needed, gives = memory.needed(run[0]) - memory.room, []
    for i, change in memory.changes.items():
        for n in range(finite.batches):
            precedes = None if (i, n) == run else finite.comes_before((i, n), run)
            if change > 0 and precedes:
                needed += change
            elif change < 0 and precedes is not False and (i, n) != run:
                gives.append(((starts[i][n] or 0) + finite.times[i], -change))
    gives.sort()
    for end, amount in gives:
        if needed <= 0:
            return
        needed -= amount
        if needed <= 0:
            b, n = run
            starts[b][n] = max(starts[b][n] or 0, end)
    if needed > 0:
        return  # no schedule has enough memory: the search for one says so


def _remaining(finite: FiniteProblem) -> list[list[int]]:
    """Time from the end of each run to the end of all that follows it on the longest path."""
    remaining = [[0] * finite.batches for _ in finite.times]
    for b, n, following in reversed(finite.forward):
        for target, wait, offset in following:
            if n + offset < finite.batches:
                after = wait - finite.times[b] + finite.times[target] + remaining[target][n + offset]
                remaining[b][n] = max(remaining[b][n], after)
    return remaining


def interrupted(jobs: Iterable[Job]) -> int:
    """The least time until everything is over, for one machine that may interrupt its jobs."""
    waiting = sorted(job for job in jobs if job[1])
    ready: list[list[int]] = []
    now = end = at = 0
    while ready or at < len(waiting):
        if not ready:
            now = max(now, waiting[at][0])
        while at < len(waiting) and waiting[at][0] <= now:
            heapq.heappush(ready, [-waiting[at][2], waiting[at][1]])
            at += 1
        top = ready[0]
        until = now + top[1] if at == len(waiting) else min(now + top[1], waiting[at][0])
        top[1] -= until - now
        now = until
        if not top[1]:
            end = max(end, now - top[0])
            heapq.heappop(ready)
    return end


def reversed_problem(finite: FiniteProblem) -> FiniteProblem:
    """The problem in reversed time. A schedule read backwards obeys its reversed edges, overlaps nowhere, and has the
    same span on every device; what a block took it gives back now. So a bound of one holds for both."""
    return finite.backwards


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
    if len(finite.times) > MOST_BLOCKS:
        return 0
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
    first = only_first(finite, blocks)
    waits = {}
    for b in blocks if first is not None else ():
        counts = counts_before(finite, d, b) if b != first else []
        if first is not None and counts:
            most = max(work_of(finite, d, chosen) for chosen in counts)
            ended = tuple(map(max, zip(*counts, strict=True)))
            waits[b] = Wait(max(0, finite.distances(first)[b] - most), ended)
    return waits
