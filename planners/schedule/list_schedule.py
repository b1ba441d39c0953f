"""Schedules by several rules, and better ones by going through the best one back and forth; and the steady state's.

A pipeline begins with the named schedules that fit it, so that no list schedule is worse than they are.

Seen from its end a schedule is one of the mirrored problem, in which time runs backwards. There everything moves as
close to the end as it can, in the order in which it ended before; then forwards again, and each way shortens what the
other one has left. A little chance in the order leads to other schedules.

In the steady state blocks come one by one into the free places of a period, for growing periods. The referee accepts
every plan, so that rules may be changed freely.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from itertools import chain

from ...instances.base.errors import UsageError
from ...instances.base.result import Stop
from ...instances.registry import violations_of
from ...instances.schedule.plan import PeriodicSchedulePlan, SchedulePlan
from ...instances.schedule.problem import ScheduleProblem
from ..contract import Outcome, Request
from .listing import (
    Rule,
    Starts,
    WholeProblem,
    as_plan,
    cost,
    in_whole_numbers,
    late,
    listed,
    mirrored,
    order_alone,
    rules,
    why_none,
)
from .named import best_of, rule_schedules

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
    plan = periodic_plan(whole, period, starts)
    return None if violations_of(whole.problem, plan) else plan


def periodic_plan(whole: WholeProblem, period: int, starts: Sequence[int]) -> PeriodicSchedulePlan:
    """The plan with this period and these starts of blocks, in steps."""
    return PeriodicSchedulePlan(
        Fraction(period, whole.steps),
        {block.id: Fraction(start, whole.steps) for block, start in zip(whole.problem.blocks, starts, strict=True)},
    )


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
    return _placed(whole, period, order, ())


def latest(whole: WholeProblem, period: int, order: Sequence[int]) -> list[int] | None:
    """Starts from the last block back, each at the last free place before all that wait for it: the earliest ones in
    reversed time. None: one block finds no place."""
    at = _placed(whole.mirrored(), period, order[::-1], ())
    return None if at is None else [-start - time for start, time in zip(at, whole.times, strict=True)]


def wide_first(whole: WholeProblem, period: int, order: Sequence[int]) -> list[int] | None:
    """Blocks on several devices get places in a row before all others, since what is alone on its device fits around
    them; each then comes in the first period that it can."""
    wide = [b for b in order if len(whole.devices[b]) > 1]
    return _placed(whole, period, order, wide) if wide else None


def _placed(whole: WholeProblem, period: int, order: Sequence[int], wide: Sequence[int]) -> list[int] | None:
    """Starts of all blocks in this order, after the `wide` ones have got their places in a row."""
    places = _Places(whole, period)
    row = {b: places.first_free(b, 0) for b in wide}
    at = [0] * len(whole.times)
    for b in order:
        ready = max((at[i] + whole.times[i] + lag for i, offset, lag in whole.before[b] if not offset), default=0)
        place = row[b] if b in row else places.first_free(b, ready)
        if place is None:
            return None
        at[b] = ready + (place - ready) % period if b in row else place
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


# ---- Schedules by several rules, and better ones by going through the best one back and forth.

# Runs that are started in all tries together: about a second.
MOST_RUNS = 50_000
# One part in so many of the tries is for the rules, the rest for the way back and forth.
RULES_SHARE = 2
# Where only a few rules have their turn, schedules of so many micro-batches for each device say which. That pays where
# there are at least so many times as many micro-batches.
TRIED_FOR_EACH_DEVICE = 3
TRIES_PAY = 4

# What `Rule.patience` is drawn from.
PATIENCE = (Fraction(0), Fraction(1, 4), Fraction(1, 2), Fraction(3, 4), Fraction(1))
# By how many mean times of a block the order may change.
NOISE = (0, 0, 1, 2, 4, 8)


def better_and_better(
    problem: ScheduleProblem,
    objective: str = "makespan",
    out_of_time: Callable[[], bool] = lambda: False,
    most_runs: int = MOST_RUNS,
    seed: int = 0,
) -> Iterator[SchedulePlan]:
    """Plans, each better than the one before and accepted by the referee.

    Parameters
    ----------
    problem : ScheduleProblem
        Of finitely many micro-batches.
    objective : str
        `makespan` or `span`.
    out_of_time : callable
        Ends the search; the first plan is made in any case.
    most_runs : int
        How many runs may be started in all tries together. However few that are, at least one rule is tried.
    seed : int
        Seed of the random orders.
    """
    assert problem.micro_batches is not None, "of finitely many micro-batches only"
    whole = in_whole_numbers(problem)
    alone = order_alone(whole)
    if isinstance(alone, bool):
        return
    search = _Search(whole, alone, objective, most_runs // (len(problem.blocks) * problem.micro_batches))
    named = (
        [[int(start * whole.steps) for start in plan.starts[block.id]] for block in problem.blocks]
        for _, plan in rule_schedules(problem)
    )
    for starts in chain(named, search.tries(random.Random(seed))):
        if search.improves(starts):
            yield as_plan(whole, search.best)
        if search.best and out_of_time():
            return


class _Search:
    """Tries for one problem, and the best schedule so far."""

    def __init__(self, whole: WholeProblem, alone: tuple[int, ...], objective: str, count: int) -> None:
        self.whole, self.alone, self.objective, self.count = whole, alone, objective, count
        self.batches = whole.problem.micro_batches or 0
        self.best: Starts = []
        self.value: int | None = None

    def improves(self, starts: Starts | None) -> bool:
        """Keep a schedule, as it is or as late as its order allows, if it is better than all before. Was it kept?"""
        improved = False
        for moved in () if starts is None else (starts, late(self.whole, starts)):
            value = cost(self.whole, moved, self.objective)
            if (self.value is None or value < self.value) and not violations_of(
                self.whole.problem, as_plan(self.whole, moved)
            ):
                self.best, self.value, improved = moved, value, True
        return improved

    def tries(self, chance: random.Random) -> Iterator[Starts | None]:
        """Schedules by the rules, the most promising first, then from the best on. None: a rule did not get through."""
        by_rule, most = 0, max(1, self.count // RULES_SHARE)
        for rule in self._ordered(most):
            if by_rule >= most and self.best:
                break
            by_rule += 1
            yield listed(self.whole, rule, self.alone, self.batches)
        backwards = self.whole.mirrored()
        for _ in range((self.count - by_rule) // 2 if self.best else 0):
            there = self._again(backwards, mirrored(self.whole, self.best), chance)
            if there is None:
                continue
            back = mirrored(self.whole, there)
            yield back
            yield self._again(self.whole, back, chance)

    def _ordered(self, most: int) -> list[Rule]:
        """The rules as they stand; where the first ones alone have their turn and no plan is known, those first that
        make the shortest schedules of fewer micro-batches."""
        ordered = list(rules(self.whole))
        few = TRIED_FOR_EACH_DEVICE * len(self.whole.room)
        if self.best or most >= len(ordered) or few * TRIES_PAY > self.batches:
            return ordered
        tries = [listed(self.whole, rule, self.alone, few) for rule in ordered]
        values = [math.inf if starts is None else cost(self.whole, starts, self.objective) for starts in tries]
        return [ordered[i] for i in sorted(range(len(ordered)), key=values.__getitem__)]

    def _again(self, whole: WholeProblem, starts: Starts, chance: random.Random) -> Starts | None:
        """A list schedule by the starts that the blocks have in another one, give or take some."""
        mean = Fraction(sum(whole.times), len(whole.times))
        spread = float(mean) * chance.choice(NOISE)
        rank = [[start + chance.random() * spread for start in row] for row in starts]
        alone = self.alone[::-1] if whole.backwards else self.alone
        rule = Rule(lambda b, n: (rank[b][n],), chance.choice(PATIENCE))
        return listed(whole, rule, alone, self.batches)


# ---- List schedules as a planner: of all micro-batches, or of the steady state -----------------------------

SPAN, PERIOD = "span", "period"


def by_period(problem: ScheduleProblem, objective: str) -> bool:
    """Is the steady state planned: for want of a number of micro-batches, or as the objective?"""
    if problem.micro_batches is None and objective == SPAN:
        raise UsageError("--objective span counts given micro-batches, and the problem has none: give --batch.")
    return problem.micro_batches is None or objective == PERIOD


def plan_lists(request: Request) -> Outcome:
    """The best of several rules; each plan is posted as soon as it is there."""
    problem, objective = request.problem, str(request.options["objective"])
    if by_period(problem, objective):
        periodic = periodic_list_schedule(problem, request.out_of_time)
        stop = Stop.TIME if request.out_of_time() else Stop.COMPLETED
        if periodic is None:
            return Outcome(stop, messages=(why_none(problem),))
        return Outcome(stop, periodic, float(periodic.period))
    return best_of(request, better_and_better(problem, objective, request.out_of_time, seed=request.limits.seed))
