"""How a request stands: the best pattern and the bound so far, and what the planner answers with them."""

from __future__ import annotations

from ...formulations.beaumont.scope import loads_decide
from ...instances.base.clock import now
from ...instances.base.result import StartOutcome, Stop, WarmStart, met
from ...instances.chain.plan import PatternPlan
from ...instances.chain.problem import ChainProblem
from ..contract import Outcome, Request
from .solver import Solver

LOADS_DECIDE = "every allocation reaches its largest load, and no allocation has a smaller one"
REFUTED_ON_GRIDS = "shorter periods were refuted on whole steps of a grid, with all times rounded down to it"


class Standing:
    """What is known is posted at once."""

    def __init__(self, problem: ChainProblem, request: Request, bound: float) -> None:
        self.problem, self.request, self.bound = problem, request, bound
        left = request.seconds_left()
        deadline = None if left is None else now() + left
        self.solver = Solver(deadline, request.limits.seed, request.limits.memory_limit_bytes)
        self.best: PatternPlan | None = None
        self.start_outcome = StartOutcome.NONE
        self.counts: dict[str, int] = {}
        """How much the search did."""

    def tell(self, plan: PatternPlan | None, bound: float) -> None:
        """A plan or None, and a bound: kept where they are better."""
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
