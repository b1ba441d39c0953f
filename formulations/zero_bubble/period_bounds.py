"""Lower bounds on the period that need no solver; each bound with its argument.

A fact that all of them use: a period P that is possible makes every longer one possible. Write each start as s + P h
with s in [0, P) and a whole h, and keep s and h as P grows to Q. An edge from a to b asks s_b - s_a + P d >= time + lag
with d = h_b + offset - h_a; since s_b - s_a < P, d is at least 0, so the left side does not fall. Blocks of one device
that follow each other within [0, P) do so still, and from the last to the first of the next period there is more room.
Which events have happened when a block starts is decided by s and h alone, so no device holds more than before.

Blocks that all devices run together: while one runs, nothing else does. Let the clock stand still while they run. Then
they take no time, every other block takes as long as before, and a period P becomes P - T, where T is the time of those
blocks. Nothing is lost on either way:
- What started after another block's end still does, in the same order; no block that all devices run was inside
  another one, so that none is strictly inside one where it takes no time.
- Back again, at each instant those blocks run one after the other: the earlier micro-batch first, and of one
  micro-batch in the order of the graph. So each comes after those that it waits for, and before what starts then.
Bounds are better for it, since waiting costs memory only while the clock goes, and models are smaller. Blocks that
change or use memory keep their time: a fixed order at one instant may not fit them. Two things would break the
argument, so that problems with them are left as they are: lags, which go on while the blocks run; and blocks without
time, which may have to come between them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import accumulate

from ...instances.base.amounts import as_written
from ...instances.schedule.plan import PeriodicSchedulePlan
from ...instances.schedule.problem import ScheduleProblem
from ..timetable import Wait, float_below, tightest


def lower_bound(problem: ScheduleProblem) -> float:
    """The largest float that is no more than `exact_bound`."""
    return float_below(exact_bound(problem))


def exact_bound(problem: ScheduleProblem) -> Fraction:
    """The largest of the bounds below, by a clock that stands still while all devices run one block together."""
    still = standstill_of(problem)
    if still.together:
        return still.time + exact_bound(still.moving)
    least = cycle_bound(problem, load_bound(problem))
    return max([least, *(device_bound(problem, d) or Fraction(0) for d in range(len(problem.devices)))])


def load_bound(problem: ScheduleProblem) -> Fraction:
    """A device runs each of its blocks once in a period, one at a time: the period is no shorter than their times
    together. The time of a block is part of such a sum, so no two of its runs overlap either.
    """
    return max(problem.loads)


def cycle_bound(problem: ScheduleProblem, least: Fraction = Fraction(0)) -> Fraction:
    """The largest ratio of times and lags to offsets over all cycles of edges, or `least` where that is larger.

    Along an edge start(b) - start(a) >= time + lag - offset x P for the first micro-batch. Around a cycle the left
    sides sum to 0, so offsets x P >= times and lags.
    """
    waits = [
        Wait(a, b, problem.times[a] + lag, edge.offset)
        for (a, b), lag, edge in zip(problem.ends, problem.lags, problem.edges, strict=True)
    ]
    table = tightest(len(problem.blocks), waits, least)
    assert table is not None, "every cycle has an offset: checked at the door"
    return table.period


def longest_period(problem: ScheduleProblem) -> Fraction:
    """A period so long that what is impossible at it is impossible at every one: all times, and the largest lag out of
    each block, together.

    For a given order and given heights the shortest period is a ratio, over some cycle of waits, of times and lags to
    a whole number of periods. A cycle visits a block at most once, so the ratio is at most this sum.
    """
    return sum(problem.times, Fraction(0)) + sum(largest_lags(problem), Fraction(0))


def largest_lags(problem: ScheduleProblem) -> list[Fraction]:
    """The largest lag of an edge out of each block."""
    largest = [Fraction(0)] * len(problem.blocks)
    for (a, _), lag in zip(problem.ends, problem.lags, strict=True):
        largest[a] = max(largest[a], lag)
    return largest


def most_periods(problem: ScheduleProblem) -> int:
    """Upper bound on the number of periods q that the cycle of waits that decides the shortest period spans. It is the
    largest denominator that the period has in units of the times.

    The cycle is as long as q periods together, and no longer than `longest_period`.

    It also covers each instant of the period q times, by blocks that run and by lags. While a block b runs, each other
    block of the cycle runs on devices that b leaves free, and no two of them on the same: without lags at most one more
    than free devices. Lags cover the time of b no more often than their sum divided by it. So a block on all devices
    leaves, without lags, none but whole numbers.
    """
    lags = sum(largest_lags(problem), Fraction(0))
    spans = [longest_period(problem) / exact_bound(problem)]
    for block, time in zip(problem.blocks, problem.times, strict=True):
        if time:
            spans.append(1 + len(problem.devices) - len(block.devices) + lags / time)
    return max(1, int(min(spans)))


# ---- Little's law --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Stash:
    """What one block takes on a device and a later one gives back."""

    taker: int
    amount: Fraction
    residence: Fraction
    """Least time from the start of the taker to the end of the giver: the longest path between the two."""


def device_bound(problem: ScheduleProblem, d: int) -> Fraction | None:
    """Little's law for one device; None where it has no limit or what it holds cannot be told from the edges alone.

    A stash that stays for a time r is held by r / P micro-batches on average, so the device holds, on average, the sum
    of stash x r / P, and workspace x time / P for each block. This average is at most what is free beside what stands:
    P x (limit - standing) >= sum of stash x r + sum of workspace x time.

    Where there is one stash, whole copies of it are held: when its taker starts, those micro-batches that are within r
    have taken it and not given it back, ceil(r / P) with itself. At most n = floor((limit - standing - the taker's
    workspace) / stash) fit, so P >= r / n; and with n = 0 there is no plan at all, which a solver will say.
    """
    limit = problem.devices[d].memory
    stashes = stashes_of(problem, d)
    if limit is None or stashes is None:
        return None
    room = as_written(limit) - as_written(problem.devices[d].standing)
    area = sum((stash.amount * stash.residence for stash in stashes), Fraction(0))
    area += sum((workspace * problem.times[b] for b, workspace in workspaces(problem, d).items()), Fraction(0))
    bound = area / room if room > 0 else Fraction(0)
    if len(stashes) == 1:
        (stash,) = stashes
        copies = (room - workspaces(problem, d).get(stash.taker, 0)) // stash.amount
        bound = max(bound, stash.residence / copies if copies > 0 else Fraction(0))
    return bound


def changes(problem: ScheduleProblem, d: int) -> dict[int, Fraction]:
    """The change of the device's memory by each block that changes it."""
    return _amounts(problem, d, [block.memory for block in problem.blocks])


def workspaces(problem: ScheduleProblem, d: int) -> dict[int, Fraction]:
    """Workspace on the device, by the blocks that have one there."""
    return _amounts(problem, d, [block.workspace for block in problem.blocks])


def _amounts(problem: ScheduleProblem, d: int, maps: Sequence[Mapping[str, float]]) -> dict[int, Fraction]:
    name = problem.devices[d].name
    return {b: as_written(maps[b][name]) for b in problem.on_device[d] if maps[b].get(name)}


def stashes_of(problem: ScheduleProblem, d: int) -> list[Stash] | None:
    """What each block takes, matched with blocks that give it back on a path that leads from the one to the other.

    None: no such match was found, so that a micro-batch may give back on the device before it takes. First in, first
    out, but from those first that the fewest others may give back; any match is right, since only sums count.
    """
    change = changes(problem, d)
    left = {b: change[b] for b in problem.order if change.get(b, 0) > 0}
    reach = {b: longest_paths(problem, b) for b in left}
    givers = [b for b in problem.order if change.get(b, 0) < 0]
    claims = {taker: sum(reach[taker][giver] is not None for giver in givers) for taker in left}
    stashes = []
    for giver in givers:
        due = -change[giver]
        for taker in sorted(left, key=lambda taker: claims[taker]):
            path = reach[taker][giver]
            amount = min(due, left[taker])
            if path is not None and amount:
                stashes.append(Stash(taker, amount, path + problem.times[giver]))
                left[taker] -= amount
                due -= amount
        if due:
            return None
    return stashes


def longest_paths(problem: ScheduleProblem, source: int) -> list[Fraction | None]:
    """Longest paths from the start of a block to that of each other one, along edges within a micro-batch; None: there
    is no path."""
    lengths: list[Fraction | None] = [None] * len(problem.blocks)
    lengths[source] = Fraction(0)
    following = within_batch(problem)
    for a in problem.order:
        here = lengths[a]
        if here is not None:
            for b, least in following[a]:
                lengths[b] = max(here + least, lengths[b] or Fraction(0))
    return lengths


def within_batch(problem: ScheduleProblem) -> list[list[tuple[int, Fraction]]]:
    """The blocks that wait for each block in its own micro-batch, with the time that they wait from its start."""
    following: list[list[tuple[int, Fraction]]] = [[] for _ in problem.blocks]
    for (a, b), lag, edge in zip(problem.ends, problem.lags, problem.edges, strict=True):
        if not edge.offset:
            following[a].append((b, problem.times[a] + lag))
    return following


# The most times that these blocks may take as long as the rest: periods are floats for solvers, and what is left has to
# keep its digits.
MOST_SHARE = 1000


@dataclass(frozen=True)
class Standstill:
    """A problem, and the same one for a clock that stands still while blocks of all devices run."""

    problem: ScheduleProblem
    moving: ScheduleProblem
    """The problem with the clock that stands still."""
    together: tuple[int, ...]
    """The blocks that all devices run."""

    @property
    def time(self) -> Fraction:
        """Time in each period that all devices spend on blocks that they run together."""
        return sum((self.problem.times[b] for b in self.together), Fraction(0))

    def compressed(self, plan: PeriodicSchedulePlan) -> PeriodicSchedulePlan:
        """The plan of the same work on the clock that stands still; its period is shorter by `time`."""
        if not self.together:
            return plan
        blocks, times = self.problem.blocks, self.problem.times
        pieces = [(plan.starts[blocks[b].id] % plan.period, times[b]) for b in self.together]
        pieces += [(start - plan.period, time) for start, time in pieces]  # what runs around the end of the period

        def moved(start: Fraction) -> Fraction:
            periods, rest = divmod(start, plan.period)
            stood = sum(
                max(min(rest, begin + time) - max(begin, Fraction(0)), Fraction(0)) for begin, time in pieces
            )
            return start - periods * self.time - stood

        starts = {name: moved(start) for name, start in plan.starts.items()}
        return PeriodicSchedulePlan(plan.period - self.time, starts)

    def expanded(self, plan: PeriodicSchedulePlan) -> PeriodicSchedulePlan:
        """The plan on the usual clock, whose period is longer by `time`."""
        if not self.together:
            return plan
        blocks, depths = self.problem.blocks, self.problem.depths
        at = {b: divmod(plan.starts[blocks[b].id], plan.period) for b in range(len(blocks))}
        order = sorted(self.together, key=lambda b: (at[b][1], -at[b][0], depths[b], b))
        stood = dict(
            zip(order, accumulate((self.problem.times[b] for b in order), initial=Fraction(0)), strict=False)
        )
        starts = {}
        for b, (periods, rest) in at.items():
            before = stood.get(b)
            if before is None:
                before = sum((self.problem.times[c] for c in order if at[c][1] <= rest), Fraction(0))
            starts[blocks[b].id] = periods * (plan.period + self.time) + rest + before
        return PeriodicSchedulePlan(plan.period + self.time, starts)


def standstill_of(problem: ScheduleProblem) -> Standstill:
    """The blocks that all devices run, with the problem without their time; none where the argument above does
    not hold."""
    used = {name for block in problem.blocks for name in block.devices}
    together = tuple(
        b
        for b, block in enumerate(problem.blocks)
        if len(block.devices) == len(used) and not block.memory and not block.workspace
    )
    if not _holds(problem, together):
        return Standstill(problem, problem, ())
    blocks = tuple(replace(block, time=0) if b in together else block for b, block in enumerate(problem.blocks))
    return Standstill(problem, replace(problem, blocks=blocks), together)


def _holds(problem: ScheduleProblem, together: tuple[int, ...]) -> bool:
    """Does the argument above hold: is the time of these blocks short enough beside the rest, is no block
    without time, and has no edge a lag?"""
    stands = sum((problem.times[b] for b in together), Fraction(0))
    goes = max(problem.loads) - stands
    return 0 < stands <= MOST_SHARE * goes and all(problem.times) and not any(problem.lags)
