"""The best schedule of an allocation that the user gives: no search over allocations, the same proof."""

from __future__ import annotations

import math
from dataclasses import replace

from ...formulations.beaumont.bounds import lower_bound_of
from ...formulations.beaumont.integer_chain import IntegerChain, integer_chain
from ...formulations.beaumont.scope import loads_decide
from ...instances.base.amounts import as_written
from ...instances.base.result import Stop
from ...instances.chain.plan import PatternPlan
from ...instances.chain.problem import ChainProblem
from ...instances.verdict import violations_of
from ..contract import Outcome, Request
from .allocation import packed_pattern
from .grids import coarse_steps, fine_steps
from .schedule import Schedule, best_schedule
from .smallest_memory import memory_of, one_by_one
from .standing import Standing


class GivenAllocation(Standing):
    """One request for the schedule of an allocation."""

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
        """On one grid, below the best plan."""
        cutoff = None if self.best is None else self.best.period
        refuted = max(refuted, math.ceil(as_written(self.bound) * chain.steps) - 1)
        found = best_schedule(self.problem, chain, self.allocation, cutoff, self.solver, None, refuted)
        self.tell(found.plan, chain.true_time(found.refuted))
        return found
