"""Functions of the kind `graph-pipeline`: how its problems are read, changed, described, simulated and held."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Any

from ..base.cluster import Cluster, changes
from ..base.curve import curve_from_json
from ..base.errors import UsageError, refuse_broken
from ..base.fields import as_entries, each, facts_of, read_problem, read_record, to_record, write_problem
from ..base.kind import Found, Step
from ..base.quantities import several
from ..registry import GRAPH_PIPELINE
from ..timeline.model import Pipeline, check_tasks
from .plan import StageGraphPlan
from .problem import GraphPipelineProblem, Link, Operator
from .referee import held_bytes, stage_graph_pipeline, verify_stage_graph

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


# ---- slightly better clusters -------------------------------------------------------------------------


def upgrades(problem: GraphPipelineProblem, step: Step) -> Found:
    """More memory and faster links, but no further device: a plan must use all of them, so one more can do harm."""
    if problem.memory_bytes is not None:
        yield step.more, problem.replace(memory_bytes=problem.memory_bytes + step.memory_bytes)
    link, node_link = _quicker(problem.link, step.factor), problem.node_link
    if (link, node_link) != (problem.link, None):
        node_link = None if node_link is None else _quicker(node_link, step.factor)
        yield step.faster, problem.replace(link=link, node_link=node_link)


def _quicker(link: Link, factor: float) -> Link:
    return link if link.bandwidth is None else replace(link, bandwidth=link.bandwidth * factor)
