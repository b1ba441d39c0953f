"""`dp-piper` beyond the paper: pipelines that are flushed behind every batch, and devices of several types.

With a flush a batch of N micro-batches takes N + X - m slots where the stages have X copies in all and the fewest
copies of a stage are m (`least_flushed`): fewer copies may be better than a smaller load.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from ...instances.base.errors import InputError
from ...instances.registry import evaluation_of, violations_of
from ...instances.staging.plan import StagedPlan
from ...instances.staging.problem import StagingProblem
from ..contract import Outcome, Request
from ..referee import rules_of
from ..search import tick_of
from .costs import StagingMemory, whole_memory
from .levels import LevelDecisions, downsets
from .model import build
from .search import Found, Search, least_flushed, proven

CHECKS = ("the dynamic program decided over all downsets, for each number of copies and of devices",)


def is_extended(problem: Any, options: Any) -> bool:
    """Does the question go beyond the least load on devices that are alike?"""
    return bool(problem.device_types) or options.get("objective", "throughput") != "throughput"


def plan_extended(request: Request) -> Outcome:
    """The best plan, proven; the best so far where time runs out."""
    if request.options.get("knapsack", "exact") != "exact":
        raise InputError(
            "option knapsack", "is greedy, but flushes and types of devices need exact knapsacks", "give exact"
        )
    problem = request.problem
    memory = whole_memory(problem, min(problem.devices, problem.micro_batches))
    run = _Run(request, memory)

    def best(inside: bool) -> Found[StagedPlan] | None:
        return (_Run(request, memory.inside(), bounds=False) if inside else run).best()

    return proven(request, best, run.fits, CHECKS, run.size)


class _Run:
    """The search for one request: it posts each better plan, and the bound, on the request's board."""

    def __init__(self, request: Request, memory: StagingMemory, bounds: bool = True) -> None:
        self.request, self.problem, self.memory, self.bounds = request, request.problem, memory, bounds
        self.semantics = request.options.get("semantics", "paper")
        self.flush = request.options.get("objective", "throughput") == "flush"
        self.tick = tick_of(request)
        sets = _checked_downsets(self.problem)
        self.counted = LevelDecisions(self.problem, sets, memory, self.tick, semantics=self.semantics)
        self.low = 0.0
        """Lower bound on the largest load of every plan."""

    def size(self) -> dict[str, int]:
        return {"downsets": len(self.counted.sets), "decisions": self.counted.decisions}

    def best(self) -> Found[StagedPlan] | None:
        """The plan of the least load or, where batches are flushed, of the least load times slots."""
        self.tick()
        if self.problem.device_types:  # by the program that tells them apart
            best = self.counted.best(self._hear)
            self.low = self.low if best is None else best.load
        else:
            best = self._searched()
        if best is None or not self.flush:
            if best is not None:
                self.post(best, self.low)
            return best
        most = max(self.counted.counts) if self.problem.replication else 1
        numbers = range(1, min(most, self.problem.micro_batches) + 1)
        return least_flushed(self.problem, self.counted.decide, best, self.low, numbers, self.post)

    def fits(self, found: Found[StagedPlan]) -> bool:
        return self.memory.exact or not violations_of(self.problem, found.plan, semantics=self.semantics)

    def _hear(self, found: Found[StagedPlan], low: float) -> None:
        self.low = max(self.low, low)
        self.post(found, self.low)

    def _searched(self) -> Found[StagedPlan] | None:
        """The plan of the least load, by the faster program for devices that are alike."""
        model = replace(build(self.problem, self.semantics), memory=self.memory)
        search = Search(model, tick=self.tick)
        answer = search.best()
        if answer is None:
            return None
        self.low = search.bound
        plan = search.plan(answer[1])
        best = Found(plan, evaluation_of(self.problem, plan, semantics=self.semantics).time_per_micro_batch)
        self.low = min(self.low, best.load)
        self.post(best, self.low)
        return best

    def post(self, found: Found[StagedPlan], bound: float | None) -> None:
        """Post a plan, if it fits, and a bound. A bound on loads holds with flushes too, which only add to them."""
        plan = found.plan if self.fits(found) else None
        value = rules_of(self.problem, self.request.options).value(self.problem, found.plan)
        self.request.board.post(plan, value, bound if self.bounds else None, nodes=self.counted.decisions)


# The table has a dimension for each type.
MAX_TYPES = 3
# Largest number of entries in the table of one decision.
MAX_ENTRIES = 60_000_000


def _checked_downsets(problem: StagingProblem) -> list[int]:
    """The downsets of a problem that has not too many of them, of types or of devices."""
    if problem.exact_batches:
        raise InputError(
            "exact_batches", "is not planned where copies or types are counted", "plan for at most N micro-batches"
        )
    if len(problem.device_types) > MAX_TYPES:
        raise InputError("device_types", f"are {len(problem.device_types)}", f"give at most {MAX_TYPES}")
    sets = downsets(problem, what="for small graphs, where copies or types are counted")
    entries = math.prod(kind.devices + 1 for kind in problem.types) * len(sets)
    if entries > MAX_ENTRIES:
        raise InputError("devices", f"need a table of {entries:.3g} numbers", "give fewer")
    return sets
