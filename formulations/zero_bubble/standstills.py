"""Blocks that all devices run together: while one runs, nothing else does.

Let the clock stand still while they run. Then they take no time, every other block takes as long as before, and a
period P becomes P - T, where T is the time of those blocks. Nothing is lost on either way:

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

from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import accumulate

from ...instances.schedule.plan import PeriodicSchedulePlan
from ...instances.schedule.problem import ScheduleProblem

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
