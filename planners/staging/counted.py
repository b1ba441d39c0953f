"""Stages counted, and devices by type: the least load of at most so many stages.

For a limit on all loads and every downset D (what is left to do behind a stage is one),

    least[D][n, k_1, k_2, ...] = the least sum of data-parallel degrees with which D is done in at most n stages on at
                                 most k_i devices of type i,

infinite where it cannot be. The least sum is all that the stages before need to know: fewer micro-batches in flight
never need more memory. For the same reason a stage takes the fewest replicas that stay within the limit: more cost
devices and leave more in flight. The least limit is found by bisection, each answer snapped to the plan that it has.

Plain numpy over all pairs of downsets: for graphs of up to `MAX_DOWNSETS` downsets. Throughput on devices that are
alike has a faster program (`search`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from ...instances.base.errors import InputError
from ...instances.staging.plan import PlannedStage, StagedPlan
from ...instances.staging.problem import StagingProblem
from ...instances.verdict import evaluation_of
from .hierarchy import downsets
from .memory import StagingMemory
from .model import ROUNDING
from .search import NEAR, STRICT
from .stage_costs import Shape, StageCosts

MAX_DOWNSETS = 300
MAX_TYPES = 3
MAX_ENTRIES = 60_000_000
"""Numbers in the table of one decision."""


@dataclass(frozen=True, slots=True)
class Found:
    """A plan within a limit, with the referee's word on it."""

    plan: StagedPlan
    load: float
    """The largest of a stage."""

    @property
    def stages(self) -> int:
        return len(self.plan.stages)


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
        """Of the last decision, by downset."""

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
        hear: Callable[[Found, float], None] = lambda found, low: None,
    ) -> Found | None:
        """The plan of the least load up to `high` in at most so many stages (None: any number); `low` is a bound.

        `hear` gets each better plan and the bound at that time.
        """
        best = self.decide(high, most_stages)
        if best is None:
            return None
        while True:
            hear(best, low)
            close = best.load - low <= NEAR * best.load
            limit = best.load * (1 - STRICT) if close else math.sqrt(low * best.load) if low > 0 else best.load / 2
            if limit <= low:
                return best
            found = self.decide(limit, most_stages)
            if found is not None:
                best = found
                continue
            low = limit
            if close:
                return best

    def decide(self, limit: float, most_stages: int | None) -> Found | None:
        """A plan with all loads within the limit; where the number of stages is no matter it is not counted."""
        import numpy as np

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
        import numpy as np

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
        import numpy as np

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
