"""Our own format for graph pipelines, ``pipeplan.graph-pipeline/1``: versioned, strict, with every field.

What equals its default may be omitted; an unknown key is an error.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from ..base.curve import curve_from_json
from ..base.fields import as_entries, each, read_problem, read_record, to_record, write_problem
from .problem import GraphPipelineProblem, Link, Operator

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
