"""Greedy schedules of pipelines with divided backward passes, within memory: passes for weights fill what is idle.

After the heuristic that Qi et al. describe in Zero Bubble Pipeline Parallelism, 2024: forward passes first, as many as
the memory takes; then I and F in turn, or I whenever one is there; W where a device would idle otherwise or has no
memory for anything else. As there, a handful of variants are tried and the best is kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from ...instances.base.errors import UsageError
from ...instances.base.result import Stop
from ...instances.schedule.plan import SchedulePlan
from ...instances.schedule.problem import ScheduleProblem
from ...instances.verdict import evaluation_of, violations_of
from ..contract import Outcome, Request
from .alone import order_alone
from .chain_shape import chain_shape
from .listing import Rank, Rule, as_plan, late, listed, why_none
from .whole import WholeProblem, in_whole_numbers

PATIENCE = (Fraction(0), Fraction(1, 4), Fraction(1, 2), Fraction(3, 4), Fraction(1))
"""Shares of a pass for weights that a device idles rather than start one when another pass is about to be there."""


class ZeroBubbleGreedy:
    def plan(self, request: Request) -> Outcome:
        """The best variant; each plan is posted as soon as it is there."""
        objective, board = str(request.options["objective"]), request.board
        for plan in greedy_schedules(request.problem, objective):
            value = evaluation_of(request.problem, plan).objective(objective)
            assert value is not None, "the micro-batches have an end"
            board.post(plan, float(value))
            if request.out_of_time():
                return Outcome(Stop.TIME, board.plan, board.value)
        messages = (why_none(request.problem),) if board.plan is None else ()
        return Outcome(Stop.COMPLETED, board.plan, board.value, messages=messages)


PLANNER = ZeroBubbleGreedy()


def greedy_schedules(problem: ScheduleProblem, objective: str) -> Iterator[SchedulePlan]:
    """One for each variant.

    Raises
    ------
    UsageError
        The problem is no pipeline of stages in a row, or its backward passes are in one part.
    """
    shape = chain_shape(problem, "zb-greedy")
    if not shape.divided:
        raise UsageError(
            "The rule zb-greedy is for backward passes in two parts (I and W), and these are in one (B); choose "
            "--planner list-schedule."
        )
    whole = in_whole_numbers(problem)
    alone = order_alone(whole)
    if isinstance(alone, bool):
        return
    for rule in variants(whole):
        starts = listed(whole, rule, alone, problem.micro_batches or 0)
        for found in () if starts is None else (starts, late(whole, starts)):
            plan = as_plan(whole, found)
            if not violations_of(problem, plan):
                yield plan


def variants(whole: WholeProblem) -> Iterator[Rule]:
    """Which of I and F comes first where both may start, and how long to wait rather than begin a W."""
    kinds = [block.kind for block in whole.problem.blocks]
    heads, tails = whole.heads, whole.tails
    ranks: tuple[Rank, ...] = (
        lambda b, n: ("IFXW".index(kinds[b]), n, -heads[b]),  # I first
        lambda b, n: ("FIXW".index(kinds[b]), n, -heads[b]),  # F first, as far as the memory goes
        lambda b, n: (kinds[b] == "W", n, -tails[b]),  # the older micro-batch first
        # In turn: a forward pass counts as one before the backward pass that it makes room for.
        lambda b, n: (kinds[b] == "W", n * max(whole.load, 1) + heads[b]),
    )
    for patience in PATIENCE:
        for rank in ranks:
            yield Rule(rank, patience)
