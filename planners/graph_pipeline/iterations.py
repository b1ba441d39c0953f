"""Bounds and plans for iterations, by a dynamic program that builds pipelines from their end.

Stages are those of the decomposition, all with one micro-batch size. What is minimised is the iteration: filling,
passes, draining, and transfers that nothing hides (see `fronts`). Told the longest iteration that matters, the program
finds the shortest such pipeline, or proves that there is none; so it begins with one that is too short, and goes up in
steps. What it refutes bounds the iterations of all plans. A plan takes longer where its passes wait for each other in
between: the referee says how long.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from ...instances.graph_pipeline.plan import GraphStage, StageGraphPlan
from ...instances.graph_pipeline.problem import GraphPipelineProblem
from ...instances.graph_pipeline.series_parallel import Tree, decompose, depth
from ..search import SAFETY
from .decomposed import MOST_BESIDE, choices_beside, iteration_of, shortest, stages_of
from .even import by_the_rule
from .fronts import Front, Placed, Stages

GROWTH = 1.03
"""From one longest iteration to the next."""

MOST_PLANS = 4
"""Of each micro-batch size, the shortest ones first."""

MOST_LEVELS = 100
"""Of the tree: the program goes down by recursion, in several steps for each level."""


class OutOfStepsError(Exception):
    """Ends a search that is worth no more."""


@dataclass
class Iterations:
    """`waits`: transfers count that nothing hides, for plans with k = 1 alone. `more_held`: plans may hold more samples
    than the rule asks for."""

    problem: GraphPipelineProblem
    sizes: Sequence[int]
    degrees: str
    waits: bool
    more_held: bool
    tick: Callable[[], None]
    refuted: float = 0.0
    """No plan has a shorter iteration."""
    watcher: Callable[[float], None] = lambda bound: None
    seen: float = 0.0
    """All that is shorter has been looked at."""
    steps: int = 0
    most_steps: int | None = None
    """None: no limit."""

    @cached_property
    def tree(self) -> Tree:
        return decompose(len(self.problem.operators), self.problem.arcs)

    @cached_property
    def possible(self) -> bool:
        """Is the graph neither too deep nor too wide for the program?"""
        return depth(self.tree) <= MOST_LEVELS and choices_beside(self.problem, self.tree) <= MOST_BESIDE

    @cached_property
    def stages(self) -> Mapping[int, Stages]:
        """By micro-batch size."""
        return {b: Stages(self.problem, b, self.degrees, self.waits) for b in self.sizes}

    @cached_property
    def least(self) -> Mapping[int, float]:
        """By size: the work alone takes no less, spread evenly."""
        everything = (1 << len(self.problem.operators)) - 1
        return {b: stages.least_work(everything) / self.problem.devices for b, stages in self.stages.items()}

    def climb(self, known: float) -> Iterator[StageGraphPlan]:
        """Plans within the first of growing limits that allows any, or within the iteration of a known plan."""
        longest = min(self.least.values())
        while longest < known:
            longest = min(max(longest, known * 1e-6) * GROWTH, known)
            found = self.fronts(longest)
            if found:
                self.refute(min(iteration_of(front) for front, *_ in found.values()))
                yield from self.plans(found)
                return
            self.refute(longest)

    def within(self, longest: float) -> Iterator[StageGraphPlan]:
        """Plans that may have such an iteration."""
        yield from self.plans(self.fronts(longest))

    def step(self) -> None:
        self.tick()
        self.steps += 1
        if self.most_steps is not None and self.steps > self.most_steps:
            raise OutOfStepsError

    def refute(self, below: float) -> None:
        self.refuted = max(self.refuted, below * (1 - SAFETY))
        self.watcher(self.refuted)

    def fronts(self, longest: float) -> dict[int, list[Front]]:
        """By size, where there are any; what rounding makes longer is not lost."""
        limit, found = longest * (1 + SAFETY / 2), {}
        for b, stages in self.stages.items():
            if self.least[b] <= limit:
                fronts = shortest(stages, self.tree, limit, self.step)
                if fronts:
                    found[b] = fronts
        self.seen = max(self.seen, longest)
        return found

    def plans(self, found: Mapping[int, list[Front]]) -> Iterator[StageGraphPlan]:
        """The most promising ones first; with the samples in flight of the rule, and with those of the program."""
        rows = sorted(
            (iteration_of(front), b, n) for b, row in found.items() for n, front in enumerate(row[:MOST_PLANS])
        )
        for _, b, n in rows:
            self.tick()
            plan = self.plan(b, stages_of(self.problem, found[b][n].built))
            yield by_the_rule(self.problem, plan)
            if self.more_held:
                yield plan

    def plan(self, b: int, placed: Sequence[Placed]) -> StageGraphPlan:
        """Stages in the order of their first operators, with the edges that operators force."""
        order = self.problem.topological_order
        rows = [([v for v in order if stage.members >> v & 1], stage) for stage in placed]
        rows.sort(key=lambda row: order.index(row[0][0]))
        stage_of = {v: number for number, (inside, _) in enumerate(rows) for v in inside}
        edges = {(stage_of[u], stage_of[v]) for u, v in self.problem.arcs if stage_of[u] != stage_of[v]}
        ids = self.problem.ids
        stages = (
            GraphStage(
                tuple(ids[v] for v in inside), stage.devices, b, 1, min(stage.held * b, self.problem.mini_batch)
            )
            for inside, stage in rows
        )
        return StageGraphPlan(tuple(stages), tuple(sorted(edges)))
