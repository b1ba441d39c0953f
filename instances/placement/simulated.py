"""A contiguous split (Tarnawski) as the simulator's input: one stage for each busy device, in the order of the chain.

Transfers overlap with computation here, where the split's loads count them as work. A graph without backward nodes
runs forward only. A sample of the simulator is a sample of the problem, that is, one micro-batch.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from ..base.amounts import as_written
from ..base.checks import NodeId
from ..base.errors import UsageError, show
from ..base.graph import Graph
from ..base.quantities import several
from ..schedule.from_plan import (
    Holder,
    Joint,
    LoweredSchedule,
    Part,
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
from .referee.latency import Key, Units, pieces_without_circles, runnable, units
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


# ---- pieces of a schedule ----------------------------------------------------------------------------
# A placement that is no chain of stages, as parts for a schedule: the convex pieces of each device.
#
# Where a path leaves the nodes of a device and comes back, the device runs them in several pieces, none of which
# waits for itself: as few as possible, with forward and backward nodes apart.


class _Flow(Graph):
    """The problem's nodes, with edges between backward nodes that lead from the later layer to the earlier one."""

    def __init__(self, problem: PlacementProblem) -> None:
        self.problem, self.turned = problem, _points_forward(problem)

    @property
    def ids(self) -> Sequence[NodeId]:
        return self.problem.ids

    @property
    def ends(self) -> Iterator[tuple[NodeId, NodeId]]:
        for source, target in self.problem.edges:
            u, v = (self.problem.nodes[self.problem.index[node_id]] for node_id in (source, target))
            yield (target, source) if self.turned and u.backward and v.backward else (source, target)


def _points_forward(problem: PlacementProblem) -> bool:
    """Do edges between backward nodes point as those of their forward nodes do? They do where a profile was read; in
    published files they point from where a gradient is made to where it is read."""
    forward: dict[NodeId | None, int] = {
        node.color: i for i, node in enumerate(problem.nodes) if not node.backward and node.color is not None
    }
    arcs = set(problem.arcs)
    alike = mirrored = 0
    for u, v in problem.arcs:
        if problem.nodes[u].backward and problem.nodes[v].backward:
            before, after = (forward.get(problem.nodes[i].color) for i in (u, v))
            alike += (before, after) in arcs
            mirrored += (after, before) in arcs
    return alike > mirrored


def work_in_pieces(problem: PlacementProblem, plan: PlacementPlan) -> PlannedWork:
    """The pieces of each device as parts; a forward piece and the backward piece of its nodes are one part."""
    busy = [device for device in plan.devices if device.nodes]
    place = {device.name: number for number, device in enumerate(busy)}
    owner = [place[plan.devices[d].name] for d in device_of_nodes(problem, plan)]
    graph = _pieces(problem, owner, len(busy))
    part_of, parts = _parts(problem, busy, owner, graph)
    return PlannedWork(
        tuple(_holder(problem, device) for device in busy),
        parts,
        tuple(_joints(problem, busy, owner, graph, part_of)),
        problem.name,
        problem.time_unit,
        turns=tuple(_turns(problem, owner, graph, part_of)),
        notes=tuple(_notes(busy, parts)),
    )


def _pieces(problem: PlacementProblem, owner: Sequence[int], devices: int) -> Units:
    """The pieces of all devices, found as for twice as many devices that each run one direction alone."""
    flow = _Flow(problem)
    apart = PlacementPlan(tuple(Device(str(number), "accelerator", ()) for number in range(2 * devices)))
    halves = [2 * device + node.backward for device, node in zip(owner, problem.nodes, strict=True)]
    keys: list[Key | None] = [None] * len(owner)
    keys = pieces_without_circles(flow, apart, halves, keys, units(flow, apart, halves, keys))
    return units(flow, apart, halves, keys)


def _parts(
    problem: PlacementProblem, busy: Sequence[Device], owner: Sequence[int], graph: Units
) -> tuple[Mapping[int, int], tuple[Part, ...]]:
    """The number of each piece's part, and the parts in the order of the network."""
    part_of: dict[int, int] = {}
    parts: list[Part] = []
    mates = _mates(problem, owner, graph)
    # Stable: forward pieces first, either direction in an order in which it can run.
    for piece in sorted(
        runnable(graph.waits_for), key=lambda piece: problem.nodes[graph.members[piece][0]].backward
    ):
        members = graph.members[piece]
        device = busy[owner[members[0]]]
        time = as_written(math.fsum(time_of(problem, device, i) for i in members)) / device.replicas
        if not problem.nodes[members[0]].backward:
            part_of[piece] = len(parts)
            parts.append(Part(owner[members[0]], time, None))
        elif piece in mates:
            part_of[piece] = part_of[mates[piece]]
            parts[part_of[piece]] = replace(parts[part_of[piece]], backward=time)
        else:
            part_of[piece] = len(parts)
            parts.append(Part(owner[members[0]], None, time))
    return part_of, tuple(parts)


def _mates(problem: PlacementProblem, owner: Sequence[int], graph: Units) -> dict[int, int]:
    """The forward piece of each backward piece, where both are on one device and of the same colours."""
    pieces: dict[bool, dict[tuple[int, frozenset[NodeId | None]], int]] = {False: {}, True: {}}
    for piece, members in enumerate(graph.members):
        colours = frozenset(problem.nodes[i].color for i in members) - {None}
        if colours:
            pieces[problem.nodes[members[0]].backward][owner[members[0]], colours] = piece
    return {piece: pieces[False][key] for key, piece in pieces[True].items() if key in pieces[False]}


def _joints(
    problem: PlacementProblem,
    busy: Sequence[Device],
    owner: Sequence[int],
    graph: Units,
    part_of: Mapping[int, int],
) -> Iterator[Joint]:
    """A tensor takes its transfer time at each accelerator end, once for all nodes of a piece that read it."""
    factor = level_facts(problem, 1).transfer_factor
    for (x, y), producers in _crossing(problem, graph).items():
        first, second = graph.members[x][0], graph.members[y][0]
        ends = sum(busy[owner[i]].type != "cpu" for i in (first, second)) if owner[first] != owner[second] else 0
        lag = ends * factor * math.fsum(problem.nodes[u].transfer_time for u in producers)
        if problem.nodes[first].backward:
            yield Joint(part_of[y], part_of[x], None, lag)
        else:
            yield Joint(part_of[x], part_of[y], lag, None)


def _crossing(problem: PlacementProblem, graph: Units) -> dict[tuple[int, int], list[int]]:
    """For each two pieces of one direction, the nodes whose output goes from one to the other, each once."""
    turned = _points_forward(problem)
    crossing: defaultdict[tuple[int, int], dict[int, None]] = defaultdict(dict)
    for u, v in problem.arcs:
        pair, backward = (graph.unit_of[u], graph.unit_of[v]), problem.nodes[u].backward
        if pair[0] != pair[1] and backward == problem.nodes[v].backward:
            crossing[pair[::-1] if turned and backward else pair][u] = None
    return {pair: list(producers) for pair, producers in crossing.items()}


def _turns(
    problem: PlacementProblem, owner: Sequence[int], graph: Units, part_of: Mapping[int, int]
) -> Iterable[tuple[int, int]]:
    """Pairs of parts, the first of which runs first: on a device all forward pieces run before the backward ones, and
    a forward piece before those backward pieces that read it, where its tensors have long arrived."""
    forward: defaultdict[int, list[int]] = defaultdict(list)
    backward: defaultdict[int, list[int]] = defaultdict(list)
    for piece, members in enumerate(graph.members):
        (backward if problem.nodes[members[0]].backward else forward)[owner[members[0]]].append(piece)
    pairs = [(a, b) for device, pieces in forward.items() for a in pieces for b in backward[device]]
    pairs += [
        (graph.unit_of[u], graph.unit_of[v])
        for u, v in problem.arcs
        if problem.nodes[v].backward and not problem.nodes[u].backward
    ]
    return dict.fromkeys((part_of[a], part_of[b]) for a, b in pairs)


def _holder(problem: PlacementProblem, device: Device) -> Holder:
    bytes_held = math.fsum(problem.nodes[problem.index[node_id]].size_bytes for node_id in device.nodes)
    return Holder(device.name, limit_of(problem, device), bytes_held)


def _notes(busy: Sequence[Device], parts: Sequence[Part]) -> Iterator[str]:
    if len(parts) > len(busy):
        yield f"{len(busy)} devices run {several(len(parts), 'piece')}, because their nodes form no chain of stages"
    if any(device.replicas > 1 for device in busy):
        yield "replicas that take turns count as one device that is so much faster"


# ---- blocks of a schedule ----------------------------------------------------------------------------
# A chain of stages becomes blocks as the simulator knows it, any other placement piece by piece.

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
