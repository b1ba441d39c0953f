"""The planner `exact-beaumont`: proven optimal periodic patterns, anytime, with a valid bound at every moment."""

from __future__ import annotations

import math
import os
import threading
from dataclasses import replace
from fractions import Fraction

from ...formulations.beaumont.bounds import loads_decide, lower_bound, lower_bound_of
from ...formulations.beaumont.integer_chain import IntegerChain, integer_chain
from ...instances.base.amounts import as_written, common_unit
from ...instances.base.clock import now
from ...instances.base.errors import InputError
from ...instances.base.result import PROVEN_TOLERANCE, StartOutcome, Stop, WarmStart, met
from ...instances.chain.allocation import given_allocation
from ...instances.chain.plan import PatternPlan
from ...instances.chain.problem import ChainProblem
from ...instances.registry import violations_of
from ..contract import Outcome, Request
from .allocation import balanced, least_period, packed_pattern
from .annealing import canonical
from .contiguous import best_contiguous
from .schedule import Schedule, best_schedule
from .search import Refuted, Search
from .smallest_memory import memory_of, one_by_one
from .solver import Solver

# ---- grids -------------------------------------------------------------------------------------------
#
# The grids of whole steps on which the decomposition works: the times' own, or a rounded one, then a fine one.

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


# ---- exact -------------------------------------------------------------------------------------------

# How the bound of a result was checked, in the words of the result.
LOADS_DECIDE = "every allocation reaches its largest load, and no allocation has a smaller one"
REFUTED_ON_GRIDS = "shorter periods were refuted on whole steps of a grid, with all times rounded down to it"


class BestSoFar:
    """The best pattern and the bound so far, posted as soon as they are better, and the answer made of them."""

    def __init__(self, problem: ChainProblem, request: Request, bound: float) -> None:
        self.problem, self.request, self.bound = problem, request, bound
        left = request.seconds_left()
        deadline = None if left is None else now() + left
        self.solver = Solver(deadline, request.limits.seed, request.limits.memory_limit_bytes)
        self.best: PatternPlan | None = None
        self.start_outcome = StartOutcome.NONE
        self.counts: dict[str, int] = {}
        """Numbers of schedules that were sought and of facts that were refuted."""

    def tell(self, plan: PatternPlan | None, bound: float) -> None:
        """Keep the plan and the bound where they are better than those so far, and post them."""
        if plan is not None and (self.best is None or plan.period < self.best.period):
            self.best = plan
        if self.best is not None:
            bound = min(bound, self.best.period)
        self.bound = max(self.bound, bound)
        value = None if plan is None else plan.period
        self.request.board.post(plan, value, self.bound, self.solver.solved)

    def proven(self) -> bool:
        return self.best is not None and met(self.best.period, self.bound)

    def answer(self, stop: Stop) -> Outcome:
        return Outcome(
            stop,
            self.best,
            None if self.best is None else self.best.period,
            None if stop == Stop.INFEASIBLE else self.bound,
            warm_start=WarmStart(self.start_outcome),
            backend=self.solver.backend(),
            model_size=self.counts,
            messages=self.solver.messages(),
            checks=(LOADS_DECIDE if loads_decide(self.problem) else REFUTED_ON_GRIDS,),
        )


class GivenAllocation(BestSoFar):
    """The best schedule of an allocation that the user gives: no search over allocations, the same proof."""

    def __init__(self, problem: ChainProblem, request: Request, allocation: tuple[int, ...]) -> None:
        super().__init__(problem, request, 0.0)
        self.allocation = allocation

    def tell(self, plan: PatternPlan | None, bound: float) -> None:
        super().tell(None if plan is None else replace(plan, allocation=self.allocation), bound)

    def outcome(self) -> Outcome:
        """Without a memory limit the loads decide (Lemma 1); else grids from coarse to fine."""
        problem = self.problem
        self.tell(None, lower_bound_of(problem, self.allocation))
        if loads_decide(problem):
            self.tell(packed_pattern(problem, self.allocation), self.bound)
            return self.answer(Stop.PROVEN)
        memory = problem.memory_bytes
        if memory is not None and memory_of(problem, self.allocation).memory_bytes > memory:
            return self.answer(Stop.INFEASIBLE)
        start = one_by_one(problem, self.allocation)
        if not violations_of(problem, start):
            self.tell(start, self.bound)
        try:
            return self.answer(self._on_grids())
        except KeyboardInterrupt:
            self.solver.stopped.set()
            return self.answer(Stop.INTERRUPTED)

    def _on_grids(self) -> Stop:
        """Search the coarse grid, then a fine one below the plan that the coarse one gave; say why the search ended."""
        coarse = integer_chain(self.problem, coarse_steps(self.problem))
        first = self._schedule(coarse, 0)
        if self.best is None:
            return Stop.INFEASIBLE if first.proven else self.solver.unfinished()
        if self.proven() or not (first.proven or first.finer):
            return Stop.PROVEN if self.proven() else self.solver.unfinished()
        fine = integer_chain(self.problem, fine_steps(self.problem, self.best))
        last = self._schedule(fine, math.floor(first.refuted * (fine.steps / coarse.steps)))
        ratios = fine.exact and fine.steps >= fine.most_shifts * coarse.steps
        if last.proven and ratios and not self.problem.exclusive_buffers:
            self.tell(None, self.best.period)  # no ratio is left below that could be a least period
        if self.proven():
            return Stop.PROVEN
        return Stop.COMPLETED if last.proven or last.finer else self.solver.unfinished()

    def _schedule(self, chain: IntegerChain, refuted: int) -> Schedule:
        """The best schedule on one grid whose period is below that of the best plan."""
        cutoff = None if self.best is None else self.best.period
        refuted = max(refuted, math.ceil(as_written(self.bound) * chain.steps) - 1)
        answer = best_schedule(self.problem, chain, self.allocation, cutoff, self.solver, None, refuted)
        self.tell(answer.plan, chain.true_time(answer.refuted))
        return answer


class ExactBeaumont:
    """Takes allocations from a relaxation, schedules by CP, and learns cores; without a limit loads alone decide."""

    def plan(self, request: Request) -> Outcome:
        problem: ChainProblem = request.problem
        check(problem)
        allocation = given_allocation(problem, request.options)
        if allocation is not None:
            return GivenAllocation(problem, request, allocation).outcome()
        run = _Run(problem, request)
        return run.without_memory() if loads_decide(problem) else run.with_memory()


PLANNER = ExactBeaumont()


def check(problem: ChainProblem) -> None:
    """Refuse mode strict with a limit, where orders and shifts do not decide the memory, and chains without time."""
    if problem.memory_mode == "strict" and problem.memory_bytes is not None:
        raise InputError(
            "memory_mode",
            'is "strict", which exact-beaumont has no model for',
            'take "reserved" with exclusive buffers: such plans never need more than strict memory allows',
        )
    if not any(problem.durations):
        raise InputError("forward", "and backward are all 0", "give at least one task a time")


class _Run(BestSoFar):
    """One request on grids from coarse to fine; several threads report what they find to `tell`."""

    def __init__(self, problem: ChainProblem, request: Request) -> None:
        super().__init__(problem, request, lower_bound(problem))
        self.workers = request.limits.threads or os.cpu_count() or 1
        self._lock = threading.Lock()

    def tell(self, plan: PatternPlan | None, bound: float) -> None:
        """Keep what is better, and stop everything once the gap that was asked for is reached."""
        with self._lock:
            super().tell(plan, bound)
            if self._close_enough():
                self.solver.stopped.set()

    def _close_enough(self) -> bool:
        best, limits = self.best, self.request.limits
        return self.proven() or (best is not None and limits.reached(best.period, self.bound))

    # ---- no memory limit: an allocation problem -----------------------------------------------------------

    def without_memory(self) -> Outcome:
        """Seek only an allocation, and no schedule: every allocation can reach its largest load (Lemma 1)."""
        start = best_contiguous(self.problem)
        assert start is not None
        self.tell(packed_pattern(self.problem, start.allocation), 0.0)
        chain = integer_chain(self.problem, fine_steps(self.problem, self.best))
        balance = balanced(chain, self.solver, self.workers, start.allocation)
        plan = None if balance.allocation is None else packed_pattern(self.problem, balance.allocation)
        self.tell(plan, chain.true_time(balance.bound))
        return self._outcome(balance.proven)

    # ---- with a memory limit ------------------------------------------------------------------------------

    def with_memory(self) -> Outcome:
        for start in (best_contiguous(self.problem), self._given()):
            if start is not None and not violations_of(self.problem, start):
                self.tell(start, 0.0)
        try:
            search = self._search(coarse_steps(self.problem))
            self._run(search)
            if self.best is None:
                stop = Stop.INFEASIBLE if search.done() and not search.exhausted else self.solver.unfinished()
                return self._outcome(False, stop)
            if search.done() and not self.solver.over():
                search = self._search(fine_steps(self.problem, self.best), search)
                self._run(search)
                self._settle(search)
        except KeyboardInterrupt:
            self.solver.stopped.set()
            return self._outcome(False, Stop.INTERRUPTED)
        return self._outcome(search.done())

    def _run(self, search: Search) -> None:
        """Search one grid, and count: schedules of all grids; facts of this grid, which has taken over those before."""
        search.run(self.workers)
        self.counts = {
            "schedules": self.counts.get("schedules", 0) + search.schedules,
            "refuted": len(search.refuted),
        }

    def _given(self) -> PatternPlan | None:
        """The warm start, its GPUs numbered by their first layers."""
        plan: PatternPlan | None = self.request.warm_start
        if plan is None:
            return None
        self.start_outcome = StartOutcome.ACCEPTED
        return replace(plan, allocation=canonical(plan.allocation))

    def _settle(self, search: Search) -> None:
        """Prove the plan optimal where no ratio below its period is left that could be a least period."""
        chain = search.chain
        ratios = chain.exact and chain.steps >= chain.most_shifts * coarse_steps(self.problem)
        decided = search.lower >= search.ceiling and not self.problem.exclusive_buffers
        if ratios and decided and self.best is not None:
            self.tell(None, self.best.period)

    def _search(self, steps: Fraction, before: Search | None = None) -> Search:
        """A grid's search; a finer one takes over what the coarser one has refuted and can refute again."""
        chain = integer_chain(self.problem, steps)
        search = Search(self.problem, chain, self.solver, least_period(chain) - 1, self.best, self.tell)
        if before is None:
            return search
        finer = chain.steps / before.chain.steps
        search.lower = max(search.lower, math.floor(before.lower * finer))
        for item in before.refuted:
            again = search.refuter.refutes(item.known, search.ceiling)
            period = search.ceiling if again else math.floor(item.period * finer)
            search.refuted.append(Refuted(item.known, period))
        return search

    def _outcome(self, complete: bool, stop: Stop | None = None) -> Outcome:
        if stop is None and self._close_enough():
            stop = Stop.PROVEN
        elif stop is None:
            stop = Stop.COMPLETED if complete else self.solver.unfinished()
        return self.answer(stop)
