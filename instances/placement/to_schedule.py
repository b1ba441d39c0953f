"""A placement as a schedule problem: a chain of stages as the simulator knows it, any other one piece by piece.

`schedule_pieces.py` says what the pieces are.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace

from ..base.checks import NodeId
from ..base.errors import UsageError, show
from ..schedule.from_plan import LoweredSchedule, schedule_of
from ..schedule.lowering_options import ScheduleOptions
from ..schedule.planned_work import PlannedWork, evenly, holders_of, joints_of, notes_on, parts_of, repeated, spread
from .plan import Device, PlacementPlan
from .problem import PlacementProblem
from .referee.assignment import check_computable, device_of_nodes
from .referee.contiguity import stage_order, topological_ranks
from .referee.verify import memory_of
from .schedule_pieces import work_in_pieces
from .simulated import placement_pipeline

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
        if options.chunks > 1:
            raise UsageError("The devices form no chain of stages, so that they have no chunks; drop --virtual.")
        work = work_in_pieces(problem, plan)
        return schedule_of(replace(work, notes=(HELD, *work.notes)), options)
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
    pipeline = placement_pipeline(problem, plan, 1)
    devices = spread(len(stages), options)
    first = stages[: len(stages) // options.chunks]
    names = [stage.name if options.chunks == 1 else f"d{number}" for number, stage in enumerate(first)]
    return PlannedWork(
        holders_of(pipeline, devices, names, [memory_of(problem, stage) for stage in first]),
        parts_of(pipeline, devices),
        joints_of(pipeline, devices),
        problem.name,
        problem.time_unit,
        notes=(HELD, *notes_on(pipeline)),
    )


# ---- chunks ---------------------------------------------------------------------------------------------


def _cut(problem: PlacementProblem, stages: Sequence[Device], chunks: int) -> PlacementPlan:
    """The plan with each stage cut into chunks of as many forward nodes; backward nodes follow their colour."""
    if len({(device.type, device.accelerator_type, device.replicas) for device in stages}) > 1:
        raise UsageError(
            "The stages run on different devices or on different numbers of them, so that chunks cannot change places; "
            "drop --virtual, or plan with stages that are alike."
        )
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
