"""A contiguous split (Tarnawski) as the simulator's input: one stage for each busy device, in the order of the chain.

Transfers overlap with computation here, where the split's loads count them as work. A graph without backward nodes
runs forward only. A sample of the simulator is a sample of the problem, that is, one micro-batch.
"""

from __future__ import annotations

import math
from collections import defaultdict

from ..base.errors import UsageError
from ..schedule.from_plan import LoweredSchedule, ScheduleOptions, schedule_of, work_of
from ..timeline.model import Dependency, Order, Pipeline, Stage, replica_orders
from .plan import Device, PlacementPlan, limit_of
from .problem import PlacementProblem
from .referee.structure import check_computable, device_of_nodes, stage_order, time_of


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
