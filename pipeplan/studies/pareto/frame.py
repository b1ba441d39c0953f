"""The ends of the curves: the smallest memory with a pattern, the best period without a limit, levels in between."""

from __future__ import annotations

import math

from ...formulations.beaumont.fixed_allocation import Known
from ...formulations.beaumont.integer_chain import integer_chain
from ...instances.base.clock import now
from ...instances.base.result import Stop
from ...instances.chain.plan import PatternPlan
from ...instances.chain.problem import ChainProblem
from ...planners.chain.contiguous import best_contiguous
from ...planners.chain.grids import coarse_steps
from ...planners.chain.schedule import fit, pattern
from ...planners.chain.smallest_memory import ChainMemory, smallest_memory
from ...planners.chain.solver import Solver
from ...planners.options import SolveOptions
from ...planners.run.solve import solve
from .candidates import measured, single
from .curve import NothingKnownError, Watch, between, no_more_than
from .records import Candidate, Frame, Settings

UNLIMITED = "unlimited"
RESOLUTION = 0.01
"""Of the memory between both ends: how closely the least memory of the unlimited optimum is sought."""
COMPACT_S = 30.0
"""At most so long the least memory of the unlimited optimum is sought,"""
QUESTION_SHARE = 0.1
"""... with this share of the time for each question whether it fits a memory."""
SAME = 1e-9
"""Relative difference of periods that count as the same."""


def build_frame(
    problem: ChainProblem, settings: Settings, candidates: tuple[Candidate, ...], watch: Watch = None
) -> Frame:
    """Both ends, and the levels that the settings ask for; `KeyboardInterrupt` where the user does not wait."""
    free = problem.replace(memory_bytes=None)
    least = smallest_memory(free, settings.limits)
    result = solve(free, planner="exact-beaumont", limits=settings.limits, on_progress=watch)
    if result.stop == Stop.INTERRUPTED:
        raise KeyboardInterrupt
    # Where time was too short for the best pattern, that of the least memory is the end without a limit.
    best = measured(free, result.plan if isinstance(result.plan, PatternPlan) else least.plan, UNLIMITED)
    if best is None:
        raise NothingKnownError(
            f"no pattern was found without a memory limit ({result.stop}); give a longer --time-limit"
        )
    if not settings.memory_bytes:
        best = _compact(free, best, least, candidates, settings.limits)
    return Frame(
        levels=settings.memory_bytes or _levels(least.memory_bytes, best.peak_bytes, settings.levels),
        smallest_bytes=least.memory_bytes,
        smallest_proven=least.proven,
        smallest_plan=least.plan,
        unlimited_period=best.period,
        unlimited_bound=no_more_than(result.bound, best.period),
        unlimited_bytes=best.peak_bytes,
        unlimited_plan=best.plan,
    )


def _levels(smallest: float, unlimited: float, count: int) -> tuple[float, ...]:
    """In whole bytes, both ends among them."""
    ends, inner = {float(smallest), float(unlimited)}, between(smallest, unlimited, count)
    return tuple(sorted(ends | {min(float(math.ceil(level)), float(unlimited)) for level in inner}))


def _compact(
    problem: ChainProblem,
    best: Candidate,
    least: ChainMemory,
    candidates: tuple[Candidate, ...],
    limits: SolveOptions,
) -> Candidate:
    """The plan with the least memory that was found among those with the unlimited optimum's period.

    What comes from the allocation alone delays batches as if memory were free.
    """
    stages = best_contiguous(problem)
    offered = None if stages is None else measured(problem, stages, UNLIMITED)
    rivals = [best, *single(candidates), *([] if offered is None else [offered])]
    best = min((r for r in rivals if r.period <= best.period * (1 + SAME)), key=lambda rival: rival.peak_bytes)
    limit = COMPACT_S if limits.time_limit_s is None else min(COMPACT_S, limits.time_limit_s)
    solver = Solver(now() + limit, limits.seed, limits.memory_limit_bytes)
    low, question = least.memory_bytes, QUESTION_SHARE * limit
    closeness = RESOLUTION * (best.peak_bytes - low)
    while best.peak_bytes - low > closeness and not solver.over():
        middle = (low + best.peak_bytes) / 2
        smaller = _within(problem.replace(memory_bytes=middle), best, solver, question)
        if smaller is None:
            low = middle
        else:
            best = smaller
    return best


def _within(problem: ChainProblem, best: Candidate, solver: Solver, limit_s: float | None) -> Candidate | None:
    """The same allocation and period in less memory, or None where that was not found."""
    chain = integer_chain(problem, coarse_steps(problem))
    period = math.ceil(best.period * float(chain.steps) * (1 - SAME))
    answer = fit(chain, Known.whole(best.plan.allocation), period, solver, limit_s)
    if not answer.fits or answer.values is None:
        return None
    plan = pattern(problem, chain, best.plan.allocation, answer.values)
    found = None if plan is None else measured(problem, plan, UNLIMITED)
    as_good = found is not None and found.period <= best.period * (1 + SAME) and found.peak_bytes < best.peak_bytes
    return found if as_good else None
