"""The planner `exact-beaumont`: proven optimal periodic patterns, anytime, with a valid bound at every moment."""

from __future__ import annotations

import math
import os
import threading
from dataclasses import replace
from fractions import Fraction
from time import monotonic

from ...formulations.beaumont.bounds import lower_bound
from ...formulations.beaumont.integer_chain import integer_chain
from ...formulations.beaumont.scope import loads_decide
from ...instances.chain.allocation import given_allocation
from ...instances.chain.plan import PatternPlan
from ...instances.chain.problem import ChainProblem
from ...instances.chain.referee.evaluate import verify_pattern
from ...instances.errors import InputError
from ...instances.result import PROVEN_TOLERANCE, StartOutcome, Stop, WarmStart, relative_gap
from ..contract import Outcome, Request
from .allocation import balanced, least_period, packed_pattern
from .annealing import canonical
from .contiguous import best_contiguous
from .given import LOADS_DECIDE, REFUTED_ON_GRIDS, GivenAllocation
from .grids import coarse_steps, fine_steps
from .search import Refuted, Search
from .solver import Solver


class ExactBeaumont:
    """Allocations from a relaxation, schedules by CP, and cores of what was refuted; loads alone without a limit."""

    def plan(self, request: Request) -> Outcome:
        problem = request.problem
        assert isinstance(problem, ChainProblem)
        check(problem)
        allocation = given_allocation(problem, request.options)
        if allocation is not None:
            return GivenAllocation(problem, request, allocation).outcome()
        run = _Run(problem, request)
        return run.without_memory() if loads_decide(problem) else run.with_memory()


PLANNER = ExactBeaumont()


def check(problem: ChainProblem) -> None:
    """The memory modes for which orders and shifts decide the memory; and time must pass."""
    if problem.memory_mode == "strict" and problem.memory_bytes is not None:
        raise InputError(
            "memory_mode",
            'is "strict", which exact-beaumont has no model for',
            'take "reserved" with exclusive buffers: such plans never need more than strict memory allows',
        )
    if not any(problem.durations):
        raise InputError("forward", "and backward are all 0", "give at least one task a time")


class _Run:
    """One request: the clock, the board, and grids from coarse to fine."""

    def __init__(self, problem: ChainProblem, request: Request) -> None:
        self.problem = problem
        self.request = request
        left = request.seconds_left()
        self.solver = Solver(None if left is None else monotonic() + left, request.limits.seed)
        self.workers = request.limits.threads or os.cpu_count() or 1
        self.best: PatternPlan | None = None
        self.start_outcome = StartOutcome.NONE
        self.bound = lower_bound(problem)
        self._lock = threading.Lock()

    def _tell(self, plan: PatternPlan | None, bound: float) -> None:
        """Post what is new; stop everything once the gap that was asked for is reached."""
        with self._lock:
            if plan is not None and (self.best is None or plan.period < self.best.period):
                self.best = plan
            if self.best is not None:
                bound = min(bound, self.best.period)
            self.bound = max(self.bound, bound)
            value = None if plan is None else plan.period
            self.request.board.post(plan, value, self.bound, self.solver.solved)
            if self._close_enough():
                self.solver.stopped.set()

    def _close_enough(self) -> bool:
        if self.best is None:
            return False
        limits, gap = self.request.limits, relative_gap(self.best.period, self.bound)
        wanted = max(limits.rel_gap, PROVEN_TOLERANCE)
        return self.best.period - self.bound <= limits.abs_gap or (gap is not None and gap <= wanted)

    # ---- no memory limit: an allocation problem -----------------------------------------------------------

    def without_memory(self) -> Outcome:
        """The schedule model is not touched: every allocation can reach its largest load (Lemma 1)."""
        start = best_contiguous(self.problem)
        assert start is not None
        self._tell(packed_pattern(self.problem, start.allocation), 0.0)
        chain = integer_chain(self.problem, fine_steps(self.problem, self.best))
        found = balanced(chain, self.solver, self.workers, start.allocation)
        plan = None if found.allocation is None else packed_pattern(self.problem, found.allocation)
        self._tell(plan, chain.true_time(found.bound))
        return self._outcome(found.proven)

    # ---- with a memory limit ------------------------------------------------------------------------------

    def with_memory(self) -> Outcome:
        for start in (best_contiguous(self.problem), self._given()):
            if start is not None and not verify_pattern(self.problem, start):
                self._tell(start, 0.0)
        try:
            search = self._search(coarse_steps(self.problem))
            search.run(self.workers)
            if self.best is None:
                stop = Stop.INFEASIBLE if search.done() and not search.exhausted else self.solver.unfinished()
                return self._outcome(False, stop)
            if search.done() and not self.solver.over():
                search = self._search(fine_steps(self.problem, self.best), search)
                search.run(self.workers)
                self._settle(search)
        except KeyboardInterrupt:
            self.solver.stopped.set()
            return self._outcome(False, Stop.INTERRUPTED)
        return self._outcome(search.done())

    def _given(self) -> PatternPlan | None:
        """The warm start, its GPUs numbered by their first layers."""
        plan: PatternPlan | None = self.request.warm_start
        if plan is None:
            return None
        self.start_outcome = StartOutcome.ACCEPTED
        return replace(plan, allocation=canonical(plan.allocation))

    def _settle(self, search: Search) -> None:
        """Below the plan there is no ratio left that could be a least period."""
        chain = search.chain
        ratios = chain.exact and chain.steps >= chain.most_shifts * coarse_steps(self.problem)
        decided = search.lower >= search.ceiling and not self.problem.exclusive_buffers
        if ratios and decided and self.best is not None:
            self._tell(None, self.best.period)

    def _search(self, steps: Fraction, before: Search | None = None) -> Search:
        """A grid's search; a finer one takes over what the coarser one has refuted and can refute again."""
        chain = integer_chain(self.problem, steps)
        search = Search(self.problem, chain, self.solver, least_period(chain) - 1, self.best, self._tell)
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
        proven = self._close_enough()
        if stop is None:
            stop = Stop.PROVEN if proven else (Stop.COMPLETED if complete else self.solver.unfinished())
        plan = self.best
        return Outcome(
            stop,
            plan,
            None if plan is None else plan.period,
            None if stop == Stop.INFEASIBLE else self.bound,
            warm_start=WarmStart(self.start_outcome),
            backend=self.solver.backend(),
            checks=(LOADS_DECIDE if loads_decide(self.problem) else REFUTED_ON_GRIDS,),
        )
