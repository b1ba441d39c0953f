"""The grids of whole steps on which the decomposition works: the times' own, or a rounded one, then a fine one."""

from __future__ import annotations

import math
from fractions import Fraction

from ...formulations.beaumont.integer_chain import integer_chain
from ...instances.base.amounts import as_written, common_unit
from ...instances.base.result import PROVEN_TOLERANCE
from ...instances.chain.plan import PatternPlan
from ...instances.chain.problem import ChainProblem

# Steps on the first grid in an even share of all times, where the times do not give a grid themselves, ...
COARSE_STEPS = 2_000
# ... and up to how many steps their own grid is manageable.
MOST_COARSE_STEPS = 100_000
# A step of the last grid relative to the period: what is refuted up to the step below the plan proves it.
FINE_SHARE = 0.5 * PROVEN_TOLERANCE


def coarse_steps(problem: ChainProblem) -> Fraction:
    """The grid of the times themselves where that is a manageable one, else a rounded one."""
    times = [as_written(time) for time in (*problem.durations, *problem.edge_times)]
    unit = common_unit(times)
    span = sum(times, Fraction(0)) / min(problem.gpus, problem.layers)
    return 1 / unit if span <= MOST_COARSE_STEPS * unit else Fraction(COARSE_STEPS) / span


def fine_steps(problem: ChainProblem, plan: PatternPlan | None) -> Fraction:
    """Steps so fine that refuting all periods up to the step below the plan proves the plan optimal.

    On an exact grid the least period is a ratio with a bounded denominator, so no finer one can tell more.
    """
    assert plan is not None
    coarse = integer_chain(problem, coarse_steps(problem))
    wanted: Fraction = 1 / (Fraction(FINE_SHARE) * as_written(plan.period))
    if not coarse.exact:
        wanted *= 2 * problem.tasks
    elif problem.exclusive_buffers:
        wanted *= 2  # one more step is left undecided
    else:
        wanted = min(wanted, coarse.steps * coarse.most_shifts)
    return coarse.steps * max(1, math.ceil(wanted / coarse.steps))
