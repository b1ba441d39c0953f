"""A contiguous split (Tarnawski) as the simulator's input: one stage for each busy device, in the order of the chain.

Transfers overlap with computation here, where the split's loads count them as work. A graph without backward nodes
runs forward only. A sample of the simulator is a sample of the problem, that is, one micro-batch.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace

from ..base.checks import NodeId
from ..base.errors import UsageError, show
from ..schedule.from_plan import (
    LoweredSchedule,
    PlannedWork,
    ScheduleOptions,
    check_alike,
    evenly,
    repeated,
    schedule_of,
    work_of,
)
from ..timeline.model import Dependency, Order, Pipeline, Stage, replica_orders
from .plan import Device, PlacementPlan, limit_of
from .problem import PlacementProblem
from .referee.structure import (
    check_computable,
    device_of_nodes,
    level_facts,
    stage_order,
    time_of,
    topological_ranks,
)

# Reduce-scatter and all-gather of the weights of replicas, each in and out.
SYNC_TRIPS = 4.0


def placement_pipeline(
    problem: PlacementProblem, plan: PlacementPlan, micro_batches: int, schedule: str = "planned"
) -> Pipeline:
    """The pipeline in GPipe, or in 1F1B, where a stage holds as many samples as there are devices from it on."""
    check_computable(problem, plan)
    if plan.groups:
        raise UsageError("Groups of devices are not simulated; give a plan on one level.")
    names = stage_order(problem, plan)
    if names is None:
        raise UsageError("The devices form no chain of stages, so there is no pipeline; give a contiguous plan.")
    devices = [device for name in names for device in plan.devices if device.name == name and device.nodes]
    training = any(node.backward for node in problem.nodes)
    stages = []
    for number, device in enumerate(devices):
        ahead = sum(later.replicas for later in devices[number:])
        held = micro_batches if schedule == "gpipe" else -(-ahead // device.replicas)
        orders = replica_orders(micro_batches, device.replicas, held)
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
    bandwidth = level_facts(problem, 1).sync_bandwidth
    weights = math.fsum(problem.nodes[i].weight_bytes for i in nodes)
    shared = (
        0.0 if bandwidth is None else SYNC_TRIPS * (device.replicas - 1) / device.replicas * weights / bandwidth
    )
    return Stage(
        name=device.name,
        micro_batch=1,
        forward=math.fsum(times[False]),
        backward=math.fsum(times[True]),
        orders=orders,
        devices=device.replicas,
        synchronisation=shared,
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
    factor = level_facts(problem, 1).transfer_factor
    dependencies = []
    for (x, y), crossing in tensors.items():
        ends = sum(devices[z].type != "cpu" for z in (x, y))
        forward, backward_ = (
            ends * factor * math.fsum(problem.nodes[u].transfer_time for u in crossing[side])
            for side in (False, True)
        )
        dependencies.append(Dependency(x, y, forward, backward_))
    return tuple(dependencies)


# ---- blocks of a schedule ----------------------------------------------------------------------------
# A note for every placement.
HELD = "what nodes hold counts all the time, as in a placement, so that the schedule changes no memory"


def lower(problem: PlacementProblem, plan: PlacementPlan, options: ScheduleOptions) -> LoweredSchedule:
    """The schedule problem of a placement for training, on one level."""
    check_computable(problem, plan)
    device_of_nodes(problem, plan)
    if not any(node.backward for node in problem.nodes):
        raise UsageError("The problem has no backward nodes, and schedules are of training; give one that has.")
    if plan.groups:
        raise UsageError("Groups of devices have no schedule of their own; give a plan on one level.")
    stages = _in_order(problem, plan)
    if stages is None:
        raise UsageError("The devices form no chain of stages, so there is no schedule; give a contiguous plan.")
    cut = _cut(problem, stages, options.chunks) if options.chunks > 1 else plan
    chunks = _in_order(problem, cut)
    if chunks is None:
        raise UsageError("The chunks form no chain of stages; choose another number of them, or drop --virtual.")
    work = _chain(problem, cut, chunks, options)
    return schedule_of(work, options, lambda count: placement_pipeline(problem, plan, count))


def _in_order(problem: PlacementProblem, plan: PlacementPlan) -> list[Device] | None:
    """The devices with nodes as a chain of stages; None where they form none."""
    names = stage_order(problem, plan)
    device_of_name = {device.name: device for device in plan.devices}
    return None if names is None else [device_of_name[name] for name in names if device_of_name[name].nodes]


def _chain(
    problem: PlacementProblem, plan: PlacementPlan, stages: Sequence[Device], options: ScheduleOptions
) -> PlannedWork:
    limits = [limit_of(problem, stage) for stage in stages]
    names = [stage.name for stage in stages] if options.chunks == 1 else None
    return work_of(placement_pipeline(problem, plan, 1), options, limits, [HELD], names=names)


# ---- chunks ---------------------------------------------------------------------------------------------


def _cut(problem: PlacementProblem, stages: Sequence[Device], chunks: int) -> PlacementPlan:
    """The plan with each stage cut into chunks of as many forward nodes; backward nodes follow their colour."""
    check_alike((device.type, device.accelerator_type, device.replicas) for device in stages)
    return PlacementPlan(
        tuple(
            replace(device, name=f"{device.name}.{number}", nodes=nodes, subgraphs=None)
            for device in stages
            for number, nodes in enumerate(_chunks_of(problem, device, chunks))
        )
    )


def _chunks_of(problem: PlacementProblem, device: Device, chunks: int) -> Iterator[tuple[NodeId, ...]]:
    ranks = topological_ranks(problem)
    held = sorted((problem.index[node_id] for node_id in device.nodes), key=ranks.__getitem__)
    forward = [i for i in held if not problem.nodes[i].backward]
    chunk_of: dict[int, int] = {}
    nodes = [(i, node) for i, node in enumerate(problem.nodes) if not node.backward]
    counted = repeated({i: (node.accelerator_time, node.weight_bytes, node.size_bytes) for i, node in nodes})
    what = f"Device {show(device.name)}"
    for number, members in enumerate(evenly(forward, chunks, what, counted, "forward nodes")):
        chunk_of |= dict.fromkeys(members, number)
    of_colour: dict[NodeId, int] = {}
    for i in forward:
        colour = problem.nodes[i].color
        if colour is not None and of_colour.setdefault(colour, chunk_of[i]) != chunk_of[i]:
            raise UsageError(
                f"Nodes of colour {show(colour)} share a device and would be in two chunks; drop --virtual."
            )
    nodes_of: defaultdict[int, list[NodeId]] = defaultdict(list)
    for i in held:
        node = problem.nodes[i]
        if node.backward and node.color not in of_colour:
            raise UsageError(f"Nothing says to which forward node {show(node.id)} belongs; drop --virtual.")
        nodes_of[of_colour[node.color] if node.backward and node.color is not None else chunk_of[i]].append(node.id)
    for number in range(chunks):
        yield tuple(nodes_of[number])
