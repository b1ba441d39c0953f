"""Functions of the kind `placement`: how its problems are read, changed, described, simulated and held in memory, and
its plans completed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any

from ..base.amounts import exact_sum
from ..base.checks import NodeId
from ..base.cluster import Cluster, changes
from ..base.fields import as_entries, as_tuple, each, facts_of, read_problem, read_record, to_record, write_problem
from ..base.quantities import several
from ..registry import PLACEMENT
from .plan import PlacementPlan
from .problem import AcceleratorType, Node, PlacementProblem

if TYPE_CHECKING:
    from ..timeline.model import Pipeline


# ---- files -----------------------------------------------------------------------------------------------
# Our own format, ``pipeplan.placement/1``: versioned, strict, with every field of the problem.
#
# What equals its default may be omitted; an unknown key is an error.

SCHEMA = "pipeplan.placement/1"


def placement_to_json(problem: PlacementProblem) -> dict[str, Any]:
    """The problem as JSON data; defaults of nodes are left out, those of the problem are written.

    Other types, which the format did not have at first, are written only where there are some.
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
    )


def _node(where: str, entry: object) -> Node:
    example = '{"id": ..., "accelerator_time": ..., "cpu_time": ...}'
    return read_record(Node, where, entry, example, other_times=as_tuple)


# ---- kind functions ------------------------------------------------------------


def read(data: Mapping[str, Any], cluster: Cluster, name: str) -> PlacementProblem:
    """The problem in JSON data; the caller's cluster may supply what the data lack."""
    return placement_from_json({**data, **changes(PLACEMENT, cluster)})


def facts(problem: PlacementProblem) -> dict[str, Any]:
    told = ("accelerators", "cpus", "memory_bytes")
    return facts_of(problem, ("nodes", "edges"), told, ("other_types",))


def size(problem: PlacementProblem) -> str:
    return f"{several(len(problem.nodes), 'node')}, {several(len(problem.edges), 'edge')}"


def pipeline(problem: PlacementProblem, plan: PlacementPlan, micro_batches: int | None, schedule: str) -> Pipeline:
    """The pipeline of a contiguous split, a stage for each device."""
    from ..timeline.model import check_tasks, given
    from .simulated import placement_pipeline

    check_tasks([given(micro_batches)] * len(plan.devices))
    return placement_pipeline(problem, plan, given(micro_batches), schedule)


def with_colours(problem: PlacementProblem, plan: PlacementPlan) -> PlacementPlan:
    """The plan with the nodes that it does not name on the device of those of their colour, if that is one device: a
    backward node goes to its forward node."""
    holders: dict[NodeId, int] = {
        node: number for number, device in enumerate(plan.devices) for node in device.nodes
    }
    more: dict[int, list[NodeId]] = {}
    for members in problem.color_classes:
        nodes = [problem.nodes[i].id for i in members]
        devices = {holders[node] for node in nodes if node in holders}
        if len(devices) == 1:
            more.setdefault(devices.pop(), []).extend(node for node in nodes if node not in holders)
    return replace(
        plan,
        devices=tuple(
            device if device.subgraphs else replace(device, nodes=(*device.nodes, *more.get(number, ())))
            for number, device in enumerate(plan.devices)
        ),
    )


def trains(problem: PlacementProblem) -> bool:
    """Does some node belong to the backward pass?"""
    return any(node.backward for node in problem.nodes)


# ---- memory of each device ----------------------------------------------------------------------------


def with_memory(problem: PlacementProblem, memory_bytes: float | None) -> PlacementProblem:
    """The problem with so much memory on accelerators of every type."""
    others = tuple(replace(other, memory_bytes=memory_bytes) for other in problem.other_types)
    return problem.replace(memory_bytes=memory_bytes, other_types=others)


def held(problem: PlacementProblem, plan: PlacementPlan, options: Mapping[str, Any]) -> Fraction:
    """What the fullest accelerator holds, in bytes."""
    sizes = (
        exact_sum(problem.nodes[problem.index[node_id]].size_bytes for node_id in device.nodes)
        for device in plan.devices
        if device.type == "accelerator"
    )
    return max(sizes, default=Fraction(0))
