"""The best schedule of an allocation that the user gives: no search over allocations, the same proof."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from time import monotonic

from ...formulations.beaumont.bounds import lower_bound_of
from ...formulations.beaumont.integer_chain import IntegerChain, integer_chain
from ...formulations.beaumont.scope import loads_decide
from ...instances.amounts import as_written
from ...instances.chain.plan import PatternPlan
from ...instances.chain.problem import ChainProblem
from ...instances.chain.referee.evaluate import verify_pattern
from ...instances.result import PROVEN_TOLERANCE, Stop, relative_gap
from ..contract import Outcome, Request
from .allocation import packed_pattern
from .grids import coarse_steps, fine_steps
from .schedule import Schedule, best_schedule
from .smallest_memory import memory_of, one_by_one
from .solver import Solver

LOADS_DECIDE = "every allocation reaches its largest load, and no allocation has a smaller one"
REFUTED_ON_GRIDS = "shorter periods were refuted on whole steps of a grid, with all times rounded down to it"


@dataclass
class GivenAllocation:
    """One request; what is known of it is posted at once."""

    problem: ChainProblem
    request: Request
    allocation: tuple[int, ...]
    plan: PatternPlan | None = None
    bound: float = 0.0

    def __post_init__(self) -> None:
        left = self.request.seconds_left()
        self.solver = Solver(None if left is None else monotonic() + left, self.request.limits.seed)

    def outcome(self) -> Outcome:
        """Without a memory limit the loads decide (Lemma 1); else grids from coarse to fine."""
        problem = self.problem
        self._tell(None, lower_bound_of(problem, self.allocation))
        if loads_decide(problem):
            self._tell(packed_pattern(problem, self.allocation), self.bound)
            return self._answer(Stop.PROVEN)
        memory = problem.memory_bytes
        if memory is not None and memory_of(problem, self.allocation).memory_bytes > memory:
            return self._answer(Stop.INFEASIBLE)
        start = one_by_one(problem, self.allocation)
        if not verify_pattern(problem, start):
            self._tell(start, self.bound)
        try:
            return self._answer(self._on_grids())
        except KeyboardInterrupt:
            self.solver.stopped.set()
            return self._answer(Stop.INTERRUPTED)

    def _on_grids(self) -> Stop:
        coarse = integer_chain(self.problem, coarse_steps(self.problem))
        first = self._schedule(coarse, 0)
        if self.plan is None:
            return Stop.INFEASIBLE if first.proven else self.solver.unfinished()
        if self._proven() or not (first.proven or first.finer):
            return Stop.PROVEN if self._proven() else self.solver.unfinished()
        fine = integer_chain(self.problem, fine_steps(self.problem, self.plan))
        last = self._schedule(fine, math.floor(first.refuted * (fine.steps / coarse.steps)))
        ratios = fine.exact and fine.steps >= fine.most_shifts * coarse.steps
        if last.proven and ratios and not self.problem.exclusive_buffers:
            self._tell(None, self.plan.period)  # no ratio is left below that could be a least period
        if self._proven():
            return Stop.PROVEN
        return Stop.COMPLETED if last.proven or last.finer else self.solver.unfinished()

    def _schedule(self, chain: IntegerChain, refuted: int) -> Schedule:
        """On one grid, below the best plan."""
        cutoff = None if self.plan is None else self.plan.period
        refuted = max(refuted, math.ceil(as_written(self.bound) * chain.steps) - 1)
        found = best_schedule(self.problem, chain, self.allocation, cutoff, self.solver, None, refuted)
        self._tell(found.plan, chain.true_time(found.refuted))
        return found

    def _tell(self, plan: PatternPlan | None, bound: float) -> None:
        if plan is not None and (self.plan is None or plan.period < self.plan.period):
            self.plan = replace(plan, allocation=self.allocation)
        if self.plan is not None:
            bound = min(bound, self.plan.period)
        self.bound = max(self.bound, bound)
        value = None if self.plan is None else self.plan.period
        self.request.board.post(self.plan, value, self.bound, self.solver.solved)

    def _proven(self) -> bool:
        if self.plan is None:
            return False
        gap = relative_gap(self.plan.period, self.bound)
        return gap is not None and gap <= PROVEN_TOLERANCE

    def _answer(self, stop: Stop) -> Outcome:
        plan = self.plan
        return Outcome(
            stop,
            plan,
            None if plan is None else plan.period,
            None if stop == Stop.INFEASIBLE else self.bound,
            backend=self.solver.backend(),
            checks=(LOADS_DECIDE if loads_decide(self.problem) else REFUTED_ON_GRIDS,),
        )
