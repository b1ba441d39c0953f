"""More samples in flight than the rule asks for, where memory is left and the iteration is shorter for it.

The rule hides the passes of the stages that come after, but not the time of transfers. One stage after the other takes
some more micro-batches, as long as the referee accepts the plan and its iteration becomes shorter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from ...instances.graph_pipeline.plan import StageGraphPlan
from ...instances.graph_pipeline.problem import GraphPipelineProblem

Value = Callable[[StageGraphPlan], float | None]
"""The iteration of a plan; None: the referee refuses it."""

MORE = (1, 2, 4)
"""Micro-batches that a stage takes at once: one more may shorten nothing before a second one does."""


def with_more_in_flight(
    problem: GraphPipelineProblem, plan: StageGraphPlan, known: float, value: Value, tick: Callable[[], None]
) -> tuple[StageGraphPlan, float]:
    """The best that was found by such steps, from a plan whose value is known."""
    better = True
    while better:
        better = False
        for step in _steps(problem, plan):
            tick()
            tried = value(step)
            if tried is not None and tried < known:
                plan, known, better = step, tried, True
                break
    return plan, known


def _steps(problem: GraphPipelineProblem, plan: StageGraphPlan) -> Iterator[StageGraphPlan]:
    for number, stage in enumerate(plan.stages):
        for samples in sorted(
            {min(problem.mini_batch, stage.in_flight + more * stage.micro_batch) for more in MORE}
        ):
            if samples > stage.in_flight:
                stages = list(plan.stages)
                stages[number] = replace(stage, in_flight=samples)
                yield replace(plan, stages=tuple(stages))
