"""The search where stages run on GPUs of two sorts: some stages on one sort, the others on the other one.

All degrees are common, so that a stage has as many ranks on either sort and each sort as many stages as its GPUs make;
either sort may have the first ones. A layout is found as on one sort, by tables that differ by stage. Only 1F1B with
one chunk a rank is looked at.

**The bound of a family.** Let a unit u take a_u and b_u seconds forth and back on the two sorts, which have p and q
stages, and let x_u be 1 where it is on the first. With m micro-batches the mean stage of either sort is no longer than
the slowest stage of all, so for each share y from 0 to 1

    T >= m (y sum_u x_u a_u / p + (1 - y) sum_u (1 - x_u) b_u / q) >= m sum_u min(y a_u / p, (1 - y) b_u / q)
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from ...instances.physics.tolerances import SAME
from ...instances.training.cases import NONE, Case, CaseMaker, Modules, ParallelismChoice, gradient_bytes_of
from ...instances.training.problem import TrainingProblem
from ...instances.training.scope import Scope
from .judging import Best, LayoutEvaluator, Pipeline, solve
from .search import MOST_CASES, NODE_WORK, Search, _Word
from .space import Column, Space

# Schedule and number of chunks on a rank that are looked at.
WAY, WAY_IN_WORDS = ("1f1b", 1), "1F1B with one chunk per rank"


def space_of(problem: TrainingProblem, scope: Scope) -> Space:
    """The choices of a problem, with GPUs of one sort or of two."""
    return Space(problem, scope) if problem.second is None else PooledSpace(problem, scope)


def search_of(problem: TrainingProblem) -> type[Search]:
    """What searches them."""
    return Search if problem.second is None else PooledSearch


class PooledSpace(Space):
    """Families that divide both sorts into whole stages."""

    def __init__(self, problem: TrainingProblem, scope: Scope) -> None:
        super().__init__(problem, scope)
        self.makers = [CaseMaker(pool, self.maker.row_of, self.maker.words, problem) for pool in problem.pools]
        self.maker = self.makers[0]

    def _rows(self) -> Iterator[tuple[int, ...]]:
        for row in super()._rows():
            if not any(pool.devices % (row[0] * row[1] * row[3]) for pool in self.problem.pools):
                yield row

    def ways(self, p: int, batches: int) -> list[tuple[str, int]]:
        return [way for way in super().ways(p, batches) if way == WAY]

    @cached_property
    def bounds(self) -> tuple[Column, Column]:
        """Seconds as above. Bytes are those of a mean stage, as a share of the mean limit and in bytes of the first."""
        pools, columns = self.problem.pools, self.columns
        batches = self.problem.batch // (columns["data"] * columns["micro_batch"])
        stages = [columns["pipeline"] * pool.devices / self.problem.devices for pool in pools]
        loads = [
            {name: self._seconds(maker, name) / count for name in maker.names}
            for maker, count in zip(self.makers, stages, strict=True)
        ]
        shares = [loads[1][name] / (loads[0][name] + loads[1][name]) for name in loads[0]]
        seconds = np.zeros(len(self))
        for share in shares:
            least = [
                count * np.minimum(share * loads[0][name], (1 - share) * loads[1][name])
                for name, count in self.problem.model.counted.items()
            ]
            seconds = np.maximum(seconds, batches * sum(least) * (1 - SAME))
        held = np.minimum.reduce([self._on(sort).ways_of_bounds[1] for sort in (0, 1)])
        limit = self.problem.memory_bytes
        if limit is not None:
            sizes = [(pool.memory_bytes or 0.0) * pool.devices for pool in pools]
            held = held * limit * self.problem.devices / sum(sizes)
        return seconds, held

    def _seconds(self, maker: CaseMaker, name: Any) -> Column:
        """For each family, seconds of one unit forth and back on one sort."""
        found = np.zeros(len(self))
        for zero, states in self.problem.states.items():
            unit = maker.seconds(name, gradient_bytes_of(states))
            both = unit.forward.sum(axis=0) + unit.inputs.sum(axis=0) + unit.weights
            found = np.where(self.columns["zero"] == zero, both[self.key_rows], found)
        return found

    def _on(self, sort: int) -> Space:
        """The same families with all stages on one sort."""
        other = copy(self)
        other.problem, other.maker = self.problem.pools[sort], self.makers[sort]
        return other


@dataclass(frozen=True)
class PooledEvaluator(LayoutEvaluator):
    """Layouts of one choice; `case` is that of the first sort, and `second` evaluates the same on the second one."""

    problem: TrainingProblem | None = None
    second: LayoutEvaluator | None = None

    def pipeline(self, limit_bytes: float) -> Pipeline:
        assert self.problem is not None, "made by the search for two sorts"
        assert self.second is not None, "the same"
        first, second = (pool.memory_bytes or 1.0 for pool in self.problem.pools)
        return replace(
            super().pipeline(limit_bytes),
            second=self.second.intervals,
            sorts=self.problem.sorts(self.case.gamma.degrees.pipeline, self.case.gamma.first_pool),
            share=second / first,
        )

    def judge(self, layout: Any, limit_bytes: float = math.inf) -> tuple[float, tuple[float, ...]]:
        """Seconds alone, infinite where it does not fit: no stage may have other units."""
        pipeline = self.pipeline(limit_bytes)
        assert pipeline.second is not None, "of two sorts"
        ends = np.cumsum([0, *layout])
        other = np.ones(pipeline.intervals.backward_seconds.shape, bool)
        other[ends[:-1], ends[1:]] = False
        both = [
            replace(own, backward_seconds=np.where(other, math.inf, own.backward_seconds))
            for own in (pipeline.intervals, pipeline.second)
        ]
        best = solve(replace(pipeline, intervals=both[0], second=both[1]), most_nodes=0)
        return math.inf if best.value is None else best.value, ()


class PooledSearch(Search):
    """The search with tables of both sorts."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **{**more, "by_thumb": False})
        self.second_cases: dict[ParallelismChoice, Case] = {}
        self.least: dict[ParallelismChoice, float] = {}

    @cached_property
    def space(self) -> PooledSpace:
        return PooledSpace(self.problem, self.scope)

    def _judge(self, word: _Word) -> LayoutEvaluator:
        own, maker, gamma = super()._judge(word), self.space.makers[1], word.gamma
        if gamma not in self.second_cases:
            if len(self.second_cases) > MOST_CASES:
                self.second_cases.clear()
            self.second_cases[gamma] = maker.case(gamma, (NONE,))
        case = self.second_cases[gamma]
        maker.with_word(case, word.modules)
        second = LayoutEvaluator(case, word.modules, word.count)
        return PooledEvaluator(own.case, word.modules, word.count, self.problem, second)

    def _least_seconds(self, gamma: ParallelismChoice, again: float = 0.0) -> float:
        """Of any layout without recomputation and without a limit."""
        if gamma not in self.least:
            self.least[gamma] = self._least_of(self._judge(_Word(gamma, NONE)))
        return self.least[gamma]

    def _least_of(self, judge: LayoutEvaluator) -> float:
        return solve(judge.pipeline(math.inf), cutoff=self.most, most_nodes=-1).bound

    def _layout(self, judge: LayoutEvaluator, limit: float, below: float) -> Best:
        """Bounds are weaker than on one sort: a layout that is too slow excludes no better one."""
        found = super()._layout(judge, limit, below)
        if found.value is None or found.value <= below or found.bound >= below or self.scope.is_one_layout:
            return found
        nodes = max(200, NODE_WORK // (judge.case.micro_batches * judge.case.gamma.degrees.pipeline))
        beyond = below * (1 + 4 * SAME)  # what is not below it is excluded for sure
        return solve(judge.pipeline(limit), cutoff=beyond, tolerance=SAME, most_nodes=nodes)

    def _memory_bound(self, word: _Word) -> float:
        return solve(self._judge(word).pipeline(self.maybe), cutoff=self.most, most_nodes=-1).bound

    def _not_dominated(self, row: int, gradient: float) -> list[Modules]:
        """Words that are not beaten on one of the sorts."""
        useful = [self._not_beaten(maker, row, gradient) for maker in self.space.makers]
        return [word for word in self.space.words if any(word in own for own in useful)]
