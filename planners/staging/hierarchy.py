"""Piper's dynamic program for devices within devices: the best tree of stages.

For every level l, from the innermost, and every pair of downsets D' in D (closed under successors: what is left to do
after a stage is one),

    f[D, D'][k, later, x] = min over D' <= Do < D, d of max( f[Do, D'][k - d, later, x - x0],
                                                            links_l(D - Do, d),
                                                            f_inner[D, Do][K_inner, (later + x) / d ..., x0 / d] / d )

is the least time of the layers D - D' on at most k devices of level l, where x is the sum of the copies (on the levels
up to l) of all stages of D - D', and `later` that of the stages after them; on level 1 the last two terms are the load
of a single stage, a knapsack over its layers' configurations, with tensor parallelism. A stage with d copies holds
ceil((later + x) / d) micro-batches, and ceilings nest: what counts is right on every level. The `basic` and `crude`
variants count no copies: x = later = 0.

Plain numpy over all pairs of downsets: for lattices of up to `MAX_DOWNSETS`, which take minutes. `dp-piper` comes here
where a problem has levels.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from ...instances.base.errors import InputError
from ...instances.staging.plan import LeveledPlan, LeveledStage
from ...instances.staging.problem import StagingProblem, check_levels
from ..placement.dp.lattice import closed_sets
from .level_decisions import LevelDecisions
from .links import upper_load
from .memory import StagingMemory, whole_memory
from .search import Found
from .stage_costs import Shape, StageCosts

MAX_DOWNSETS = 300
# From so many entries in the table of a level on, `LevelDecisions` decides one limit after the other instead.
MANY_ENTRIES = 1_000_000
# Largest number of entries in the table of a level.
MAX_ENTRIES = 40_000_000


@dataclass(frozen=True, slots=True)
class _Stage:
    """The shape of a stage that a level may hold, whatever it costs."""

    devices: int
    data_parallel: int
    tensor_parallel: int
    copies: int
    """Copies on this level and those below; 0 where the variant does not count them."""


def plan_levels(
    problem: StagingProblem,
    variant: str = "precise",
    tick: Callable[[], None] = lambda: None,
    inside: bool = False,
    hear: Callable[[Found[LeveledPlan], float], None] = lambda best, low: None,
) -> Found[LeveledPlan] | None:
    """The best plan on the levels of the problem; None where none obeys the variant's rules.

    `tick` is called now and then: it may raise to stop. `hear` gets each better plan and the bound at that time, where
    plans are found one after the other. `inside` plans in a slightly smaller memory where memory has too many digits
    to be counted exactly, so that what fits there is sure to fit.
    """
    check_levels(problem, variant)
    memory = whole_memory(problem, problem.devices)
    program = _Hierarchy(problem, variant, memory.inside() if inside else memory, tick)
    if problem.zero and problem.exact_batches:
        raise InputError(
            "exact_batches",
            "is not planned with ZeRO on levels",
            "plan for at most N, or give --formulation mip-piper",
        )
    # With ZeRO copies divide what they hold, which only `LevelDecisions` counts.
    many = problem.zero or program.entries() > MANY_ENTRIES
    if variant == "precise" and not problem.exact_batches and many:
        return LevelDecisions(problem, program.sets, program.memory, tick).best(hear)
    return program.solve()


def downsets(
    problem: StagingProblem, most: int = MAX_DOWNSETS, what: str = "for small graphs on several levels"
) -> list[int]:
    """Sets of layers, as bits, that hold all successors of their members; smaller ones first."""
    sets = closed_sets([sum(1 << v for v in set(near)) for near in problem.successors], most)
    if sets is None:
        remedy = f"merge layers to blocks: this program is {what}"
        raise InputError("layers", f"have more than {most} downsets", remedy)
    return sets


class _Hierarchy:
    """Tables of all levels, and the way back through them."""

    def __init__(
        self, problem: StagingProblem, variant: str, memory: StagingMemory, tick: Callable[[], None]
    ) -> None:
        self.problem, self.variant, self.memory, self.tick = problem, variant, memory, tick
        self.sets = downsets(problem)
        self.most = min(problem.micro_batches, problem.devices) if variant == "precise" else 0
        """The largest sum of copies."""
        self.inside = [
            math.prod(level.devices for level in problem.levels[: i + 1]) for i in range(len(problem.levels))
        ]
        self.tables: list[list[Any]] = []
        self.by_suffix = cache(self._by_suffix)
        flat = problem.replace(levels=(), bandwidth=problem.levels[0].bandwidth)
        unlimited = replace(memory, limits=(None,)) if variant == "basic" else memory
        self.costs = StageCosts(flat, "paper", unlimited)
        """Costs of stages on the innermost level."""

    def solve(self) -> Found[LeveledPlan] | None:
        for level in range(len(self.problem.levels)):
            self.tables.append(self._table(level))
        devices = self.problem.levels[-1].devices
        values = self.tables[-1][len(self.sets) - 1][0, devices, 0]
        if self.problem.exact_batches:
            if self.problem.micro_batches > self.most:
                return None
            x = self.problem.micro_batches
        else:
            x = int(np.argmin(values))
        if not np.isfinite(values[x]):
            return None
        top = len(self.problem.levels) - 1
        stages = self._back(top, len(self.sets) - 1, 0, devices, 0, x)
        return Found(LeveledPlan(tuple(stages)), float(values[x]))

    # ---- forward -----------------------------------------------------------------------------------------

    def _table(self, level: int) -> list[Any]:
        """For each downset D an array by D', devices, later copies, own copies."""
        ends = self._shape_of(level)[0]
        shape = self._shape_of(level)
        if math.prod(shape) * len(self.sets) > MAX_ENTRIES:
            raise InputError(
                "levels",
                f"need a table of {math.prod(shape) * len(self.sets):.3g} numbers for exactly N micro-batches",
                "plan for at most N, or fewer devices",
            )
        table: list[Any] = []
        for j in range(len(self.sets)):
            values = np.full(shape, np.inf)
            if j < ends:
                values[j, :, :, 0] = 0.0
            for i in self._below(j):
                self.tick()
                for stage in self._stages(level):
                    self._relax(values, table[i], stage, self.by_suffix(level, j, i, stage))
            table.append(values)
        return table

    def _shape_of(self, level: int) -> tuple[int, int, int, int]:
        top = level == len(self.problem.levels) - 1
        own, devices = min(self.most, self.inside[level]), self.problem.levels[level].devices
        return (1 if top else len(self.sets), devices + 1, 1 if top else self.most + 1, own + 1)

    def entries(self) -> int:
        """Number of entries in the largest table of a level."""
        return max(math.prod(self._shape_of(level)) for level in range(len(self.inside))) * len(self.sets)

    def _relax(self, values: Any, rest: Any, stage: _Stage, cost: Any) -> None:
        """Put the stage before the best of the rest, for all ends, devices, later and own copies."""
        if cost is None:
            return
        x0, k = stage.copies, stage.devices
        if x0 >= values.shape[3]:
            return
        own, later = np.arange(x0, values.shape[3]), np.arange(values.shape[2])
        here = cost[np.minimum(later[:, None] + own, len(cost) - 1)]
        before = rest[:, : rest.shape[1] - k, :, : rest.shape[3] - x0]
        target = values[:, k:, :, x0:]
        np.minimum(target, np.maximum(before, here), out=target)

    def _below(self, j: int) -> Iterator[int]:
        """Downsets that are smaller parts of downset j."""
        return (i for i in range(j) if not self.sets[i] & ~self.sets[j])

    def _stages(self, level: int) -> Iterator[_Stage]:
        """All shapes of a stage on a level."""
        there = self.problem.levels[level].devices
        copies = there if self.problem.replication else 1
        counted = self.variant == "precise"
        if level == 0:
            for t in self.problem.degrees:
                for d in range(1, min(there // t, copies) + 1):
                    if not counted or d <= self.most:
                        yield _Stage(d * t, d, t, d if counted else 0)
            return
        for d in range(1, copies + 1):
            if not counted:
                yield _Stage(d, d, 1, 0)
            else:
                for below in range(1, min(self.inside[level - 1], self.most // d) + 1):
                    yield _Stage(d, d, 1, d * below)

    # ---- costs -------------------------------------------------------------------------------------------

    def _by_suffix(self, level: int, j: int, i: int, stage: _Stage) -> Any:
        """Time of the stage D_j - D_i by the sum of copies of it and all later stages; the last entry is infinite.

        None where it can never be: no sum up to the largest makes it finite.
        """
        costs = np.full(self.most + 2, np.inf)
        suffix = np.arange(stage.copies, self.most + 1)
        if level == 0:
            in_flight = self._in_flight(stage, suffix)
            loads = self._loads(
                self._shape(j, i, stage), stage.data_parallel, int(in_flight[-1]), int(in_flight[0])
            )
            costs[stage.copies : -1] = loads[in_flight - in_flight[0]]
        else:
            costs[stage.copies : -1] = self._upper(level, j, i, stage, suffix)
        return costs if np.isfinite(costs).any() else None

    def _upper(self, level: int, j: int, i: int, stage: _Stage, suffix: Any) -> Any:
        """The largest of the links' time and the inner time, for each sum of copies."""
        d, below = stage.data_parallel, stage.copies // stage.data_parallel
        links = upper_load(self.problem, self.sets[j] & ~self.sets[i], d, self.problem.levels[level].bandwidth)
        inner = self.tables[level - 1][j][i, self.problem.levels[level - 1].devices]
        later = -(-suffix // d) - below
        return np.maximum(links, inner[later, below] / d)

    def _in_flight(self, stage: _Stage, suffix: Any) -> Any:
        """Micro-batches that a copy holds, by the sum of copies."""
        if self.variant == "precise":
            return -(-suffix // stage.data_parallel)
        return 0 * suffix + (0 if self.variant == "basic" else -(-self.problem.devices // stage.data_parallel))

    def _loads(self, shape: Shape, d: int, most: int, least: int) -> Any:
        """Loads of a stage of level 1 with least..most micro-batches in flight, with which its memory grows."""
        loads = np.full(most - least + 1, np.inf)
        for in_flight in range(least, most + 1):
            load = self.costs.load(shape, d, in_flight)
            if load is None:
                break
            loads[in_flight - least] = load
        return loads

    def _shape(self, j: int, i: int, stage: _Stage) -> Shape:
        return Shape(self.sets[j] & ~self.sets[i], 0, stage.tensor_parallel)

    # ---- back --------------------------------------------------------------------------------------------

    def _back(self, level: int, j: int, end: int, k: int, later: int, x: int) -> list[LeveledStage]:
        """The stages behind an entry of a table, in execution order."""
        stages: list[LeveledStage] = []
        while j != end:
            i, stage = self._step(level, j, end, k, later, x)
            stages.append(self._stage(level, j, i, stage, later + x))
            j, k, x = i, k - stage.devices, x - stage.copies
        return stages

    def _step(self, level: int, j: int, end: int, k: int, later: int, x: int) -> tuple[int, _Stage]:
        """The first stage of the best division, and what comes after it: the same numbers as on the way forward."""
        table = self.tables[level]
        value = table[j][end, k, later, x]
        for i in self._below(j):
            for stage in self._stages(level):
                if stage.devices > k or stage.copies > x:
                    continue
                cost = self.by_suffix(level, j, i, stage)
                if cost is not None:
                    rest = table[i][end, k - stage.devices, later, x - stage.copies]
                    if max(rest, cost[min(later + x, len(cost) - 1)]) == value:
                        return i, stage
        raise AssertionError("every finite entry has been reached by a stage")

    def _stage(self, level: int, j: int, i: int, stage: _Stage, suffix: int) -> LeveledStage:
        d, shape = stage.data_parallel, self._shape(j, i, stage)
        ids = tuple(self.costs.ids(shape.inside))
        if level == 0:
            names = self.costs.ways(shape, d, self._in_flight(stage, suffix))
            return LeveledStage(ids, d, stage.tensor_parallel, names)
        below = stage.copies // d
        devices = self.problem.levels[level - 1].devices
        children = self._back(level - 1, j, i, devices, -(-suffix // d) - below, below)
        return LeveledStage(ids, d, children=tuple(children))
