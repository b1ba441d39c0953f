"""Schedules by several rules, and better ones by going through the best one back and forth.

A pipeline begins with the named schedules that fit it, so that no list schedule is worse than they are.

Seen from its end a schedule is one of the mirrored problem, in which time runs backwards. There everything moves as
close to the end as it can, in the order in which it ended before; then forwards again, and each way shortens what the
other one has left. A little chance in the order leads to other schedules.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import chain

from ...instances.base.errors import UsageError
from ...instances.base.result import Stop
from ...instances.registry import evaluation_of, violations_of
from ...instances.schedule.plan import SchedulePlan
from ...instances.schedule.problem import ScheduleProblem
from ..contract import Outcome, Request
from .alone import order_alone
from .listing import Rule, Starts, as_plan, cost, late, listed, mirrored, rules, why_none
from .named import rule_schedules
from .periodic_list import periodic_list_schedule
from .whole import WholeProblem, in_whole_numbers

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


class ListSchedule:
    def plan(self, request: Request) -> Outcome:
        """The best of several rules; each plan is posted as soon as it is there."""
        problem, objective = request.problem, str(request.options["objective"])
        if by_period(problem, objective):
            periodic = periodic_list_schedule(problem, request.out_of_time)
            stop = Stop.TIME if request.out_of_time() else Stop.COMPLETED
            if periodic is None:
                return Outcome(stop, messages=(why_none(problem),))
            return Outcome(stop, periodic, float(periodic.period))
        board = request.board
        for plan in better_and_better(problem, objective, request.out_of_time, seed=request.limits.seed):
            value = evaluation_of(problem, plan).objective(objective)
            assert value is not None, "the micro-batches have an end"
            board.post(plan, float(value))
        stop = Stop.TIME if request.out_of_time() else Stop.COMPLETED
        messages = (why_none(problem),) if board.plan is None else ()
        return Outcome(stop, board.plan, board.value, messages=messages)


PLANNER = ListSchedule()
