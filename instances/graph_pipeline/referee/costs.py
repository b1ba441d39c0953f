"""What one stage of a stage graph costs, from the decisions alone.

A stage of d devices splits every micro-batch of b samples into d equal shares.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction

from ...base.amounts import as_written, exact_sum
from ...base.checks import NodeId
from ..plan import GraphStage, StageGraphPlan
from ..problem import GraphPipelineProblem

# An activation goes forward, its gradient back.
TRIPS = 2.0


@dataclass(frozen=True, slots=True)
class GraphStageCost:
    """One stage: times in the problem's time unit, memory of one device in bytes."""

    forward: float
    """Time of the forward pass of one micro-batch."""
    backward: float
    transfers: float
    """Time of one micro-batch's transfers: each tensor that enters or leaves goes forward, and its gradient back."""
    synchronisation: float
    """Time to synchronise the weights, once for each mini-batch."""
    time_per_sample: float
    weight_bytes: float
    """Bytes of one copy of the weights."""
    sample_bytes: float
    """Bytes of one device for each sample in flight."""
    memory_bytes: float
    required_in_flight: int
    """Samples in flight that the schedules of this and the following stages need."""


def stage_costs(problem: GraphPipelineProblem, plan: StageGraphPlan) -> tuple[GraphStageCost, ...]:
    """Every stage's costs; the plan must hold known operators, and its numbers must be positive."""
    required = required_in_flight(problem, plan)
    return tuple(_cost(problem, stage, needed) for stage, needed in zip(plan.stages, required, strict=True))


def _cost(problem: GraphPipelineProblem, stage: GraphStage, required: int) -> GraphStageCost:
    b, d = stage.micro_batch, stage.devices
    members = [problem.operators[problem.index[node_id]] for node_id in stage.nodes]
    forward, backward = passes_of(problem, stage)
    weights = math.fsum(operator.weight_bytes for operator in members)
    link = problem.boundary_link
    transfers = TRIPS * math.fsum(link.seconds(amount * b / d) for amount in _boundary(problem, stage))
    synchronisation = problem.inner_link(d).seconds(2 * (d - 1) / d * weights) if d > 1 else 0.0
    sample_bytes = math.fsum(operator.stash_bytes for operator in members) / d
    return GraphStageCost(
        forward=forward,
        backward=backward,
        transfers=transfers,
        synchronisation=synchronisation,
        time_per_sample=math.fsum((forward, backward, transfers)) / b + synchronisation / problem.mini_batch,
        weight_bytes=weights,
        sample_bytes=sample_bytes,
        memory_bytes=float(held_bytes(problem, stage)),
        required_in_flight=required,
    )


def passes_of(problem: GraphPipelineProblem, stage: GraphStage) -> tuple[float, float]:
    """Forward and backward time of one micro-batch."""
    members = [problem.operators[problem.index[node_id]] for node_id in stage.nodes]
    samples = stage.micro_batch / stage.devices
    forward = math.fsum(operator.forward(samples) for operator in members)
    return forward, math.fsum(operator.backward(samples) for operator in members)


def held_bytes(problem: GraphPipelineProblem, stage: GraphStage) -> Fraction:
    """What a device of the stage holds, exactly."""
    members = [problem.operators[problem.index[node_id]] for node_id in stage.nodes]
    weights = exact_sum(operator.weight_bytes for operator in members)
    stashes = exact_sum(operator.stash_bytes for operator in members)
    fixed = as_written(problem.weight_copies) * weights + as_written(problem.workspace_bytes)
    return fixed + stashes * stage.in_flight / stage.devices


def overfull(problem: GraphPipelineProblem, plan: StageGraphPlan) -> Iterator[tuple[int, Fraction]]:
    """Stages whose devices hold more than their memory, and how much they hold."""
    if problem.memory_bytes is not None:
        for number, stage in enumerate(plan.stages):
            bytes_held = held_bytes(problem, stage)
            if bytes_held > as_written(problem.memory_bytes):
                yield number, bytes_held


def _boundary(problem: GraphPipelineProblem, stage: GraphStage) -> Iterable[float]:
    """Bytes per sample of every tensor that crosses the stage's boundary, each counted once."""
    inside = {problem.index[node_id] for node_id in stage.nodes}
    entering = {u for v in inside for u in problem.predecessors[v] if u not in inside}
    leaving = {u for u in inside if any(v not in inside for v in problem.successors[u])}
    return [problem.operators[u].output_bytes for u in sorted(entering | leaving)]


# ---- samples in flight ---------------------------------------------------------------------------------


def in_flight_before(stage: GraphStage, successor: GraphStage, successor_in_flight: int) -> int:
    """Samples that a stage must hold so that a stage after it, which holds so many, is never kept waiting.

    The published table of ten rows in one formula: more where the stage works in bigger groups, and a second
    buffer where both stages work in groups of several micro-batches.
    """
    group, next_group = stage.k * stage.micro_batch, successor.k * successor.micro_batch
    bigger = max(stage.micro_batch, successor.micro_batch)
    buffers = 2 if bigger < min(group, next_group) else 1
    return successor_in_flight + max(0, group - next_group) + buffers * bigger


def required_in_flight(problem: GraphPipelineProblem, plan: StageGraphPlan) -> tuple[int, ...]:
    """Samples that each stage must hold by those of the stages after it: whole micro-batches, at most the mini-batch.

    Edges to stages that do not exist are left out: the rules say what is wrong with them.
    """
    stages = plan.stages
    needs = [[stage.k * stage.micro_batch] for stage in stages]
    for x, y in plan.edges:
        if x < len(stages) and y < len(stages) and x != y:
            needs[x] += [in_flight_before(stages[x], stages[y], stages[y].in_flight)]
    return tuple(
        min(-(-max(need[1:] or need) // stage.micro_batch) * stage.micro_batch, problem.mini_batch)
        for stage, need in zip(stages, needs, strict=True)
    )


# ---- the graph of stages -------------------------------------------------------------------------------


def stage_of_operators(plan: StageGraphPlan) -> dict[NodeId, int]:
    """The first stage that lists each operator."""
    owner: dict[NodeId, int] = {}
    for number, stage in enumerate(plan.stages):
        for node_id in stage.nodes:
            owner.setdefault(node_id, number)
    return owner


def forced_edges(
    problem: GraphPipelineProblem, plan: StageGraphPlan
) -> dict[tuple[int, int], tuple[NodeId, NodeId]]:
    """Pairs of stages that an edge between operators orders, each with the first such edge."""
    owner = stage_of_operators(plan)
    edges: dict[tuple[int, int], tuple[NodeId, NodeId]] = {}
    for u, v in problem.edges:
        pair = owner.get(u), owner.get(v)
        if pair[0] is not None and pair[1] is not None and pair[0] != pair[1]:
            edges.setdefault((pair[0], pair[1]), (u, v))
    return edges
