"""The view of a split of a placement problem, device by device, in the order of the stages where there is one.

For the latency of one sample it is a schedule: pieces of accelerators, and the CPU pool in few lanes.
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from ...instances.base.checks import NodeId
from ...instances.base.errors import UsageError
from ...instances.base.kind import Rules
from ...instances.placement.plan import Device, PlacementPlan, limit_of
from ...instances.placement.problem import Node, PlacementProblem
from ...instances.placement.referee.evaluate import DeviceLoad, NotAnAssignmentError, PlacementEvaluation
from ...instances.placement.referee.latency import LatencyEvaluation, Piece
from ...instances.placement.referee.structure import stage_order
from ...instances.placement.referee.verify import LATENCY, LatencyRules
from ...planners.search import shares
from ..words import IN_BYTES, Order, amount, order_of, several, with_memory
from . import MOST_TOLD, Bar, Graph, PlanView, Row, Table, Timeline, shares_of_blocks

# ---- one sample -----------------------------------------------------------------------------------------------


# Marks of the pieces of an accelerator, in their order.
PIECE_MARKS = "123456789abcdefghijklmnopqrstuvwxyz"
# The most characters for the nodes of a piece in a sentence.
MOST_NAMED = 40
OF_ONE_SAMPLE = (
    "One sample is run at a time.",
    "A piece on an accelerator starts when all its inputs have arrived, and delivers all its outputs at its end.",
    "The CPUs are one pool of unlimited size: a node runs there as soon as its inputs have arrived.",
)


def latency_view(problem: PlacementProblem, plan: PlacementPlan, rules: Rules) -> PlanView:
    """Every piece with its time and size, the work of the CPUs, and the timeline."""
    evaluation: LatencyEvaluation = rules.evaluation(problem, plan)
    if evaluation.latency is None:
        raise UsageError(evaluation.reason or "The plan has no latency.")
    nodes = order_of(problem, problem.nodes)
    rows = tuple(_piece_rows(problem, plan, evaluation.pieces, nodes))
    pool = [node_id for device in plan.devices if device.type == "cpu" for node_id in device.nodes]
    work = sum(problem.nodes[problem.index[node_id]].cpu_time for node_id in pool)
    names = f": {nodes.fold(pool).text()}" if pool else ""
    return PlanView(
        value=f"{amount(evaluation.latency, problem.time_unit)} for one sample",
        headline=f"latency {amount(evaluation.latency, problem.time_unit, 6)}",
        tables=(Table("device", rows, "node"),),
        full_load=max((row.load for row in rows), default=0.0),
        limits=_limits(rows, _covered(_pool(problem, plan, evaluation)), problem.time_unit),
        sentences=(f"CPU pool: {several(len(pool), 'node')}, work {amount(work, None)}{names}",),
        timelines=(schedule(problem, plan, evaluation),),
        graph=graph_of(problem, plan),
    )


def _limits(rows: Sequence[Row], pool_s: float, unit: str | None) -> str:
    """Words on what works longest: a piece, or the CPUs."""
    longest = max(rows, key=lambda row: row.load, default=None)
    if longest is None or pool_s > longest.load:
        return f"the CPUs work for {amount(pool_s, unit)} of it, longer than any piece on an accelerator"
    nodes = "" if longest.held is None else f" ({longest.held.named('node', MOST_NAMED)})"
    return f"{longest.title}{nodes} takes {amount(longest.load, unit)} of it, the longest piece"


def of_one_sample(problem: PlacementProblem, plan: PlacementPlan) -> LatencyEvaluation:
    """The latency of one sample by a split, even if the split is judged by another objective."""
    try:
        return LatencyRules().evaluation(problem, plan)
    except NotAnAssignmentError as error:
        return LatencyEvaluation(None, {}, (), str(error))


def _piece_rows(
    problem: PlacementProblem, plan: PlacementPlan, pieces: Sequence[Piece], nodes: Order
) -> Iterator[Row]:
    """A row for each piece, with its memory and that of the other pieces on its device, which holds them all."""
    limits = {device.name: limit_of(problem, device) for device in plan.devices}
    sizes = [sum(problem.nodes[problem.index[node_id]].size_bytes for node_id in piece.nodes) for piece in pieces]
    totals: dict[str, float] = defaultdict(float)
    for piece, piece_bytes in zip(pieces, sizes, strict=True):
        totals[piece.device] += piece_bytes
    memory, count = IN_BYTES.like(limits.values()), Counter[str]()
    for piece, piece_bytes in zip(pieces, sizes, strict=True):
        count[piece.device] += 1
        number, time = count[piece.device], piece.finish - piece.start
        yield Row(
            name=piece.device,
            load=time,
            parts={"from start to finish": time},
            cells={"piece": str(number), "size": memory.text(piece_bytes)},
            times={"start": piece.start, "finish": piece.finish},
            label=f"{piece.device}, piece {number}",
            memory={"this piece": piece_bytes, "others on its device": totals[piece.device] - piece_bytes},
            limit=limits[piece.device],
            held=nodes.fold(piece.nodes),
        )


def _covered(bars: Sequence[Bar]) -> float:
    """The time in which at least one of the bars runs."""
    covered, reached = 0.0, 0.0
    for bar in sorted(bars, key=lambda bar: bar.start):
        covered += max(0.0, bar.end - max(bar.start, reached))
        reached = max(reached, bar.end)
    return covered


def schedule(problem: PlacementProblem, plan: PlacementPlan, evaluation: LatencyEvaluation) -> Timeline:
    """A lane for each accelerator that holds something, then the pool; nodes without time are left out.

    The pool has unlimited width: its lanes show how much of it is used at a time, and are no devices.
    """
    devices = list(dict.fromkeys(piece.device for piece in evaluation.pieces))
    count: Counter[str] = Counter()
    bars = []
    for piece in evaluation.pieces:
        mark = PIECE_MARKS[count[piece.device] % len(PIECE_MARKS)]
        count[piece.device] += 1
        label = str(piece.nodes[0]) if len(piece.nodes) == 1 else several(len(piece.nodes), "node")
        title = f"{several(len(piece.nodes), 'node')} from {piece.nodes[0]}"
        back = any(problem.nodes[problem.index[node]].backward for node in piece.nodes)
        bars.append(Bar(piece.device, piece.start, piece.finish, mark, label, title, int(back)))
    bars += _pool(problem, plan, evaluation)
    lanes = tuple(dict.fromkeys([*devices, *(bar.lane for bar in bars)]))
    ordered = tuple(sorted(bars, key=lambda bar: (bar.start, bar.lane)))
    return Timeline("One sample", lanes, ordered, evaluation.latency or 0.0)


def _pool(problem: PlacementProblem, plan: PlacementPlan, evaluation: LatencyEvaluation) -> list[Bar]:
    """Bars of the pool in the fewest lanes: each node takes the lane that became free first, or a new one."""
    held = (i for device in plan.devices if device.type == "cpu" for i in device.nodes)
    nodes = [node for node in (problem.nodes[problem.index[i]] for i in held) if node.cpu_time > 0]
    spans = [(evaluation.finish[node.id] - node.cpu_time, evaluation.finish[node.id], node) for node in nodes]
    bars: list[Bar] = []
    free: list[tuple[float, int]] = []
    lanes = 0
    slack = 1e-9 * (evaluation.latency or 0.0)  # a start is a difference of floats
    for start, finish, node in sorted(spans, key=lambda span: span[:2]):
        if free and free[0][0] <= start + slack:
            _, number = heapq.heappop(free)
        else:
            lanes = number = lanes + 1
        heapq.heappush(free, (finish, number))
        lane = "CPU pool" if number == 1 else f"CPU pool {number}"
        bars.append(Bar(lane, start, finish, "#", str(node.id), str(node.name or node.id), int(node.backward)))
    return sorted(bars, key=lambda bar: (len(bar.lane), bar.lane))


# ---- splits ---------------------------------------------------------------------------------------------------


# The even plans in words.
EVEN = "equally many nodes on each accelerator"


def even_plans(problem: PlacementProblem) -> Iterator[PlacementPlan]:
    """Equally many nodes of the forward pass on each accelerator; for all others, see `_placed`."""
    for types in _orders_of_types(problem):
        yield _placed(problem, shares(_forward(problem), len(types)), types)


def block_plans(problem: PlacementProblem) -> Iterator[PlacementPlan]:
    """The plans with as many blocks of the forward graph on each accelerator."""
    forward = _forward(problem)
    for types in _orders_of_types(problem):
        groups = shares_of_blocks(forward, [node.id for node in forward], len(types))
        if groups is not None:
            yield _placed(problem, groups, types)


def _orders_of_types(problem: PlacementProblem) -> list[list[str | None]]:
    """The type of each accelerator: one type after the other, in the order of the types and in the reverse."""
    others = [other.name for other in problem.other_types for _ in range(other.count)]
    types = [*[None] * problem.accelerators, *others]
    return [types, types[::-1]] if others else [types]


def _forward(problem: PlacementProblem) -> list[Node]:
    """Nodes of the forward pass in their order, or all where none is of the backward pass."""
    order = [problem.nodes[i] for i in problem.topological_order]
    return [node for node in order if not node.backward] or order


def _placed(
    problem: PlacementProblem, groups: Iterable[Iterable[Node]], types: Sequence[str | None]
) -> PlacementPlan:
    """A group on each accelerator; a node of no group goes where its colour is, or to the first accelerator."""
    order = [problem.nodes[i] for i in problem.topological_order]
    place: dict[Any, int] = {}
    by_colour: dict[Any, int] = {}
    for device, share in enumerate(groups):
        for node in share:
            place[node.id] = device if node.color is None else by_colour.setdefault(node.color, device)
    for node in order:
        place.setdefault(node.id, by_colour.get(node.color, 0))
    return PlacementPlan(
        tuple(
            Device(
                f"acc{d}", "accelerator", tuple(n.id for n in order if place[n.id] == d), accelerator_type=types[d]
            )
            for d in range(len(types))
        )
    )


def facts(problem: PlacementProblem) -> dict[str, Any]:
    """What the instance is, in a few words; other types are told where there are any."""
    backward = sum(node.backward for node in problem.nodes)
    kinds = f" ({backward} backward)" if backward else ""
    types = "; ".join(
        f"{other.count} {other.name} {with_memory(other.memory_bytes)}" for other in problem.other_types
    )
    return {
        "graph": f"{several(len(problem.nodes), 'node')}{kinds}, {several(len(problem.edges), 'edge')}",
        "cluster": f"{several(problem.accelerators, 'accelerator')} {with_memory(problem.memory_bytes)}, "
        f"{several(problem.cpus, 'CPU')}",
        **({"other types": types} if types else {}),
    }


def assumptions(problem: PlacementProblem, rules: Rules) -> tuple[str, ...]:
    if rules.objective == LATENCY:
        return OF_ONE_SAMPLE
    passes = ("All forward passes come first, then all backward passes.",) if rules.objective == "gpipe" else ()
    return (
        "Samples follow each other without end, and the slowest device sets the pace.",
        "A device computes and moves data in turn: its load is the sum of both.",
        *passes,
    )


def scope_in_words(problem: PlacementProblem, scope: str) -> str:
    """A scope as a part of a sentence."""
    return scope.replace(": a chain of stages", ", which form a chain of stages")


def value_name(rules: Rules) -> str:
    return rules.objective


def view(problem: PlacementProblem, plan: PlacementPlan, rules: Rules) -> PlanView:
    """Devices that hold something; plans for latency are shown as a schedule."""
    if rules.objective == LATENCY:
        return latency_view(problem, plan, rules)
    evaluation: PlacementEvaluation = rules.evaluation(problem, plan)
    order, unit = stage_order(problem, plan), problem.time_unit
    loads = {load.name: load for load in evaluation.devices}
    devices = {device.name: device for device in plan.devices if device.nodes}
    nodes = order_of(problem, problem.nodes)
    busy = [name for name in order or loads if name in devices]
    if not order:
        busy.sort(key=lambda name: nodes.first(devices[name].nodes))
    rows = tuple(_device_row(problem, devices[name], loads[name], evaluation, nodes) for name in busy)
    value, idle = evaluation.objective(rules.objective), len(plan.devices) - len(busy)
    stages = "none, because the devices depend on each other in a cycle"
    if order is not None:
        stages = " -> ".join([*busy[:MOST_TOLD], *(["..."] if len(busy) > MOST_TOLD else [])])
    legend = []
    if any(device.accelerator_type and device.nodes for device in plan.devices):
        legend.append("type: shown for accelerators of other types than the first")
    if any(_implied(problem, device) for device in plan.devices):
        legend.append("each backward node is on the same device as its forward node")
    return PlanView(
        value=f"{amount(value, unit)} per micro-batch",
        headline=f"{rules.objective} {amount(value, unit, 6)}, bottleneck {evaluation.bottleneck}",
        tables=(Table("device", rows, "node"),),
        full_load=evaluation.max_load,
        sentences=(
            f"bottleneck: {evaluation.bottleneck} with load {amount(evaluation.max_load, unit)}",
            *([f"idle: {idle} of {several(len(plan.devices), 'device')}"] if idle else []),
            f"stages: {stages}",
        ),
        legend="; ".join(legend),
        graph=graph_of(problem, plan),
    )


def graph_of(problem: PlacementProblem, plan: PlacementPlan) -> Graph:
    labels = {node.id: str(node.name or node.id) for node in problem.nodes}
    return Graph.of(
        "Nodes by device", labels, problem.edges, {device.name: device.nodes for device in plan.devices}
    )


def _device_row(
    problem: PlacementProblem, device: Device, load: DeviceLoad, evaluation: PlacementEvaluation, nodes: Order
) -> Row:
    return Row(
        name=device.name,
        load=load.load,
        parts={"computation": load.compute, "transfers in": load.transfer_in, "transfers out": load.transfer_out},
        cells={"type": device.accelerator_type or ""},
        memory={"held": load.size_bytes},
        limit=limit_of(problem, device),
        slowest=load.name == evaluation.bottleneck,
        held=nodes.fold(device.nodes, _implied(problem, device)),
    )


def _implied(problem: PlacementProblem, device: Device) -> set[NodeId]:
    """Backward nodes that need no mention, because a forward node of their colour is on the same device."""
    nodes = [problem.nodes[problem.index[name]] for name in device.nodes]
    colours = {node.color for node in nodes if not node.backward and node.color is not None}
    return {node.id for node in nodes if node.backward and node.color in colours}
