"""`dp-piper` beyond the paper: pipelines that are flushed behind every batch, and devices of several types.

With a flush a batch of N micro-batches in S stages takes N + S - 1 slots as long as the largest load. Fewer stages may
be better than a smaller load: from the plan of the least load on, every smaller number of stages is asked for a load
that would make up for the difference, and the answers are proofs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from ...instances.base.errors import InputError
from ...instances.base.result import Stop
from ...instances.registry import evaluation_of, violations_of
from ...instances.staging.plan import PlannedStage, StagedPlan
from ...instances.staging.problem import StagingProblem
from ..contract import Outcome, Request
from ..search import OutOfTimeError, tick_of
from .hierarchy import downsets
from .memory import ROUNDED_MEMORY, StagingMemory, whole_memory
from .model import ROUNDING, build
from .search import STRICT, Found, Search, least_load
from .stage_costs import Shape, StageCosts

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
        if not run.fits(best):
            # Rounding let the plan through. The bound on the board stays valid, and plans are sought in a little less.
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

    def best(self) -> Found[StagedPlan] | None:
        return self.flushed() if self.flush else self.fastest()

    def fits(self, found: Found[StagedPlan]) -> bool:
        return self.memory.exact or not violations_of(self.problem, found.plan, semantics=self.semantics)

    def value(self, found: Found[StagedPlan]) -> float:
        return found.load * (self.slots(len(found.plan.stages)) / self.problem.micro_batches if self.flush else 1.0)

    def slots(self, stages: int) -> int:
        """Slots of one batch, until the pipeline is empty again."""
        return int(self.problem.micro_batches) + stages - 1

    def fastest(self) -> Found[StagedPlan] | None:
        """The plan of the least load."""
        self.tick()
        best = self._counted() if self.problem.device_types else self._searched()
        if best is not None and not self.flush:
            self.post(best, self.low)
        return best

    def flushed(self) -> Found[StagedPlan] | None:
        """The plan of the least load times slots."""
        best = self.fastest()
        if best is None:
            return None
        batches = self.problem.micro_batches
        # More stages than those of the least load have no smaller load: they are out.
        bound, low = self.slots(len(best.plan.stages)) * self.low / batches, self.low
        for stages in range(len(best.plan.stages) - 1, 0, -1):
            limit = self.value(best) * batches / self.slots(stages) * (1 - STRICT)
            if limit <= low:
                continue
            better = self.counted.best(stages, low, limit, lambda better, _: self.post(better, None))
            best, low = (best, limit) if better is None else (better, better.load)
        self.post(best, min(bound, self.value(best)))
        return best

    def _counted(self) -> Found[StagedPlan] | None:
        """By the program that tells types of devices apart."""
        best = self.counted.best(None, self.counted.lower_bound(), math.inf, self._hear)
        if best is not None:
            self.low = best.load
        return best

    def _hear(self, found: Found[StagedPlan], low: float) -> None:
        self.low = max(self.low, low)
        self.post(found, self.low)

    def _searched(self) -> Found[StagedPlan] | None:
        """By the faster program for devices that are alike."""
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
        """A flush only adds to the largest load, so that bounds on it hold there, too."""
        plan = found.plan if self.fits(found) else None
        value = None if plan is None else self.value(found)
        bound = bound if self.bounds else None
        self.request.board.post(plan, value, bound, nodes=self.counted.decisions)


# ---- Stages counted, and devices by type: the least load of at most so many stages -------------------------
# For a limit on all loads and every downset D (what is left to do behind a stage is one),
#
#     least[D][n, k_1, k_2, ...] = the least sum of data-parallel degrees with which D is done in at most n stages on at
#                                  most k_i devices of type i,
#
# infinite where it cannot be. The least sum is all that the stages before need to know: fewer micro-batches in flight
# never need more memory. For the same reason a stage takes the fewest replicas that stay within the limit: more cost
# devices and leave more in flight. The least limit is found by bisection, each answer snapped to the plan that it has.
#
# Plain numpy over all pairs of downsets: for graphs of up to `MAX_DOWNSETS` downsets. Throughput on devices that are
# alike has a faster program (`search`).

MAX_DOWNSETS = 300
MAX_TYPES = 3
# Numbers in the table of one decision.
MAX_ENTRIES = 60_000_000


class Counted:
    """Decisions for one problem."""

    def __init__(
        self,
        problem: StagingProblem,
        semantics: str,
        memory: StagingMemory,
        tick: Callable[[], None] = lambda: None,
    ) -> None:
        _check(problem)
        self.problem, self.semantics, self.tick = problem, semantics, tick
        self.sets = downsets(problem, MAX_DOWNSETS, "for small graphs, where stages or types are counted")
        self.costs = StageCosts(problem, semantics, memory)
        self.most_stages = min(len(problem.layers), problem.devices, problem.micro_batches)
        self.counts = tuple(kind.devices for kind in problem.types)
        self.decisions = 0
        self.counts_stages = False
        self.least: list[Any] = []
        """The table `least` of the last decision, for each downset."""

    def lower_bound(self) -> float:
        """All work on all devices, the fastest as often as they are: no load is below."""
        work = sum(
            min(t * way.time for t, ways in layer.configurations.items() for way in ways)
            for layer in self.problem.layers
        )
        return work / sum(kind.devices * kind.speed for kind in self.problem.types)

    # ---- the least load ----------------------------------------------------------------------------------

    def best(
        self,
        most_stages: int | None,
        low: float,
        high: float,
        hear: Callable[[Found[StagedPlan], float], None] = lambda found, low: None,
    ) -> Found[StagedPlan] | None:
        """The plan of the least load up to `high` in at most so many stages (None: any number); `low` is a bound.

        `hear` gets each better plan and the bound at that time.
        """
        best = self.decide(high, most_stages)
        return best and least_load(best, low, lambda limit: self.decide(limit, most_stages), hear)

    def decide(self, limit: float, most_stages: int | None) -> Found[StagedPlan] | None:
        """A plan with all loads within the limit; where the number of stages is no matter it is not counted."""
        self.decisions += 1
        self.counts_stages = most_stages is not None
        shape = ((most_stages or 0) + 1, *(count + 1 for count in self.counts))
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
        if self.least[-1][(-1, *self.counts)] >= beyond:
            return None
        plan = StagedPlan(tuple(self._back(limit, most_stages or 0)))
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
            if least > limit * d:
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
        axis = shape.kind + 1
        for d in np.unique(replicas):
            devices = int(d) * shape.tensor_parallel
            if d and devices < values.shape[axis]:
                before, target = _shifted(values.ndim, {0: int(self.counts_stages), axis: devices})
                total = np.where(replicas == d, rest + d, self.costs.most + 1)
                np.minimum(values[target], total[before], out=values[target])

    # ---- back --------------------------------------------------------------------------------------------

    def _back(self, limit: float, most_stages: int) -> Iterator[PlannedStage]:
        """The stages of the plan, first in execution order first: the same numbers as on the way forward."""
        j, at = len(self.sets) - 1, [most_stages, *self.counts]
        while j:
            i, shape, d = self._step(j, at, limit)
            suffix = int(self.least[j][tuple(at)])
            ways = self.costs.ways(shape, d, -(-suffix // d))
            kind = self.problem.device_types[shape.kind].name if self.problem.device_types else None
            yield PlannedStage(tuple(ways), d, shape.tensor_parallel, ways, kind)
            j = i
            at[0] -= self.counts_stages
            at[shape.kind + 1] -= d * shape.tensor_parallel

    def _step(self, j: int, at: list[int], limit: float) -> tuple[int, Shape, int]:
        value = int(self.least[j][tuple(at)])
        for i in self._below(j):
            for shape, fewest in self._stages(j, i, limit):
                for d in self.costs.replicas(shape):
                    before = list(at)
                    before[0] -= self.counts_stages
                    before[shape.kind + 1] -= d * shape.tensor_parallel
                    if min(before) < 0:
                        break
                    behind = int(self.least[i][tuple(before)])
                    if fewest[behind] == d and behind + d == value:
                        return i, shape, d
        raise AssertionError("every finite entry has been reached by a stage")


def _shifted(dimensions: int, steps: dict[int, int]) -> tuple[tuple[slice, ...], tuple[slice, ...]]:
    """Where the rest is, and where it comes to be with a stage more: so many steps further on each axis."""
    before, target = [slice(None)] * dimensions, [slice(None)] * dimensions
    for axis, step in steps.items():
        if step:
            before[axis], target[axis] = slice(None, -step), slice(step, None)
    return tuple(before), tuple(target)


def _check(problem: StagingProblem) -> None:
    if problem.exact_batches:
        raise InputError(
            "exact_batches", "is not planned where stages or types are counted", "plan for at most N micro-batches"
        )
    if len(problem.device_types) > MAX_TYPES:
        raise InputError("device_types", f"are {len(problem.device_types)}", f"give at most {MAX_TYPES}")
