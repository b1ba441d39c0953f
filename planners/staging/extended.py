"""`dp-piper` beyond the paper: pipelines that are flushed behind every batch, and devices of several types.

With a flush a batch of N micro-batches in S stages takes N + S - 1 slots as long as the largest load. Fewer stages may
be better than a smaller load: from the plan of the least load on, every smaller number of stages is asked for a load
that would make up for the difference, and the answers are proofs.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from ...instances.base.errors import InputError
from ...instances.base.result import Stop
from ...instances.verdict import evaluation_of, violations_of
from ..contract import Outcome, Request
from ..search import OutOfTimeError, tick_of
from .counted import Counted, Found
from .memory import StagingMemory, whole_memory
from .model import build
from .options import ROUNDED_MEMORY
from .search import STRICT, Search

CHECKS = ("the dynamic program decided over all downsets, for each number of stages and of devices",)


def is_extended(problem: Any, options: Any) -> bool:
    """Does the question go beyond the least load on devices that are alike?"""
    return bool(problem.device_types) or options.get("objective", "throughput") != "throughput"


def plan_extended(request: Request) -> Outcome:
    """The best plan, proven; the best so far where time runs out."""
    if request.options.get("knapsack", "exact") != "exact":
        raise InputError("option knapsack", "is greedy beyond the published problem", "give exact")
    problem, board = request.problem, request.board
    memory = whole_memory(problem, min(problem.devices, problem.micro_batches))
    run, messages = _Run(request, memory), tuple[str, ...]()
    try:
        best = run.best()
        if best is None:
            return Outcome(Stop.INFEASIBLE, model_size=run.size(), checks=CHECKS)
        if not run.fits(best):  # the bound stays
            messages = (ROUNDED_MEMORY,)
            _Run(request, memory.inside(), bounds=False).best()
    except OutOfTimeError:
        return Outcome(Stop.TIME, board.plan, board.value, board.bound, model_size=run.size())
    size = run.size()
    return Outcome(
        Stop.COMPLETED, board.plan, board.value, board.bound, model_size=size, messages=messages, checks=CHECKS
    )


class _Run:
    def __init__(self, request: Request, memory: StagingMemory, bounds: bool = True) -> None:
        self.request, self.problem, self.memory, self.bounds = request, request.problem, memory, bounds
        self.semantics = request.options.get("semantics", "paper")
        self.flush = request.options.get("objective", "throughput") == "flush"
        self.tick = tick_of(request)
        self.counted = Counted(self.problem, self.semantics, memory, self.tick)
        self.low = 0.0
        """No load of any plan is below."""

    def size(self) -> dict[str, int]:
        return {"downsets": len(self.counted.sets), "decisions": self.counted.decisions}

    def best(self) -> Found | None:
        return self.flushed() if self.flush else self.fastest()

    def fits(self, found: Found) -> bool:
        return self.memory.exact or not violations_of(self.problem, found.plan, semantics=self.semantics)

    def value(self, found: Found) -> float:
        return found.load * (self.slots(found.stages) / self.problem.micro_batches if self.flush else 1.0)

    def slots(self, stages: int) -> int:
        """Of one batch, until the pipeline is empty again."""
        return int(self.problem.micro_batches) + stages - 1

    def fastest(self) -> Found | None:
        """The plan of the least load."""
        self.tick()
        best = self._counted() if self.problem.device_types else self._searched()
        if best is not None and not self.flush:
            self.post(best, self.low)
        return best

    def flushed(self) -> Found | None:
        """The plan of the least load times slots."""
        best = self.fastest()
        if best is None:
            return None
        batches = self.problem.micro_batches
        # More stages than those of the least load have no smaller load: they are out.
        bound, low = self.slots(best.stages) * self.low / batches, self.low
        for stages in range(best.stages - 1, 0, -1):
            limit = self.value(best) * batches / self.slots(stages) * (1 - STRICT)
            if limit <= low:
                continue
            found = self.counted.best(stages, low, limit, lambda found, _: self.post(found, None))
            best, low = (best, limit) if found is None else (found, found.load)
        self.post(best, min(bound, self.value(best)))
        return best

    def _counted(self) -> Found | None:
        """By the program that tells types of devices apart."""
        best = self.counted.best(None, self.counted.lower_bound(), math.inf, self._hear)
        if best is not None:
            self.low = best.load
        return best

    def _hear(self, found: Found, low: float) -> None:
        self.low = max(self.low, low)
        self.post(found, self.low)

    def _searched(self) -> Found | None:
        """By the faster program for devices that are alike."""
        model = replace(build(self.problem, self.semantics), memory=self.memory)
        search = Search(model, tick=self.tick)
        answer = search.best()
        if answer is None:
            return None
        self.low = search.bound
        plan = search.plan(answer[1])
        found = Found(plan, evaluation_of(self.problem, plan, semantics=self.semantics).time_per_micro_batch)
        self.low = min(self.low, found.load)
        self.post(found, self.low)
        return found

    def post(self, found: Found, bound: float | None) -> None:
        """A flush only adds to the largest load, so that bounds on it hold there, too."""
        plan = found.plan if self.fits(found) else None
        value = None if plan is None else self.value(found)
        bound = bound if self.bounds else None
        self.request.board.post(plan, value, bound, nodes=self.counted.decisions)
