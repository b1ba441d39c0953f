"""A first schedule of the steady state: blocks one by one into the free places of a period, for growing periods."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction

from ...instances.registry import violations_of
from ...instances.schedule.plan import PeriodicSchedulePlan
from ...instances.schedule.problem import ScheduleProblem
from .alone import order_alone
from .whole import WholeProblem, in_whole_numbers

# Largest number of periods that are tried, from the load of the busiest device to a micro-batch alone.
MOST_PERIODS = 60


def periodic_list_schedule(
    problem: ScheduleProblem, out_of_time: Callable[[], bool] = lambda: False
) -> PeriodicSchedulePlan | None:
    """The first period for which a schedule is found and accepted by the referee, and at last one micro-batch after the
    other. None: not even that is accepted, or no order is known in which one micro-batch fits alone.
    """
    whole = in_whole_numbers(problem)
    alone = order_alone(whole)
    if isinstance(alone, bool):
        return None
    last = one_by_one(whole, alone)
    best = _accepted(whole, *last)
    for period in periods(whole, last[0]):
        if out_of_time():
            break
        for starts in packed(whole, period, alone):
            plan = _accepted(whole, period, starts)
            if plan is not None:
                return plan
    return best


def _accepted(whole: WholeProblem, period: int, starts: Sequence[int]) -> PeriodicSchedulePlan | None:
    plan = PeriodicSchedulePlan(
        Fraction(period, whole.steps),
        {block.id: Fraction(start, whole.steps) for block, start in zip(whole.problem.blocks, starts, strict=True)},
    )
    return None if violations_of(whole.problem, plan) else plan


def one_by_one(whole: WholeProblem, alone: Sequence[int]) -> tuple[int, list[int]]:
    """The next micro-batch begins when the one before has ended, in an order in which one alone fits."""
    starts = [0] * len(whole.times)
    free = [0] * len(whole.room)
    for b in alone:
        at = max((starts[i] + whole.times[i] + lag for i, offset, lag in whole.before[b] if not offset), default=0)
        starts[b] = max(at, *(free[d] for d in whole.devices[b]))
        for d in whole.devices[b]:
            free[d] = starts[b] + whole.times[b]
    period = max(*free, least_period(whole, starts))
    return period, starts


def least_period(whole: WholeProblem, starts: Sequence[int]) -> int:
    """The least period that the edges between micro-batches allow, with these starts."""
    needs = [0]
    for j, rows in enumerate(whole.before):
        needs += [-(-(starts[i] + whole.times[i] + lag - starts[j]) // offset) for i, offset, lag in rows if offset]
    return max(needs)


def periods(whole: WholeProblem, last: int) -> Iterator[int]:
    """Periods to try, from the busiest device's load to below the last one, in steps that grow."""
    least = max(whole.load, 1)
    at = 0
    for k in range(MOST_PERIODS):
        at = max(at + 1, least + (last - least) * k * k // MOST_PERIODS**2)
        if at >= last:
            return
        yield max(at, least)


def packed(whole: WholeProblem, period: int, alone: Sequence[int]) -> Iterator[list[int]]:
    """Starts by several ways to place every block where its devices are free in the period, held for a short time."""
    by_tail = tuple(
        sorted(range(len(whole.times)), key=lambda b: (whole.heads[b], -whole.tails[b], *whole.orders[b]))
    )
    for order in dict.fromkeys((whole.problem.order, tuple(alone), by_tail)):
        for place in (earliest, latest, wide_first):
            starts = place(whole, period, order)
            if starts is not None:
                yield from _lives(whole, period, starts)


def _lives(whole: WholeProblem, period: int, starts: list[int]) -> Iterator[list[int]]:
    """Schedules with every block at its place in the period, and as few periods between taking and giving back as the
    edges let."""
    early = early_periods(whole, period, starts)
    if early is not None:
        yield early
        late = late_takes(whole, period, early)
        if late != early:
            yield late


def early_periods(whole: WholeProblem, period: int, starts: Sequence[int]) -> list[int] | None:
    """Every block in the first period that its edges let it be in, at the same place.

    Edges between micro-batches can go in circles, so this takes rounds; None: they never settle, since the places
    along a circle ask for a longer period.
    """
    at = [start % period for start in starts]
    for _ in range(len(at) + 1):
        settled = True
        for b in whole.problem.order:
            ready = max(
                (at[i] + whole.times[i] + lag - offset * period for i, offset, lag in whole.before[b]), default=0
            )
            if ready > at[b]:
                at[b] += -(-(ready - at[b]) // period) * period
                settled = False
        if settled:
            return at
    return None


def late_takes(whole: WholeProblem, period: int, starts: Sequence[int]) -> list[int]:
    """The starts with blocks that give nothing back whole periods later, as late as those that wait for them allow."""
    at = list(starts)
    for b in reversed(whole.problem.order):
        follow = [at[j] + offset * period - lag - whole.times[b] for j, offset, lag in whole.after[b] if j != b]
        if follow and all(change >= 0 for *_, change in whole.uses[b]):
            at[b] += (min(follow) - at[b]) // period * period
    return at


def earliest(whole: WholeProblem, period: int, order: Sequence[int]) -> list[int] | None:
    """Each block at the first free place after all before it; None: one finds no place."""
    places = _Places(whole, period)
    at = [0] * len(whole.times)
    for b in order:
        ready = max((at[i] + whole.times[i] + lag for i, offset, lag in whole.before[b] if not offset), default=0)
        start = places.first_free(b, ready)
        if start is None:
            return None
        at[b] = start
    return at


def latest(whole: WholeProblem, period: int, order: Sequence[int]) -> list[int] | None:
    """Starts from the last block back, each at the last free place before all that wait for it; None: one block finds
    none."""
    places = _Places(whole, period)
    at = [0] * len(whole.times)
    for b in reversed(order):
        due = min((at[j] - lag for j, offset, lag in whole.after[b] if not offset), default=0)
        start = places.last_free(b, due - whole.times[b])
        if start is None:
            return None
        at[b] = start
    return at


def wide_first(whole: WholeProblem, period: int, order: Sequence[int]) -> list[int] | None:
    """Blocks on several devices get places in a row before all others, since what is alone on its device fits around
    them; each then comes in the first period that it can."""
    wide = [b for b in order if len(whole.devices[b]) > 1]
    if not wide:
        return None
    places = _Places(whole, period)
    row: dict[int, int] = {}
    for b in wide:
        place = places.first_free(b, 0)
        if place is None:
            return None
        row[b] = place
    at = [0] * len(whole.times)
    for b in order:
        ready = max((at[i] + whole.times[i] + lag for i, offset, lag in whole.before[b] if not offset), default=0)
        start = ready + (row[b] - ready) % period if b in row else places.first_free(b, ready)
        if start is None:
            return None
        at[b] = start
    return at


class _Places:
    """What is taken of the period on every device."""

    def __init__(self, whole: WholeProblem, period: int) -> None:
        self.whole, self.period = whole, period
        self.taken: list[list[tuple[int, int]]] = [[] for _ in whole.room]
        """For each device the places that are taken: start, in the period, and end."""

    def first_free(self, b: int, ready: int) -> int | None:
        """The first start from `ready` on at which all devices of the block are free; it takes the place."""
        at = ready
        while (blocking := self._in_the_way(b, at)) is not None:
            at += blocking[1] - at % self.period
            if at >= ready + self.period:
                return None
        return self._take(b, at)

    def last_free(self, b: int, due: int) -> int | None:
        """The last start up to `due` at which all devices of the block are free; it takes the place."""
        at = due
        while (blocking := self._in_the_way(b, at)) is not None:
            at -= at % self.period + self.whole.times[b] - blocking[0]
            if at <= due - self.period:
                return None
        return self._take(b, at)

    def _take(self, b: int, at: int) -> int:
        place = at % self.period
        for d in self.whole.devices[b]:
            self.taken[d].append((place, place + self.whole.times[b]))
        return at

    def _in_the_way(self, b: int, at: int) -> tuple[int, int] | None:
        """A block that runs meanwhile, as seen from the period of `at`."""
        first, last = at % self.period, at % self.period + self.whole.times[b]
        if last - first > self.period:
            return first, first + self.period
        for d in self.whole.devices[b]:
            for start, end in self.taken[d]:
                for shift in (-self.period, 0, self.period):
                    if start + shift < last and first < end + shift:
                        return start + shift, end + shift
        return None
