"""The even split of a graph pipeline: what plans are compared with, and a candidate of the planner."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ...instances.graph_pipeline.plan import GraphStage, StageGraphPlan
from ...instances.graph_pipeline.problem import GraphPipelineProblem
from ...instances.graph_pipeline.referee.costs import forced_edges, required_in_flight
from ..search import shares

MOST_MICRO_BATCHES = 64
"""In an iteration: more are not simulated for a comparison."""


def stage_graphs(problem: GraphPipelineProblem) -> Iterator[StageGraphPlan]:
    """Equally many operators on each device, one stage behind the other, for every micro-batch that is a power of 2."""
    operators = [problem.operators[i].id for i in problem.topological_order]
    parts = shares(operators, problem.devices)
    edges = tuple((i, i + 1) for i in range(len(parts) - 1))
    for size in (2**power for power in range(problem.mini_batch.bit_length())):
        if problem.mini_batch <= MOST_MICRO_BATCHES * size:
            stages = tuple(GraphStage(tuple(part), 1, size) for part in parts)
            yield by_the_rule(problem, StageGraphPlan(stages, edges))


def by_the_rule(problem: GraphPipelineProblem, plan: StageGraphPlan) -> StageGraphPlan:
    """Each stage with what those behind it make it hold, and each edge that the operators ask for."""
    plan = replace(plan, edges=tuple(sorted({*plan.edges, *forced_edges(problem, plan)})))
    for _ in plan.stages:
        held = required_in_flight(problem, plan)
        stages = (replace(stage, in_flight=most) for stage, most in zip(plan.stages, held, strict=True))
        plan = replace(plan, stages=tuple(stages))
    return plan
