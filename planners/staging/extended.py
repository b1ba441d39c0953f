"""`dp-piper` beyond the paper: pipelines that are flushed behind every batch, and devices of several types.

With a flush a batch of N micro-batches takes N + X - m slots where the stages have X copies in all and the fewest
copies of a stage are m (`least_flushed`): fewer copies may be better than a smaller load.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from ...instances.base.errors import InputError
from ...instances.registry import evaluation_of, violations_of
from ...instances.staging.plan import PlannedStage, StagedPlan
from ...instances.staging.problem import StagingProblem
from ..contract import Outcome, Request
from ..referee import rules_of
from ..search import tick_of
from .costs import Shape, StageCosts, StagingMemory, whole_memory
from .levels import downsets
from .model import ROUNDING, build
from .search import Found, Search, least_flushed, least_load, proven

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
        self.counted = Counted(self.problem, self.semantics, memory, self.tick)
        self.low = 0.0
        """Lower bound on the largest load of every plan."""

    def size(self) -> dict[str, int]:
        return {"downsets": len(self.counted.sets), "decisions": self.counted.decisions}

    def best(self) -> Found[StagedPlan] | None:
        """The plan of the least load or, where batches are flushed, of the least load times slots."""
        self.tick()
        if self.problem.device_types:  # by the program that tells them apart
            best = self.counted.best(self.counted.lower_bound(), self._hear)
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


# ---- Devices by type, and stages with no fewer than so many copies: plans within a limit ------------------
# For a limit on all loads and every downset D (what is left to do behind a stage is one),
#
#     least[D][k_1, k_2, ...] = the least sum of data-parallel degrees with which D is done on at most k_i devices of
#                               type i,
#
# infinite where it cannot be. The least sum is all that the stages before need to know: fewer micro-batches in flight
# never need more memory. For the same reason a stage takes the fewest replicas that stay within the limit: more cost
# devices and leave more in flight. The least limit is found by bisection, each answer snapped to the plan that it
# has.
#
# Plain numpy over all pairs of downsets: for graphs of up to `MAX_DOWNSETS` downsets. Throughput on devices that are
# alike has a faster program (`search`).

MAX_DOWNSETS = 300
# The table has a dimension for each type.
MAX_TYPES = 3
# Largest number of entries in the table of one decision.
MAX_ENTRIES = 60_000_000


class Counted:
    """Finds plans with all loads within a limit, for one problem."""

    def __init__(
        self,
        problem: StagingProblem,
        semantics: str,
        memory: StagingMemory,
        tick: Callable[[], None] = lambda: None,
    ) -> None:
        _check(problem)
        self.problem, self.semantics, self.tick = problem, semantics, tick
        self.sets = downsets(problem, MAX_DOWNSETS, "for small graphs, where copies or types are counted")
        self.costs = StageCosts(problem, semantics, memory)
        self.counts = tuple(kind.devices for kind in problem.types)
        self.decisions = 0
        self.fewest_copies = 1
        """The fewest copies that a stage may have, in the last decision."""
        self.least: list[Any] = []
        """The table `least` of the last decision, for each downset."""

    def lower_bound(self) -> float:
        """All work, shared among all devices by their speeds: no plan's largest load is below."""
        work = sum(
            min(t * way.time for t, ways in layer.configurations.items() for way in ways)
            for layer in self.problem.layers
        )
        return work / sum(kind.devices * kind.speed for kind in self.problem.types)

    # ---- the least load ----------------------------------------------------------------------------------

    def best(
        self, low: float, hear: Callable[[Found[StagedPlan], float], None] = lambda found, low: None
    ) -> Found[StagedPlan] | None:
        """The plan of the least load; `low` is a bound. `hear` gets each better plan and the bound at that time."""
        best = self.decide(math.inf)
        return best and least_load(best, low, self.decide, hear)

    def decide(self, limit: float, fewest_copies: int = 1) -> Found[StagedPlan] | None:
        """A plan with all loads within the limit and at least so many copies of each stage, and the fewest in all."""
        self.decisions += 1
        self.fewest_copies = fewest_copies
        shape = tuple(count + 1 for count in self.counts)
        if math.prod(shape) * len(self.sets) > MAX_ENTRIES:
            raise InputError(
                "devices", f"need a table of {math.prod(shape) * len(self.sets):.3g} numbers", "give fewer"
            )
        self.least = [np.zeros(shape, dtype=np.int64)]
        beyond = self.costs.most + 1
        for j in range(1, len(self.sets)):
            values = np.full(shape, beyond, dtype=np.int64)
            for i in self._below(j):
                self.tick()
                for stage, fewest in self._stages(j, i, limit):
                    self._relax(values, self.least[i], stage, fewest)
            self.least.append(values)
        if self.least[-1][self.counts] >= beyond:
            return None
        plan = StagedPlan(tuple(self._back(limit)))
        return Found(plan, evaluation_of(self.problem, plan, semantics=self.semantics).time_per_micro_batch)

    def _below(self, j: int) -> Iterator[int]:
        """Downsets that are smaller parts of downset j."""
        return (i for i in range(j) if not self.sets[i] & ~self.sets[j])

    def _stages(self, j: int, i: int, limit: float) -> Iterator[tuple[Shape, Any]]:
        """Stages between two downsets, each with the fewest replicas by the sum of degrees behind it (0: none)."""
        for kind, count in enumerate(self.counts):
            for t in self.problem.degrees:
                shape = Shape(self.sets[j] & ~self.sets[i], kind, t)
                if t <= count and self.costs.possible(shape):
                    fewest = self._fewest(shape, limit)
                    if fewest is not None:
                        yield shape, fewest

    def _fewest(self, shape: Shape, limit: float) -> Any:
        """The fewest replicas by the sum of degrees behind; None where no number is enough."""
        fewest = np.zeros(self.costs.most + 2, dtype=np.int64)
        done = 0  # sums below this have their number
        least = self.costs.floor(shape) * (1 - ROUNDING)
        for d in self.costs.replicas(shape):
            if least > limit * d or d < self.fewest_copies:
                continue
            reach = min(d * (self.costs.most_in_flight(shape, d, limit) - 1) + 1, self.costs.most + 1 - d)
            if reach > done:
                fewest[done:reach] = d
                done = reach
            if done > self.costs.most - d:
                break  # more replicas reach no further
        return fewest if done else None

    def _relax(self, values: Any, rest: Any, shape: Shape, fewest: Any) -> None:
        """Put the stage before the rest, with as many replicas as what is behind it asks for."""
        replicas = fewest[rest]
        axis = shape.kind
        for d in np.unique(replicas):
            devices = int(d) * shape.tensor_parallel
            if d and devices < values.shape[axis]:
                before, target = _shifted(values.ndim, axis, devices)
                total = np.where(replicas == d, rest + d, self.costs.most + 1)
                np.minimum(values[target], total[before], out=values[target])

    # ---- back --------------------------------------------------------------------------------------------

    def _back(self, limit: float) -> Iterator[PlannedStage]:
        """The stages of the plan, first in execution order first: the same numbers as on the way forward."""
        j, at = len(self.sets) - 1, list(self.counts)
        while j:
            i, shape, d = self._step(j, at, limit)
            suffix = int(self.least[j][tuple(at)])
            ways = self.costs.ways(shape, d, -(-suffix // d))
            kind = self.problem.device_types[shape.kind].name if self.problem.device_types else None
            yield PlannedStage(tuple(ways), d, shape.tensor_parallel, ways, kind)
            j = i
            at[shape.kind] -= d * shape.tensor_parallel

    def _step(self, j: int, at: list[int], limit: float) -> tuple[int, Shape, int]:
        value = int(self.least[j][tuple(at)])
        for i in self._below(j):
            for shape, fewest in self._stages(j, i, limit):
                for d in self.costs.replicas(shape):
                    before = list(at)
                    before[shape.kind] -= d * shape.tensor_parallel
                    if before[shape.kind] < 0:
                        break
                    behind = int(self.least[i][tuple(before)])
                    if fewest[behind] == d and behind + d == value:
                        return i, shape, d
        raise AssertionError("every finite entry has been reached by a stage")


def _shifted(dimensions: int, axis: int, step: int) -> tuple[tuple[slice, ...], tuple[slice, ...]]:
    """Slices of a table: entries before a stage is added, and those after it, `step` devices further along its axis."""
    before, target = [slice(None)] * dimensions, [slice(None)] * dimensions
    before[axis], target[axis] = slice(None, -step), slice(step, None)
    return tuple(before), tuple(target)


def _check(problem: StagingProblem) -> None:
    if problem.exact_batches:
        raise InputError(
            "exact_batches", "is not planned where copies or types are counted", "plan for at most N micro-batches"
        )
    if len(problem.device_types) > MAX_TYPES:
        raise InputError("device_types", f"are {len(problem.device_types)}", f"give at most {MAX_TYPES}")
