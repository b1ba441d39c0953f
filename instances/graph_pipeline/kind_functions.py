"""Functions of the kind `graph-pipeline`: how its problems are read, changed, described, simulated and held.

A new field of the problem is read and written by its record; add it to `ALWAYS` if files are to show its default.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from functools import partial
from itertools import pairwise
from typing import Any

from ..base.amounts import Amount, exact_sum
from ..base.cluster import Cluster, changes
from ..base.curve import curve_from_json
from ..base.errors import UsageError, refuse_broken
from ..base.fields import as_entries, each, facts_of, read_problem, read_record, to_record, write_problem
from ..base.graph import adjacency, topological_order
from ..base.quantities import several
from ..registry import GRAPH_PIPELINE
from ..schedule.from_plan import (
    LoweredSchedule,
    ScheduleOptions,
    check_alike,
    evenly,
    repeated,
    schedule_of,
    work_of,
)
from ..timeline.model import Pipeline, check_tasks
from .plan import GraphStage, StageGraphPlan
from .problem import GraphPipelineProblem, Link, Operator
from .referee import forced_edges, held_bytes, stage_graph_pipeline, verify_stage_graph

# ---- files -----------------------------------------------------------------------------------------------
# Our own format for graph pipelines, ``pipeplan.graph-pipeline/1``: versioned, strict, with every field.
#
# What equals its default may be omitted; an unknown key is an error.

GRAPH_PIPELINE_SCHEMA = "pipeplan.graph-pipeline/1"

# Fields that are written even where they have their defaults.
ALWAYS = (
    "name", "time_unit", "mini_batch", "devices", "memory_bytes", "link", "node_link", "devices_per_node",
    "weight_copies", "workspace_bytes",
)  # fmt: skip


def graph_pipeline_to_json(problem: GraphPipelineProblem) -> dict[str, Any]:
    """The problem as JSON data, with every default of the problem written out."""
    operators = [to_record(operator) for operator in problem.operators]
    return write_problem(problem, GRAPH_PIPELINE_SCHEMA, ALWAYS, operators=operators)


def graph_pipeline_from_json(data: object) -> GraphPipelineProblem:
    """The problem in JSON data, or an `InputError` that names the field."""
    link = partial(read_record, Link)
    return read_problem(
        GraphPipelineProblem,
        GRAPH_PIPELINE_SCHEMA,
        data,
        operators=each(_operator_from_json),
        edges=each(partial(as_entries, count=2, remedy="give two operator ids: [source, target]")),
        link=link,
        node_link=link,
    )


def _operator_from_json(where: str, value: object) -> Operator:
    example = '{"id": ..., "forward": {...}, "backward": {...}}'
    return read_record(Operator, where, value, example, forward=curve_from_json, backward=curve_from_json)


# ---- what every problem type is asked -----------------------------------------------------------------


def read(data: Mapping[str, Any], cluster: Cluster, name: str) -> GraphPipelineProblem:
    """The problem in JSON data; the caller's cluster may supply what the data lack."""
    return graph_pipeline_from_json({**data, **changes(GRAPH_PIPELINE, cluster)})


def facts(problem: GraphPipelineProblem) -> dict[str, Any]:
    return facts_of(problem, ("operators", "edges"), ("devices", "memory_bytes", "mini_batch"))


def size(problem: GraphPipelineProblem) -> str:
    return f"{several(len(problem.operators), 'operator')}, {several(len(problem.edges), 'edge')}"


def pipeline(
    problem: GraphPipelineProblem, plan: StageGraphPlan, micro_batches: int | None, schedule: str
) -> Pipeline:
    """The pipeline of a stage graph, which itself says how many micro-batches there are."""
    if micro_batches is not None:
        raise UsageError("A stage graph itself says how many micro-batches there are; drop micro_batches.")
    check_tasks(problem.mini_batch // max(1, stage.micro_batch) for stage in plan.stages)
    refuse_broken(verify_stage_graph(problem, plan))
    return stage_graph_pipeline(problem, plan, schedule)


# ---- memory of each device ----------------------------------------------------------------------------


def held(problem: GraphPipelineProblem, plan: StageGraphPlan, options: Mapping[str, Any]) -> Fraction:
    """What a device of the fullest stage holds, in bytes."""
    return max(held_bytes(problem, stage) for stage in plan.stages)


# ---- a stage graph as a schedule problem --------------------------------------------------------------
#
# A stage graph as a schedule problem: one device stands for all that run a stage, which has its two passes.
#
# The largest micro-batch is that of the schedule; a stage with a smaller one runs several passes in a row.


def lower(problem: GraphPipelineProblem, plan: StageGraphPlan, options: ScheduleOptions) -> LoweredSchedule:
    """The schedule problem of a stage graph; the kFkB schedule in the plan does not count."""
    refuse_broken(verify_stage_graph(problem, plan), "lowered to a schedule problem")
    cut = _cut(problem, plan, options.chunks)
    pipeline = stage_graph_pipeline(problem, cut)
    inputs = [_read(problem, stage) for stage in cut.stages]
    work = work_of(pipeline, options, _notes(plan), inputs=inputs, once=problem.workspace_bytes)
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
