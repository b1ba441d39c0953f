"""Plans by hand for networks of branches: one device and one stage for each layer, as a graph or in one row."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from ..base.graph import adjacency, heights_of
from .plan import GraphStage, StageGraphPlan
from .problem import GraphPipelineProblem
from .referee.costs import forced_edges


def layer_stages(problem: GraphPipelineProblem, micro_batch: int, in_a_row: bool = False) -> StageGraphPlan:
    """A plan with a stage for each layer: operators whose names differ in the last part alone are a layer, and one
    without parts joins the layer before it.

    `in_a_row` orders the stages one after the other, branch after branch, as a sequential pipeline does. Each stage
    holds as many micro-batches as there are stages on the longest path from it to the end.
    """
    layers: dict[str, list[str]] = {}
    for operator in problem.operators:
        layer = str(operator.id).rpartition(".")[0] or next(reversed(layers), "")
        layers.setdefault(layer, []).append(str(operator.id))
    stages = tuple(GraphStage(tuple(nodes), 1, micro_batch) for nodes in layers.values())
    edges = set(forced_edges(problem, StageGraphPlan(stages, ())))
    if in_a_row:
        edges |= set(pairwise(range(len(stages))))
    heights = heights_of(adjacency(len(stages), sorted(edges)))
    assert heights is not None, "layers of a branch follow each other"
    in_flight = [min(height * micro_batch, problem.mini_batch) for height in heights]
    return StageGraphPlan(
        tuple(replace(stage, in_flight=samples) for stage, samples in zip(stages, in_flight, strict=True)),
        tuple(sorted(edges)),
    )
