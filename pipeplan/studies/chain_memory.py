"""Period against memory for chains: every method at every memory limit.

An exact search starts from the best plan so far that fits; where that plan meets a bound, nothing is searched.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, ClassVar

from ..formulations.beaumont.fixed_allocation import Known
from ..formulations.beaumont.integer_chain import integer_chain
from ..formulations.registry import FORMULATIONS
from ..instances.base.clock import now
from ..instances.base.errors import InputError, UsageError, did_you_mean
from ..instances.base.fields import as_list, as_object, require, require_object
from ..instances.base.result import Result, Stop
from ..instances.chain.plan import PatternPlan
from ..instances.chain.problem import ChainProblem
from ..instances.physics.tolerances import SAME
from ..planners.backends.client import Solver
from ..planners.chain import exact
from ..planners.chain.allocation import coarse_steps
from ..planners.chain.baselines import best_contiguous, pipedream_points
from ..planners.chain.baselines import pareto as measured_front
from ..planners.chain.schedule import canonical, fit, pattern
from ..planners.options import SolveOptions
from ..planners.run.solve import solve
from . import sweep
from .memory import MemorySweep, measured
from .sweep import Candidate, CurvePoint, Ends, Settings, columns, records_of

PIPEDREAM = "pipedream-eager"
# Methods whose bounds hold for every pattern with one batch per period.
EXACT_METHODS = ("exact-beaumont", "ilp-beaumont", "cp-beaumont")
BASELINES = ("contiguous", PIPEDREAM, "gpipe", "sync-1f1b")
METHODS = (*EXACT_METHODS, *BASELINES)
DEFAULT_METHODS = ("exact-beaumont", *BASELINES)

# Sources of the plans at both ends.
SMALLEST, UNLIMITED = "one batch after the other", "unlimited"
# The record of PipeDream's plans in a journal.
RUNS = "runs"
# The least memory of the unlimited optimum is sought up to this share of the memory between both ends,
RESOLUTION = 0.01
# for at most so many seconds,
COMPACT_S = 30.0
# of which each question whether it fits a memory may take this share.
QUESTION_SHARE = 0.1


def _methods(settings: Settings) -> tuple[str, ...]:
    return DEFAULT_METHODS if settings.methods is None else settings.methods


class Chains(MemorySweep):
    """Every method at every level."""

    takes = ("memory", "method")
    no_ends: ClassVar[Mapping[str, None]] = {"smallest": None, "unlimited": None}
    sources = (SMALLEST, UNLIMITED)
    columns = columns(
        "method memory_bytes=limit period=value peak_bytes=need bound gap certified stop found source",
        "batches_per_period seconds",
    )

    @classmethod
    def own_settings(cls, problem: ChainProblem, asked: Mapping[str, Any]) -> dict[str, Any]:
        return {"methods": tuple(dict.fromkeys(asked.get("method") or DEFAULT_METHODS))}

    @classmethod
    def sizes(cls, problem: ChainProblem) -> dict[str, Any]:
        return {"gpus": problem.gpus, "layers": problem.layers}

    @classmethod
    def ends_to_json(cls, ends: Ends) -> dict[str, Any]:
        best = {
            "period": ends.best.value,
            "bound": ends.bound,
            "peak_bytes": ends.best.need,
            "proven": ends.best_proven,
        }
        return {"smallest": {"memory_bytes": ends.least.need, "proven": ends.least_proven}, "unlimited": best}

    @classmethod
    def check(cls, problem: ChainProblem, settings: Settings) -> None:
        methods = _methods(settings)
        unknown = [name for name in methods if name not in METHODS]
        if unknown:
            guess = did_you_mean(unknown[0], METHODS)
            raise UsageError(
                f"plan pareto knows no method {unknown[0]!r}{guess}; choose from {', '.join(METHODS)}."
            )
        if not methods:
            raise UsageError(f"There is no method to compare; choose from {', '.join(METHODS)}.")
        if problem.memory_mode == "strict":
            raise InputError(
                "memory_mode",
                'is "strict", which the exact methods have no model for',
                'take "reserved" with exclusive buffers: such plans never need more than strict memory allows',
            )
        exact.check(problem.replace(memory_bytes=None))

    @cached_property
    def candidates(self) -> tuple[Candidate, ...]:
        """PipeDream's plans, from the journal if it has them, where they are measured anew."""
        for where, line in records_of(self.journal, RUNS):
            rows = as_list(where, require(where, line, "plans"))
            return tuple(self._stored_plan(where, as_object(f"{where}.plans", row)) for row in rows)
        candidates = pipedream_front(self.problem)
        plans = [{"source": candidate.source, "plan": candidate.plan.to_json()} for candidate in candidates]
        self.journal.append({"record": RUNS, "plans": plans})
        return candidates

    def _stored_plan(self, where: str, record: Mapping[str, Any]) -> Candidate:
        plan = PatternPlan.from_json(require_object(where, record, "plan"), f"{where}: plan")
        return sweep.judged(measured(self.problem, plan, str(record.get("source"))), where)

    def exact(self, problem: ChainProblem, what: str, start: Candidate | None, method: str = "") -> Result:
        method = method or EXACT_METHODS[0]
        is_model = method in FORMULATIONS
        return solve(
            problem,
            formulation=method if is_model else None,
            planner=None if is_model else method,
            limits=self.settings.limits,
            # Exact methods number GPUs by their first layers.
            warm_start="none"
            if start is None
            else replace(start.plan, allocation=canonical(start.plan.allocation)),
            on_progress=self.watcher(what),
        )

    def whole(self, amount: float) -> float:
        return math.ceil(amount)

    def free_end(self, best: Candidate, least: float) -> Candidate:
        return _compact(self.problem, best, least, self.candidates, self.settings.limits)

    def keys(self) -> list[tuple[str, float]]:
        """Every method at every level, quick methods first, so that exact ones can start from their plans."""
        methods = sorted(dict.fromkeys(_methods(self.settings)), key=lambda name: name in EXACT_METHODS)
        return [(method, memory) for method in methods for memory in sweep.halving(sorted(self.known_ends.levels))]

    def point(self, method: str, limit: float) -> CurvePoint:
        if method == PIPEDREAM:
            return CurvePoint(limit, Stop.COMPLETED, best_within(self.candidates, limit), method=method)
        return super().point(method, limit)

    def start(self, method: str, memory: float) -> Candidate | None:
        """The best plan so far that fits and that an exact method can start from; others start from nothing."""
        exact = method in EXACT_METHODS
        return best_within(single([*self.candidates, *self.plans]), memory) if exact else None

    def along_curves(self) -> list[CurvePoint]:
        return curves(self.points.values(), self.known_ends, self.candidates, _methods(self.settings))


# ---- plans that are measured once and then serve every memory that they fit: those of PipeDream and of others ----


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


# ---- curves: plans hold at every larger memory, bounds at every smaller one ------------------------------------


def curves(
    points: Iterable[CurvePoint], ends: Ends, candidates: Sequence[Candidate], methods: Sequence[str]
) -> list[CurvePoint]:
    """All points by method and growing memory; along a curve neither period nor bound ever grows."""
    everything = list(points)
    answer: list[CurvePoint] = []
    for method in dict.fromkeys(methods):
        own = sweep.with_plans_from_below(point for point in everything if point.method == method)
        if method in EXACT_METHODS:
            own = sweep.with_bounds_from_above(own, ends.bound)
            own = [_with_several_batches(point, ends, candidates) for point in own]
        answer += own
    return answer


def _with_several_batches(point: CurvePoint, ends: Ends, candidates: Sequence[Candidate]) -> CurvePoint:
    """The point with PipeDream's plan where that is better.

    A plan that repeats after several batches may beat every plan that repeats after one; then the bound is the one that
    holds for any number of batches.
    """
    best = best_within(candidates, point.limit)
    if best is None or (point.value is not None and best.value >= point.value):
        return point
    shown = replace(point, candidate=best)
    if best.plan.batches_per_period == 1:
        return shown
    stop = Stop.COMPLETED if point.certified else point.stop
    return replace(shown, stop=stop, bound=sweep.no_more_than(ends.bound, best.value))


# ---- the ends --------------------------------------------------------------------------------------------------


def _compact(
    problem: ChainProblem,
    best: Candidate,
    low: float,
    candidates: tuple[Candidate, ...],
    limits: SolveOptions,
) -> Candidate:
    """Of plans with the unlimited optimum's period, the one with the least memory that is found.

    The optimum itself may hold more than it must: it delays batches as if memory were free.
    """
    stages = best_contiguous(problem)
    offered = None if stages is None else measured(problem, stages, UNLIMITED)
    rivals = [best, *single(candidates), *([] if offered is None else [offered])]
    best = min((r for r in rivals if r.value <= best.value * (1 + SAME)), key=lambda rival: rival.need)
    limit = COMPACT_S if limits.time_limit_s is None else min(COMPACT_S, limits.time_limit_s)
    solver = Solver(now() + limit, limits.seed, limits.memory_limit_bytes)
    question = QUESTION_SHARE * limit
    closeness = RESOLUTION * (best.need - low)
    while best.need - low > closeness and not solver.over():
        middle = (low + best.need) / 2
        smaller = _in_less_memory(problem.replace(memory_bytes=middle), best, solver, question)
        if smaller is None:
            low = middle
        else:
            best = smaller
    return best


def _in_less_memory(
    problem: ChainProblem, best: Candidate, solver: Solver, limit_s: float | None
) -> Candidate | None:
    """A plan with the allocation and period of `best` that fits the problem's smaller memory; None: the solver finds
    none within `limit_s` seconds."""
    chain = integer_chain(problem, coarse_steps(problem))
    period = math.ceil(best.value * float(chain.steps) * (1 - SAME))
    answer = fit(chain, Known.whole(best.plan.allocation), period, solver, limit_s)
    if not answer.fits or answer.values is None:
        return None
    plan = pattern(problem, chain, best.plan.allocation, answer.values)
    candidate = None if plan is None else measured(problem, plan, UNLIMITED)
    as_good = candidate is not None and candidate.value <= best.value * (1 + SAME) and candidate.need < best.need
    return candidate if as_good else None
