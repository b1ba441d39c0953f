"""A stage graph as a schedule problem: one device stands for all that run a stage, which has its two passes.

The largest micro-batch is that of the schedule; a stage with a smaller one runs several passes in a row.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

from ..base.amounts import Amount, exact_sum
from ..base.errors import UsageError, refuse_broken
from ..base.graph import adjacency, topological_order
from ..base.quantities import several
from ..schedule.from_plan import (
    LoweredSchedule,
    ScheduleOptions,
    check_alike,
    evenly,
    repeated,
    schedule_of,
    work_of,
)
from .plan import GraphStage, StageGraphPlan
from .problem import GraphPipelineProblem
from .referee import forced_edges, stage_graph_pipeline, verify_stage_graph


def lower(problem: GraphPipelineProblem, plan: StageGraphPlan, options: ScheduleOptions) -> LoweredSchedule:
    """The schedule problem of a stage graph; the kFkB schedule in the plan does not count."""
    refuse_broken(verify_stage_graph(problem, plan), "lowered to a schedule problem")
    cut = _cut(problem, plan, options.chunks)
    pipeline = stage_graph_pipeline(problem, cut)
    inputs = [_read(problem, stage) for stage in cut.stages]
    limits = [problem.memory_bytes] * len(cut.stages)
    work = work_of(pipeline, options, limits, _notes(plan), inputs=inputs, once=problem.workspace_bytes)
    samples = max(stage.micro_batch for stage in plan.stages)
    lowered = schedule_of(
        work, options, lambda count: stage_graph_pipeline(problem.replace(mini_batch=count * samples), plan)
    )
    return replace(lowered, samples=samples)


def _cut(problem: GraphPipelineProblem, plan: StageGraphPlan, chunks: int) -> StageGraphPlan:
    """The plan with each stage of its chain cut into `chunks` stages of as many operators."""
    if chunks == 1:
        return plan
    check_alike((stage.devices, stage.micro_batch) for stage in plan.stages)
    edges = {*plan.edges, *forced_edges(problem, plan)}
    order = topological_order(adjacency(len(plan.stages), edges)) or ()
    if not edges.issuperset(pairwise(order)):
        raise UsageError(
            "The stages form no chain, so that they have no chunks in turn; drop --virtual and --shape."
        )
    rank = {problem.ids[i]: place for place, i in enumerate(problem.topological_order)}
    counted = repeated({one.id: (one.forward, one.backward, one.weight_bytes) for one in problem.operators})
    stages = [
        replace(plan.stages[number], nodes=nodes)
        for number in order
        for nodes in evenly(
            sorted(plan.stages[number].nodes, key=rank.__getitem__), chunks, f"Stage {number}", counted
        )
    ]
    return StageGraphPlan(tuple(stages), tuple(pairwise(range(len(stages)))))


def _read(problem: GraphPipelineProblem, stage: GraphStage) -> Amount:
    """Bytes for each sample that one device of the stage reads from other stages."""
    inside = {problem.index[node_id] for node_id in stage.nodes}
    read = {u for v in inside for u in problem.predecessors[v] if u not in inside}
    return exact_sum(problem.operators[u].output_bytes for u in sorted(read)) / stage.devices


def _notes(plan: StageGraphPlan) -> Iterator[str]:
    sizes = sorted({stage.micro_batch for stage in plan.stages})
    yield f"a micro-batch is one of {several(sizes[-1], 'sample')}"
    if len(sizes) > 1:
        yield f"stages with micro-batches of {' or '.join(map(str, sizes[:-1]))} run several passes in a row for it"
    if any(stage.devices > 1 for stage in plan.stages):
        yield "a device of the schedule is all devices of a stage; memory is that of one of them"
