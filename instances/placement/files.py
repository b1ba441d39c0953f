"""Our own format, ``pipeplan.placement/1``: versioned, strict, with every field of the problem.

What equals its default may be omitted; an unknown key is an error.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from ..base.fields import as_entries, as_tuple, each, read_problem, read_record, to_record, write_problem
from .problem import AcceleratorType, Level, Node, PlacementProblem

SCHEMA = "pipeplan.placement/1"


def placement_to_json(problem: PlacementProblem) -> dict[str, Any]:
    """The problem as JSON data; defaults of nodes are left out, those of the problem are written.

    Other types and levels, which the format did not have at first, are written only where there are some.
    """
    always = ("name", "time_unit", "accelerators", "cpus", "memory_bytes")
    return write_problem(problem, SCHEMA, always, nodes=[to_record(node) for node in problem.nodes])


def placement_from_json(data: object) -> PlacementProblem:
    """The problem in JSON data, or an `InputError` that names the field."""
    return read_problem(
        PlacementProblem,
        SCHEMA,
        data,
        nodes=each(_node),
        edges=each(partial(as_entries, count=2, remedy="give two node ids: [source, target]")),
        other_types=each(partial(read_record, AcceleratorType)),
        levels=each(partial(read_record, Level)),
    )


def _node(where: str, entry: object) -> Node:
    example = '{"id": ..., "accelerator_time": ..., "cpu_time": ...}'
    return read_record(Node, where, entry, example, other_times=as_tuple)
