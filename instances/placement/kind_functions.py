"""Functions of the kind `placement`: how its problems are read, changed, described, simulated and held in memory, and
its plans completed.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Any

from ..base.amounts import exact_sum
from ..base.checks import NodeId
from ..base.cluster import Cluster, changes
from ..base.errors import UsageError
from ..base.fields import as_entries, as_tuple, each, facts_of, read_problem, read_record, to_record, write_problem
from ..base.quantities import several
from ..registry import PLACEMENT
from ..schedule.from_plan import LoweredSchedule, ScheduleOptions, schedule_of, work_of
from ..timeline.model import Dependency, Order, Pipeline, Stage, check_tasks, given, replica_orders
from .plan import Device, PlacementPlan, limit_of
from .problem import AcceleratorType, Node, PlacementProblem
from .referee.structure import check_computable, device_of_nodes, stage_order, time_of

# ---- simulated, and scheduled ---------------------------------------------------------------------------------
# A contiguous split (Tarnawski) as the simulator's input: one stage for each busy device, in the order of the chain.
#
# Transfers overlap with computation here, where the split's loads count them as work. A graph without backward nodes
# runs forward only. A sample of the simulator is a sample of the problem, that is, one micro-batch.


def placement_pipeline(
    problem: PlacementProblem, plan: PlacementPlan, micro_batches: int, schedule: str = "planned"
) -> Pipeline:
    """The pipeline in GPipe, or in 1F1B, where a stage holds as many samples as there are devices from it on."""
    check_computable(problem, plan)
    names = stage_order(problem, plan)
    if names is None:
        raise UsageError("The devices form no chain of stages, so there is no pipeline; give a contiguous plan.")
    devices = [device for name in names for device in plan.devices if device.name == name and device.nodes]
    training = any(node.backward for node in problem.nodes)
    stages = []
    for number, device in enumerate(devices):
        held = micro_batches if schedule == "gpipe" else len(devices) - number
        orders = replica_orders(micro_batches, 1, held)
        stages.append(_stage(problem, device, orders if training else _forward_only(orders)))
    return Pipeline(
        tuple(stages), _dependencies(problem, plan, devices), micro_batches, problem.name, problem.time_unit
    )


def _forward_only(orders: tuple[Order, ...]) -> tuple[Order, ...]:
    return tuple(tuple(j for j in order if j > 0) for order in orders)


def _stage(problem: PlacementProblem, device: Device, orders: tuple[Order, ...]) -> Stage:
    nodes = [problem.index[node_id] for node_id in device.nodes]
    times: dict[bool, list[float]] = {False: [], True: []}
    for i in nodes:
        times[problem.nodes[i].backward].append(time_of(problem, device, i))
    return Stage(
        name=device.name,
        micro_batch=1,
        forward=math.fsum(times[False]),
        backward=math.fsum(times[True]),
        orders=orders,
        devices=1,
        synchronisation=0.0,
        fixed_bytes=math.fsum(problem.nodes[i].size_bytes for i in nodes),
        limit_bytes=limit_of(problem, device),
    )


def _dependencies(problem: PlacementProblem, plan: PlacementPlan, devices: list[Device]) -> tuple[Dependency, ...]:
    """Each stage follows the one before; a tensor takes its transfer time at each accelerator end.

    What the backward pass reads of the forward pass of another device has long arrived and takes no time here.
    """
    place = {device.name: number for number, device in enumerate(devices)}
    owner = [place[plan.devices[d].name] for d in device_of_nodes(problem, plan)]
    tensors: defaultdict[tuple[int, int], dict[bool, set[int]]] = defaultdict(lambda: {False: set(), True: set()})
    for number in range(len(devices) - 1):
        tensors[number, number + 1]  # an entry for every neighbour, with or without tensors
    for u, v in problem.arcs:
        backward = problem.nodes[u].backward
        if owner[u] != owner[v] and backward == problem.nodes[v].backward:
            # In files edges of the backward pass point back; made of a profile, they point as their forward edges do.
            pair = (min(owner[u], owner[v]), max(owner[u], owner[v])) if backward else (owner[u], owner[v])
            tensors[pair][backward].add(u)
    dependencies = []
    for (x, y), crossing in tensors.items():
        ends = sum(devices[z].type != "cpu" for z in (x, y))
        forward, backward_ = (
            ends * math.fsum(problem.nodes[u].transfer_time for u in crossing[side]) for side in (False, True)
        )
        dependencies.append(Dependency(x, y, forward, backward_))
    return tuple(dependencies)


# ---- blocks of a schedule ----------------------------------------------------------------------------
# A note for every placement.
HELD = "what nodes hold counts all the time, as in a placement, so that the schedule changes no memory"


def lower(problem: PlacementProblem, plan: PlacementPlan, options: ScheduleOptions) -> LoweredSchedule:
    """The schedule problem of a placement for training."""
    check_computable(problem, plan)
    device_of_nodes(problem, plan)
    if not any(node.backward for node in problem.nodes):
        raise UsageError("The problem has no backward nodes, and schedules are of training; give one that has.")
    if options.chunks > 1:
        raise UsageError(
            "Placements are not cut into chunks; drop --virtual and --shape, or plan with --kind staging."
        )
    pipeline = placement_pipeline(problem, plan, 1)
    work = work_of(pipeline, options, [HELD], names=[stage.name for stage in pipeline.stages])
    return schedule_of(work, options, lambda count: placement_pipeline(problem, plan, count))


# ---- the kind ------------------------------------------------------------


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
