"""Translations between the values of the exact model and plans."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...instances.graph_pipeline.plan import GraphStage, StageGraphPlan
from ...instances.graph_pipeline.problem import GraphPipelineProblem
from ..contract import Values
from .columns import Column
from .schedules import Schedule, held

# Pairs of stages, by their positions in the plan.
Edges = set[tuple[int, int]]
# The k that the model has for each micro-batch size.
Groups = Mapping[int, tuple[int, ...]]


def decode(problem: GraphPipelineProblem, columns: list[Column], values: Values) -> StageGraphPlan:
    """The chosen columns, with no more in-flight samples than the stages after them ask for."""
    chosen = [column for n, column in enumerate(columns) if values[f"x[{n}]"] > 0.5]
    rank = {v: place for place, v in enumerate(problem.topological_order)}
    members = [sorted((v for v in rank if column.members >> v & 1), key=rank.__getitem__) for column in chosen]
    order = sorted(range(len(chosen)), key=lambda n: rank[members[n][0]])
    stage_of = {v: place for place, n in enumerate(order) for v in members[n]}
    edges = {(stage_of[u], stage_of[v]) for u, v in problem.arcs if stage_of[u] != stage_of[v]}
    schedules = [(chosen[n].micro_batch, chosen[n].k) for n in order]
    samples = samples_in_flight(schedules, edges, problem.mini_batch)
    stages = []
    for place, n in enumerate(order):
        nodes = tuple(problem.operators[v].id for v in members[n])
        stages.append(GraphStage(nodes, chosen[n].devices, *schedules[place], samples[place]))
    return StageGraphPlan(tuple(stages), tuple(sorted(edges)))


def heights(count: int, edges: Edges) -> list[int]:
    """Stages on the longest way to an end; the heights of the model prove that there is no circle."""
    levels = [1] * count
    for _ in range(count):
        for i, j in edges:
            levels[i] = max(levels[i], min(count, levels[j] + 1))
    return levels


def samples_in_flight(schedules: Sequence[Schedule], edges: Edges, mini_batch: int | None) -> list[int]:
    """The least samples that each stage must hold, worked out from the last stages to the first."""
    height = heights(len(schedules), edges)
    samples = [0] * len(schedules)
    for i in sorted(range(len(schedules)), key=height.__getitem__):
        samples[i] = held(schedules[i], [(schedules[j], samples[j]) for x, j in edges if x == i], mini_batch)
    return samples


def encode(
    problem: GraphPipelineProblem, columns: list[Column], plan: StageGraphPlan, groups: Groups, mixed: bool
) -> Values | None:
    """The plan's columns and heights, with groups no larger than the model's; None where a stage is no column."""
    place = {(column.members, column.devices, column.micro_batch, column.k): n for n, column in enumerate(columns)}
    values = {f"x[{n}]": 0.0 for n in range(len(columns))}
    schedules = []
    for stage, height in zip(plan.stages, heights(len(plan.stages), set(plan.edges)), strict=True):
        b = stage.micro_batch
        k = max((k for k in groups.get(b, ()) if k <= stage.k), default=1)
        members = sum(1 << problem.index[node] for node in stage.nodes)
        n = place.get((members, stage.devices, b, k))
        if n is None:
            return None
        schedules.append((b, k))
        values[f"x[{n}]"] = 1.0
        values |= {f"h[{problem.index[node]}]": float(height) for node in stage.nodes}
    limited = any(column.most < problem.mini_batch for column in columns)
    return values | _micro_batches(problem, columns, plan, schedules) if mixed and limited else values


def _micro_batches(
    problem: GraphPipelineProblem, columns: list[Column], plan: StageGraphPlan, schedules: list[Schedule]
) -> dict[str, float]:
    """Micro-batches in flight as the mixed model counts them: not cut at the mini-batch."""
    sizes: dict[int, int] = {}
    for column in columns:
        sizes[column.micro_batch] = sizes.get(column.micro_batch, 0) | column.members
    samples = samples_in_flight(schedules, set(plan.edges), None)
    values = {}
    for stage, (own, _), number in zip(plan.stages, schedules, samples, strict=True):
        for v in (problem.index[node] for node in stage.nodes):
            for b, covered in sizes.items():
                if covered >> v & 1:
                    values[f"w[{v},{b}]"] = float(number // b if b == own else 0)
    return values
