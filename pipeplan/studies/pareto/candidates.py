"""Plans that are measured once and then serve every memory limit that they fit: PipeDream's and those of others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ...instances.chain.plan import PatternPlan
from ...instances.chain.problem import ChainProblem
from ...instances.chain.referee.evaluate import evaluate_pattern, verify_pattern
from ...planners.chain.annealing import canonical
from ...planners.chain.baselines import pareto as measured_front
from ...planners.chain.baselines import pipedream_points
from ...planners.chain.contiguous import best_contiguous
from .curve import Candidate

PIPEDREAM = "pipedream-eager"


def measured(problem: ChainProblem, plan: PatternPlan, source: str) -> Candidate | None:
    """The referee's numbers for a plan; None for one that it rejects even without a memory limit."""
    free = problem.replace(memory_bytes=None)
    if verify_pattern(free, plan):
        return None
    value = evaluate_pattern(free, plan)
    return Candidate(plan, value.period_per_batch, value.peak_bytes, source)


def front(candidates: Iterable[Candidate]) -> tuple[Candidate, ...]:
    """The candidates that no other beats in peak memory and period, by growing memory."""
    kept: list[Candidate] = []
    for candidate in sorted(candidates, key=lambda c: (c.need, c.value)):
        if not kept or candidate.value < kept[-1].value:
            kept.append(candidate)
    return tuple(kept)


def best_within(candidates: Iterable[Candidate], memory_bytes: float) -> Candidate | None:
    """The candidate with the least period that fits; of equal ones that with the smallest peak."""
    fitting = [c for c in candidates if c.need <= memory_bytes]
    return min(fitting, key=lambda c: (c.value, c.need), default=None)


def pipedream_front(problem: ChainProblem) -> tuple[Candidate, ...]:
    """PipeDream's whole Pareto set, as verified plans; its runs do not depend on the memory limit."""
    runs = list(pipedream_points(problem.replace(memory_bytes=None)))
    # A run that never became periodic must not hide the periodic ones behind it.
    chosen = [*measured_front(runs), *measured_front([run for run in runs if run.plan is not None])]
    # Its own pattern, or the best pattern of its stages in the memory that it took.
    plans = (run.plan or best_contiguous(problem.replace(memory_bytes=run.peak), run.borders) for run in chosen)
    measured_plans = (measured(problem, plan, PIPEDREAM) for plan in plans if plan is not None)
    return front(candidate for candidate in measured_plans if candidate is not None)


def single(candidates: Iterable[Candidate]) -> Iterator[Candidate]:
    """The candidates with one batch per period, the only ones that exact methods can start from."""
    return (candidate for candidate in candidates if candidate.plan.batches_per_period == 1)


def renumbered(plan: PatternPlan) -> PatternPlan:
    """The plan with its GPUs numbered by their first layers, as the exact methods number them."""
    return PatternPlan(plan.period, canonical(plan.allocation), plan.starts, plan.transfers)
