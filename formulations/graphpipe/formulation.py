"""`cp-graphpipe`: the exact choice of stages as a native CP-SAT model, behind the common contract.

One micro-batch size for all stages and 1F1B (k = 1), as in the paper's evaluation. Over the sets of the decomposition
it says whether the dynamic program is optimal; over all convex sets, what the restriction to the decomposition costs.
Times are rounded down to whole steps, so that bounds hold for the true ones.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from ...instances.errors import InputError, UsageError
from ...instances.graph_pipeline import GraphPipelineProblem
from ...instances.stage_graph import GraphStage, StageGraphPlan
from ..contract import BuiltModel, NativeModel, OptionSpec, Refuted, Values
from ..registry import GRAPHPIPE_FAMILY, MICRO_BATCH, TIME_PER_SAMPLE
from . import cp_model
from .columns import Column, find_columns
from .families import stage_sets

STEPS = 10**8
"""Of the largest time that can matter: what rounding costs is far below the tolerance of a proof."""


class GraphPipeCp:
    """Minimise the time per sample of the slowest stage."""

    name = "cp-graphpipe"
    title = "stages that form a graph, one micro-batch size, as a CP-SAT model"
    paper = (
        "Jeon et al., GraphPipe: Improving Performance and Scalability of DNN Training with Graph Pipeline Parallelism"
    )
    problem_kind = "graph-pipeline"
    options: tuple[OptionSpec, ...] = (GRAPHPIPE_FAMILY, MICRO_BATCH, TIME_PER_SAMPLE)

    def check(self, problem: GraphPipelineProblem, options: Mapping[str, Any]) -> None:
        if not isinstance(problem, GraphPipelineProblem):
            raise UsageError(f"{self.name} plans graph pipelines, not {type(problem).__name__}.")
        _sizes(problem, options)

    def contiguity(self, options: Mapping[str, Any]) -> str:
        return "none"

    def solvers(self, problem: GraphPipelineProblem, options: Mapping[str, Any]) -> tuple[str, ...]:
        return ("cp-sat",)

    def lower_bound(self, problem: GraphPipelineProblem, options: Mapping[str, Any]) -> float:
        """The work alone, spread evenly over the devices."""
        shares = {(b, d) for b in _sizes(problem, options) for d in range(1, problem.devices + 1) if b % d == 0}
        work = math.fsum(
            min(d * (x.forward(b / d) + x.backward(b / d)) / b for b, d in shares) for x in problem.operators
        )
        return work / problem.devices

    def build(
        self,
        problem: GraphPipelineProblem,
        options: Mapping[str, Any],
        *,
        native: bool,
        cutoff: float | None = None,
        precision: float = 1e-9,
    ) -> BuiltModel | Refuted:
        if not native:
            raise UsageError(f"{self.name} is a model for CP-SAT alone; choose --solver cp-sat.")
        sets = stage_sets(problem, options["family"])
        columns = find_columns(problem, sets, _sizes(problem, options), cutoff)
        covered = 0
        for column in columns:
            covered |= column.members
        if covered != (1 << len(problem.operators)) - 1:
            return Refuted("some operator is in no stage that is fast enough and fits the memory")
        scale = STEPS / (max(column.time for column in columns) or 1.0)
        floor = self.lower_bound(problem, options) * scale * (1 - 1e-9)
        data = {
            "operators": len(problem.operators),
            "devices": problem.devices,
            "arcs": sorted(set(problem.arcs)),
            "columns": [(c.members, c.devices, c.micro_batch, math.floor(c.time * scale), c.highest) for c in columns],
            "floor": math.floor(floor),
            "scale": scale,
        }

        def decode_values(values: Values) -> StageGraphPlan:
            return decode(problem, columns, values)

        def encode_plan(plan: StageGraphPlan) -> Values | None:
            return encode(problem, columns, plan)

        size = {"stage_sets": len(sets), "stage_columns": len(columns)}
        return BuiltModel(NativeModel(cp_model.BUILDER, data), decode_values, encode_plan, size=size)


FORMULATION = GraphPipeCp()


def _sizes(problem: GraphPipelineProblem, options: Mapping[str, Any]) -> tuple[int, ...]:
    batch, given = problem.mini_batch, options.get("micro_batch")
    if given is None:
        return tuple(1 << e for e in range(batch.bit_length()) if batch % (1 << e) == 0)
    if given < 1 or batch % given:
        raise InputError(
            "option micro_batch", f"is {given}", f"give a whole number that divides the mini-batch of {batch}"
        )
    return (int(given),)


def decode(problem: GraphPipelineProblem, columns: list[Column], values: Values) -> StageGraphPlan:
    """The chosen columns, with the in-flight samples that their true heights ask for."""
    chosen = [column for n, column in enumerate(columns) if values[f"x[{n}]"] > 0.5]
    rank = {v: place for place, v in enumerate(problem.topological_order)}
    members = [sorted((v for v in rank if column.members >> v & 1), key=rank.__getitem__) for column in chosen]
    order = sorted(range(len(chosen)), key=lambda n: rank[members[n][0]])
    stage_of = {v: place for place, n in enumerate(order) for v in members[n]}
    edges = {(stage_of[u], stage_of[v]) for u, v in problem.arcs if stage_of[u] != stage_of[v]}
    heights = _heights(len(order), edges)
    stages = []
    for place, n in enumerate(order):
        b = chosen[n].micro_batch
        nodes = tuple(problem.operators[v].id for v in members[n])
        stages.append(GraphStage(nodes, chosen[n].devices, b, 1, min(problem.mini_batch, b * heights[place])))
    return StageGraphPlan(tuple(stages), tuple(sorted(edges)))


def _heights(count: int, edges: set[tuple[int, int]]) -> list[int]:
    """Stages on the longest way to an end; the heights of the model prove that there is no circle."""
    heights = [1] * count
    for _ in range(count):
        for i, j in edges:
            heights[i] = max(heights[i], min(count, heights[j] + 1))
    return heights


def encode(problem: GraphPipelineProblem, columns: list[Column], plan: StageGraphPlan) -> Values | None:
    """The plan's columns and heights; None where a stage is none of this model's."""
    place = {(column.members, column.devices, column.micro_batch): n for n, column in enumerate(columns)}
    values = {f"x[{n}]": 0.0 for n in range(len(columns))}
    heights = _heights(len(plan.stages), set(plan.edges))
    for stage, height in zip(plan.stages, heights, strict=True):
        members = sum(1 << problem.index_of[node] for node in stage.nodes)
        n = place.get((members, stage.devices, stage.micro_batch))
        if n is None or stage.k != 1:
            return None
        values[f"x[{n}]"] = 1.0
        values |= {f"h[{problem.index_of[node]}]": float(height) for node in stage.nodes}
    return values
