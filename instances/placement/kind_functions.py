"""Functions of the kind `placement`: how its problems are read, changed, described, simulated and held in memory, and
its plans completed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any

from ..base.amounts import exact_sum
from ..base.checks import NodeId
from ..base.cluster import Cluster, changes
from ..base.errors import show
from ..base.fields import as_entries, as_tuple, each, facts_of, read_problem, read_record, to_record, write_problem
from ..base.quantities import several
from ..registry import PLACEMENT
from .plan import PlacementPlan
from .problem import AcceleratorType, Level, Node, PlacementProblem

if TYPE_CHECKING:
    from ..timeline.model import Pipeline


# ---- files -----------------------------------------------------------------------------------------------
# Our own format, ``pipeplan.placement/1``: versioned, strict, with every field of the problem.
#
# What equals its default may be omitted; an unknown key is an error.

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


# ---- kind functions ------------------------------------------------------------


def read(data: Mapping[str, Any], cluster: Cluster, name: str) -> PlacementProblem:
    """The problem in JSON data; the caller's cluster may supply what the data lack."""
    return placement_from_json({**data, **changes(PLACEMENT, cluster)})


def facts(problem: PlacementProblem) -> dict[str, Any]:
    told = ("accelerators", "cpus", "memory_bytes")
    return facts_of(problem, ("nodes", "edges"), told, ("other_types", "levels"))


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


# ---- what a reader should know about a problem as it was given, whatever the method ---------------------------

# A time of at least this much, and of this many times all smaller times together, looks like a word: forbidden.
SENTINEL = 1e6

REMEDIES = {
    "accelerator_time": 'if it means that no accelerator can run this, say "supported": false',
    "other_times": "if it means that this type cannot run this, say null",
    "cpu_time": "if it means that this must not be on a CPU: plans have it there only where nothing else is possible",
}


def remarks(problem: PlacementProblem) -> Iterator[str]:
    """A sentence on the times of each field that are far above all others together. Plans take them as they stand, and
    they cost no digit of the answer."""
    times = sorted(_times(problem))
    least = _far_above([time for time, _, _ in times])
    if least is None:
        return
    far = sorted((field, i, time) for time, field, i in times if time >= least)
    for field, group in groupby(far, key=lambda entry: entry[0]):
        entries = list(group)
        others = f" and of {len(entries) - 1} more" if len(entries) > 1 else ""
        yield (
            f"the {field} {entries[0][2]:g} of node {show(problem.nodes[entries[0][1]].id)}{others} is more than a "
            f"million times all smaller times together; {REMEDIES[field]}"
        )


def _times(problem: PlacementProblem) -> Iterator[tuple[float, str, int]]:
    """Every time that some device may take, with the name of its field and its node."""
    for i, node in enumerate(problem.nodes):
        if problem.accelerators and node.supported:
            yield node.accelerator_time, "accelerator_time", i
        if problem.cpus:
            yield node.cpu_time, "cpu_time", i
        for time in node.other_times:
            if time is not None:
                yield time, "other_times", i


def _far_above(ascending: Iterable[float]) -> float | None:
    """The first time that is far above all before it together; None: there is none."""
    total = 0.0
    for time in ascending:
        if time >= SENTINEL and 0 < SENTINEL * total <= time:
            return time
        total = math.fsum((total, time))
    return None


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
