"""A bound on the span from how all devices together get under way: they cannot all be busy until work comes back."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

from .finite_problem import FiniteProblem

# The most blocks for which this bound is worth its time.
MOST_BLOCKS = 300
# The most ways to choose what runs before a block; where there are more, no gap between sums is known.
MOST_SUMS = 20_000


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
    if len(finite.times) > MOST_BLOCKS:
        return least
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
