"""What makespan and span of given micro-batches cannot fall below, without any solver. Each function has its argument.

All numbers are whole steps, and starts are those of a schedule in which each block runs its micro-batches in order.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product

from ...instances.schedule.problem import ScheduleProblem
from .finite_problem import SPAN, FiniteProblem, finite_problem

# The most blocks, and the most runs times devices, for which bounds of idle times are worth their time.
MOST_BLOCKS, MOST_RUNS = 300, 300_000
# The most ways to choose what runs before a block; where there are more, no gap between sums is known.
MOST_SUMS = 20_000


def lower_bound_of(problem: ScheduleProblem, objective: str) -> Fraction:
    """The best of all bounds, in the problem's time unit."""
    finite = finite_problem(problem, "A bound on given micro-batches")
    return Fraction(lower_bound(finite, objective)) / finite.steps


def lower_bound(finite: FiniteProblem, objective: str) -> int:
    """A lower bound on makespan or span, in steps. A schedule read backwards obeys its reversed edges, and has the same
    span on every device; so what holds of the warm-up in reversed time holds as well."""
    work = work_bound(finite, objective)
    if objective != SPAN:
        return max(work, path_bound(finite))
    runs = len(finite.times) * finite.batches * len(finite.on_device)
    if len(finite.times) > MOST_BLOCKS or runs > MOST_RUNS:
        return work
    best = max(work, idle_bound(finite))
    return max(warm_up_bound(finite, best), warm_up_bound(finite.backwards, best))


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
    first = only_first(finite, blocks)
    waits = {}
    for b in blocks if first is not None else ():
        counts = counts_before(finite, d, b) if b != first else []
        if first is not None and counts:
            most = max(work_of(finite, d, chosen) for chosen in counts)
            ended = tuple(map(max, zip(*counts, strict=True)))
            waits[b] = Wait(max(0, finite.distances(first)[b] - most), ended)
    return waits


# How all devices together get under way: they cannot all be busy until work comes back.


@dataclass(frozen=True, slots=True)
class Arrival:
    """The first run of a block, as its device sees it."""

    device: int
    block: int
    sums: tuple[int, ...]
    """The work that the device may have done before, rising; (): nothing is known of it."""


def warm_up_bound(finite: FiniteProblem, least: int) -> int:
    """A lower bound on the span, which is at least `least`.

    Let T be a span. A device idles at most T minus its work between its first start and its last end. Count time from
    the device's first start, which is that of the one block that all others on it follow. When some block of the
    device runs for the first time, the device has done whole runs of such blocks as need not follow that one, as many
    as its memory holds at once, and idled otherwise: the time is such a sum plus at most the idle time. Between these
    sums there may be gaps, and a first run that cannot come before a time in a gap comes at the next sum.

    First runs of different devices bind each other. From the first start of device d to that of device e a path takes
    A, and from a block j of e to a block i of d another one takes B: then i comes on d no earlier than A + B after j
    on e. So delays add up along the devices, and the last ones of them may be more than any device can idle. If so, no
    schedule has a span of T or less. All these times are whole steps, and gaps close only at whole T; whether they do
    is monotone in T, so that the least T which passes is found by halving.
    """
    firsts = [only_first(finite, blocks) for blocks in finite.on_device]
    arrivals = [
        Arrival(d, block, tuple(sorted({work_of(finite, d, counts) for counts in counts_before(finite, d, block)})))
        for d, first in enumerate(firsts)
        if first is not None
        for block in finite.on_device[d]
        if block != first
    ]
    place = {b: i for i, b in enumerate(finite.order)}
    arrivals.sort(key=lambda arrival: place[arrival.block])
    delays = _delays(finite, firsts, arrivals)

    def passes(span: int) -> bool:
        times: list[int] = []
        for arrival, before in zip(arrivals, delays, strict=True):
            time = max((times[j] + delay if j >= 0 else delay for j, delay in before), default=0)
            idle = span - finite.batches * finite.loads[arrival.device]
            later = _next(arrival.sums, time, idle)
            if later is None:
                return False
            times.append(later)
        return True

    if passes(least):
        return least
    low, step = least, 1
    while not passes(low + step):
        low, step = low + step, 2 * step
    high = low + step
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if passes(middle) else (middle, high)
    return high


def only_first(finite: FiniteProblem, blocks: tuple[int, ...]) -> int | None:
    """The block of the device that all others on it follow."""
    return next((a for a in blocks if finite.distances(a).keys() >= set(blocks)), None)


def work_of(finite: FiniteProblem, d: int, counts: Sequence[int]) -> int:
    """Total time of the runs of a device, given the number of runs of each of its blocks."""
    return sum(count * finite.times[b] for count, b in zip(counts, finite.on_device[d], strict=True))


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


def _next(sums: tuple[int, ...], time: int, idle: int) -> int | None:
    """The first time from `time` on that is one of the sums plus at most `idle`; None: there is none."""
    if not sums:
        return time
    at = bisect_right(sums, time) - 1
    if at >= 0 and time <= sums[at] + idle:
        return time
    return sums[at + 1] if at + 1 < len(sums) else None


def _delays(
    finite: FiniteProblem, firsts: list[int | None], arrivals: list[Arrival]
) -> list[list[tuple[int, int]]]:
    """For each arrival, the earlier ones that bind it (-1: the device's first start), and by how much it is later."""
    from_first = [{} if first is None else finite.distances(first) for first in firsts]
    paths = {arrival.block: finite.distances(arrival.block) for arrival in arrivals}
    delays = []
    for number, arrival in enumerate(arrivals):
        start = from_first[arrival.device]
        before = [(-1, start[arrival.block])]
        for other in range(number):
            earlier = arrivals[other]
            first, path = firsts[earlier.device], paths[earlier.block].get(arrival.block)
            if path is not None and first in start:
                before.append((other, start[first] + path))
        delays.append(before)
    return delays
