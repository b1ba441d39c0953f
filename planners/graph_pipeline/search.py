"""The least achievable time per sample: a binary search over the times that stages can have, so it is exact."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...instances.base.compiled import repays_loading
from ...instances.base.errors import InputError
from ...instances.graph_pipeline.plan import GraphStage, StageGraphPlan
from ...instances.graph_pipeline.problem import GraphPipelineProblem
from ...instances.graph_pipeline.series_parallel import Leaf, Series, Tree, decompose, depth
from ...instances.physics.tolerances import SUM_ROUNDING
from .configurations import Menu
from .costs import Costs
from .kernel import NEVER
from .nodes import NodeBuilder, ParallelNode, PricedNode, all_nodes, all_prices
from .tables import Kernel, Tables
from .trace import Decision, Trace

# Levels of a decomposition: the program follows its nesting by recursion.
MOST_LEVELS = 150


# Plans for one choice of configurations, each with fewer samples in flight than the one before.
MOST_SHALLOWER = 32


# Operators squared times devices and configurations from which on compiled loops are worth their loading.
COMPILED_FROM = 5_001


@dataclass(frozen=True, slots=True)
class Answer:
    """The best plan for a choice of configurations: the time per sample of its slowest stage is `value`."""

    plan: StageGraphPlan
    value: float
    chosen: slice
    """The configurations that it was chosen from."""
    probes: int

    @property
    def held(self) -> int:
        """The most samples in flight of any stage: the deeper the pipeline, the more."""
        return max(stage.in_flight for stage in self.plan.stages)


class Search:
    """All prices of one problem, ready for searches with any choice of the menu's configurations."""

    def __init__(
        self,
        problem: GraphPipelineProblem,
        menu: Menu,
        tree: Tree | None = None,
        free_joins: bool = True,
        tick: Callable[[], None] = lambda: None,
        inside: bool = False,
    ) -> None:
        """`tree`: another family of stages than that of the problem's own decomposition; `inside`: see `Costs`."""
        self.problem, self.menu, self.tick = problem, menu, tick
        self.tree = tree or decompose(len(problem.operators), problem.arcs)
        if depth(self.tree) > MOST_LEVELS:
            raise InputError("operators", f"nest more than {MOST_LEVELS} levels deep", "merge operators in series")
        steps = len(problem.operators) ** 2 * menu.devices * len(menu.configurations)
        self.loops = Kernel.machine_code() if repays_loading(steps, COMPILED_FROM) else Kernel()
        tick()
        self.costs = Costs(problem, menu, inside)
        self._known_times: dict[tuple[int | None, int | None], Any] = {}
        self.root: PricedNode = NodeBuilder(self.costs, free_joins).build(self.tree)
        tick()

    @property
    def family_size(self) -> int:
        """Sets of operators that may be a stage; branches of one kind count once."""
        return sum(int(np.prod(prices.time_per_sample.shape[:-2])) for prices in all_prices(self.root))

    @property
    def skipped_groups(self) -> bool:
        """Were there too many choices of parallel branches to list?"""
        return any(not node.complete for node in all_nodes(self.root) if isinstance(node, ParallelNode))

    def best(self, chosen: slice = slice(None), most_held: int | None = None) -> Answer | None:
        """The plan of least time per sample, exact within the family of stages; None where none fits the memory.

        `most_held`: only plans whose stages hold at most this many samples in flight count.
        """
        menu = replace(self.menu, configurations=self.menu.configurations[chosen])
        times = self._times(chosen)
        low = int(np.searchsorted(times, self.costs.least_time(chosen) * (1 - SUM_ROUNDING)))
        high, step, probes = low, 1, 0
        best: Tables | None = None
        while low <= high and low < len(times):
            self.tick()
            # Upwards in growing steps until the first success: large targets leave many choices and take long.
            middle = (low + high) // 2 if best is not None else min(high, len(times) - 1)
            tables, probes = Tables(menu, float(times[middle]), chosen, self.loops, most_held), probes + 1
            if self._possible(tables):
                best, high = tables, middle - 1
            else:
                low = middle + 1
                if best is None:
                    high, step = middle + step, 2 * step
        if best is None:
            return None
        return Answer(self._plan(best), best.target, chosen, probes)

    def shallower(self, answer: Answer) -> Iterator[Answer]:
        """Plans whose stages hold fewer and fewer samples, each the fastest of these: the front of both, step by step.

        Fewer samples in flight are fewer stages in a row, so the pipeline fills and drains sooner.
        """
        for _ in range(MOST_SHALLOWER):
            below = self.best(answer.chosen, answer.held - 1)
            if below is None:
                return
            yield (answer := below)

    def _times(self, chosen: slice) -> Any:
        """Times of all stages with these configurations, ascending, each once."""
        if (chosen.start, chosen.stop) not in self._known_times:
            times = np.unique(np.concatenate([prices.times(chosen) for prices in all_prices(self.root)]))
            self._known_times[chosen.start, chosen.stop] = times
        return self._known_times[chosen.start, chosen.stop]

    def _possible(self, tables: Tables) -> bool:
        """Is there a plan at the target of these tables?"""
        return bool(tables.table(self.root, tables.nothing)[0, self.menu.devices] < NEVER)

    def _plan(self, tables: Tables) -> StageGraphPlan:
        # Nothing comes before, so a stage there could hold any number of samples.
        want = ((0, NEVER - 1),)
        decisions = Trace(tables).stages(self.root, tables.nothing, want, self.menu.devices)
        return plan_of(self.problem, tables.menu, list(decisions))


def plan_of(
    problem: GraphPipelineProblem, menu: Menu, decisions: list[Decision], in_order: bool = False
) -> StageGraphPlan:
    """Stages in the order of their first operators, with the edges that operators force.

    `in_order`: the decisions run from the last stage to the first one.
    """
    rank = {v: place for place, v in enumerate(problem.topological_order)}
    ordered = sorted(decisions, key=lambda decision: min(rank[v] for v in decision.operators))
    ordered = decisions[::-1] if in_order else ordered
    stage_of = {v: number for number, decision in enumerate(ordered) for v in decision.operators}
    edges = {(stage_of[u], stage_of[v]) for u, v in problem.arcs if stage_of[u] != stage_of[v]}
    return StageGraphPlan(
        tuple(_stage(problem, menu, rank, decision) for decision in ordered), tuple(sorted(edges))
    )


def _stage(problem: GraphPipelineProblem, menu: Menu, rank: dict[int, int], decision: Decision) -> GraphStage:
    configuration = menu.configurations[decision.configuration]
    nodes = tuple(problem.operators[v].id for v in sorted(decision.operators, key=rank.__getitem__))
    return GraphStage(nodes, decision.devices, configuration.b, configuration.k, decision.in_flight)


def chain_tree(problem: GraphPipelineProblem) -> Tree:
    """All operators in one row, in a topological order: the family of sequential pipelines."""
    order = tuple(Leaf((v,)) for v in problem.topological_order)
    return order[0] if len(order) == 1 else Series(order)
