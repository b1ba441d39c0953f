"""More samples in flight than the rule asks for, where memory is left and the iteration is shorter for it.

The rule hides the passes of the stages that come after, but not the time of transfers. One stage after the other takes
some more micro-batches, as long as the referee accepts the plan and its iteration becomes shorter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from ...instances.graph_pipeline.plan import GraphStage, StageGraphPlan
from ...instances.graph_pipeline.problem import GraphPipelineProblem
from ...instances.registry import evaluation_of, violations_of

# Micro-batches that a stage takes at once: one more may shorten nothing before a second one does.
MORE = (1, 2, 4)


def with_more_in_flight(
    problem: GraphPipelineProblem, plan: StageGraphPlan, known: float, tick: Callable[[], None] = lambda: None
) -> tuple[StageGraphPlan, float]:
    """The best plan that such steps reach, and its iteration. `known`: the iteration of the plan itself."""
    better = True
    while better:
        better = False
        for step in _steps(problem, plan):
            tick()
            iteration = evaluation_of(problem, step).iteration
            if iteration is not None and iteration < known and not violations_of(problem, step):
                plan, known, better = step, iteration, True
                break
    return plan, known


def _steps(problem: GraphPipelineProblem, plan: StageGraphPlan) -> Iterator[StageGraphPlan]:
    """Plans in which one stage holds more samples, or all stages that others follow do, since branches side by side
    wait for each other."""
    followed = {i for i, _ in plan.edges}
    for numbers in (*({number} for number in range(len(plan.stages))), followed):
        for more in MORE:
            stages = tuple(
                _holding(problem, stage, more) if n in numbers else stage for n, stage in enumerate(plan.stages)
            )
            if stages != plan.stages:
                yield replace(plan, stages=stages)


def _holding(problem: GraphPipelineProblem, stage: GraphStage, more: int) -> GraphStage:
    return replace(stage, in_flight=min(problem.mini_batch, stage.in_flight + more * stage.micro_batch))
