"""The starts of a plan as whole numbers of steps, micro-batch by micro-batch, with the faults of its shape."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from ...base.amounts import in_digits
from ...base.errors import show
from ...base.quantities import several
from ..plan import AnySchedule, PeriodicSchedulePlan, SchedulePlan
from ..problem import MAX_STARTS, ScheduleProblem

# At most so many violations of one rule are told.
MOST_TOLD = 20


@dataclass(frozen=True)
class Unrolled:
    """Micro-batches from the first one on: all of them, or in a periodic schedule as many as show one whole period."""

    problem: ScheduleProblem
    steps: int
    """Steps per time unit; every start and every time is a whole number of steps."""
    starts: tuple[tuple[int, ...], ...]
    """Starts of each block, one for each micro-batch, in steps."""
    times: tuple[int, ...]
    """Times of the blocks, in steps."""
    lags: tuple[int, ...]
    period: int | None = None

    @property
    def micro_batches(self) -> int:
        return len(self.starts[0])

    def in_units(self, steps: int) -> Fraction:
        return Fraction(steps, self.steps)

    def text(self, steps: int) -> str:
        """All digits of a time, with the unit where the problem has one."""
        return " ".join(filter(None, (in_digits(self.in_units(steps)), self.problem.time_unit)))


def shape_faults(problem: ScheduleProblem, plan: AnySchedule) -> Iterator[str]:
    """The reasons why the plan cannot be laid out, each in a sentence."""
    for block in problem.blocks:
        if block.id not in plan.starts:
            yield f"Block {show(block.id)} has no start."
    for name in plan.starts:
        if name not in problem.block_index:
            yield f"There is no block {show(name)} in the problem, but the plan has starts of it."
    faults = _periodic_faults(problem, plan) if isinstance(plan, PeriodicSchedulePlan) else _faults(problem, plan)
    yield from faults


def _faults(problem: ScheduleProblem, plan: SchedulePlan) -> Iterator[str]:
    if problem.micro_batches is None:
        yield "The problem has no number of micro-batches, so only a periodic schedule can solve it."
        return
    for name, starts in plan.starts.items():
        if len(starts) != problem.micro_batches:
            yield f"Block {show(name)} has {len(starts)} starts for {several(problem.micro_batches, 'micro-batch')}."
        elif starts and min(starts) < 0:
            yield f"Block {show(name)} starts at {in_digits(min(starts))}, before 0."


def _periodic_faults(problem: ScheduleProblem, plan: PeriodicSchedulePlan) -> Iterator[str]:
    if plan.period < 0 or (not plan.period and any(problem.loads)):
        yield f"The period is {in_digits(plan.period)}; it must be above 0."
        return
    early = next((name for name, start in plan.starts.items() if start < 0), None)
    if early is not None:
        yield f"Block {show(early)} starts at {in_digits(plan.starts[early])}, before 0."
    elif plan.period and _spanned(problem, plan) * len(problem.blocks) > MAX_STARTS:
        yield "The schedule of one micro-batch spans too many periods to be unrolled."


def _spanned(problem: ScheduleProblem, plan: PeriodicSchedulePlan) -> int:
    """Number of micro-batches to lay out: one more than begin before the first one ends, so that a whole period shows
    the steady state."""
    ends = (
        plan.starts.get(block.id, Fraction(0)) + time
        for block, time in zip(problem.blocks, problem.times, strict=True)
    )
    return int(max(ends) // plan.period) + 2 if plan.period else 2


def unroll(problem: ScheduleProblem, plan: AnySchedule) -> Unrolled:
    """The starts of a plan without faults of its shape, in whole steps."""
    period = plan.period if isinstance(plan, PeriodicSchedulePlan) else None
    if isinstance(plan, PeriodicSchedulePlan):
        batches = range(_spanned(problem, plan))
        rows = [[plan.starts[block.id] + n * plan.period for n in batches] for block in problem.blocks]
    else:
        rows = [list(plan.starts[block.id]) for block in problem.blocks]
    numbers = [*problem.times, *problem.lags, *(start for row in rows for start in row), period or Fraction(0)]
    steps = math.lcm(*{number.denominator for number in numbers})
    return Unrolled(
        problem,
        steps,
        tuple(tuple(int(start * steps) for start in row) for row in rows),
        tuple(int(time * steps) for time in problem.times),
        tuple(int(lag * steps) for lag in problem.lags),
        None if period is None else int(period * steps),
    )
