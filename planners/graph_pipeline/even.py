"""The even split of a graph pipeline, which plans are compared with, and samples in flight by the rule."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ...instances.graph_pipeline.plan import GraphStage, StageGraphPlan
from ...instances.graph_pipeline.problem import GraphPipelineProblem
from ..search import shares
from .configurations import Configuration, required_in_flight

# Micro-batches of an iteration, at most: with more of them, simulating takes too long for a comparison.
MOST_MICRO_BATCHES = 64


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
    """The plan with the samples in flight that later stages make each stage hold, and with all edges of operators."""
    stage_of = {node: number for number, stage in enumerate(plan.stages) for node in stage.nodes}
    between = {(stage_of[u], stage_of[v]) for u, v in problem.edges if stage_of[u] != stage_of[v]}
    plan = replace(plan, edges=tuple(sorted({*plan.edges, *between})))
    passes = [Configuration(stage.micro_batch, stage.k) for stage in plan.stages]
    in_flight = [stage.in_flight for stage in plan.stages]
    for _ in plan.stages:
        in_flight = [
            required_in_flight(
                own, [(passes[j], in_flight[j]) for i, j in plan.edges if i == number], problem.mini_batch
            )
            for number, own in enumerate(passes)
        ]
    stages = (replace(stage, in_flight=most) for stage, most in zip(plan.stages, in_flight, strict=True))
    return replace(plan, stages=tuple(stages))
