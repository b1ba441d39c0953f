"""The view of the schedule of one sample: pieces of accelerators, and the CPU pool in few lanes."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterator, Sequence

from ...instances.base.checks import NodeId
from ...instances.base.errors import UsageError
from ...instances.base.kind import Rules
from ...instances.placement.plan import PlacementPlan, limit_of
from ...instances.placement.problem import PlacementProblem
from ...instances.placement.referee.evaluate import NotAnAssignmentError
from ...instances.placement.referee.latency import LatencyEvaluation, Piece
from ...instances.placement.rules import LatencyRules
from ..names import Order, order_of
from ..view import Bar, PlanView, Row, Table, Timeline
from ..words import IN_BYTES, amount, several
from .placement import graph_of

# Marks of the pieces of an accelerator, in their order.
MARKS = "123456789abcdefghijklmnopqrstuvwxyz"
# The most characters for the nodes of a piece in a sentence.
MOST_NAMED = 40
ASSUMPTIONS = (
    "One sample is run at a time.",
    "A piece of an accelerator begins when all that it reads is there, and delivers everything at its end.",
    "The CPUs are one pool that is never full: a node runs there as soon as its inputs are there.",
)


def view(problem: PlacementProblem, plan: PlacementPlan, rules: Rules) -> PlanView:
    """Every piece with its time and size, the work of the CPUs, and the timeline."""
    evaluation: LatencyEvaluation = rules.evaluation(problem, plan)
    if evaluation.latency is None:
        raise UsageError(evaluation.reason or "The plan has no latency.")
    nodes = order_of(problem, problem.nodes)
    rows = tuple(_rows(problem, plan, evaluation.pieces, nodes))
    pool = [node_id for device in plan.devices if device.type == "cpu" for node_id in device.nodes]
    work = sum(problem.nodes[problem.index[node_id]].cpu_time for node_id in pool)
    return PlanView(
        name=problem.name,
        value=f"{amount(evaluation.latency, problem.time_unit)} for one sample",
        headline=f"latency {amount(evaluation.latency, problem.time_unit, 6)}",
        tables=(Table("device", rows, "node"),),
        unit=problem.time_unit,
        full_load=max((row.load for row in rows), default=0.0),
        limits=_limits(rows, _covered(_pool(problem, plan, evaluation)), problem.time_unit),
        sentences=(f"CPU pool: {several(len(pool), 'node')}, work {amount(work, None)}{_named(pool, nodes)}",),
        time_unit=problem.time_unit,
        timelines=(schedule(problem, plan, evaluation),),
        graph=graph_of(problem, plan),
    )


def _named(pool: Sequence[NodeId], nodes: Order) -> str:
    return f": {nodes.fold(pool).text()}" if pool else ""


def _limits(rows: Sequence[Row], pool_s: float, unit: str | None) -> str:
    """Words on what works longest: a piece, or the CPUs."""
    longest = max(rows, key=lambda row: row.load, default=None)
    if longest is None or pool_s > longest.load:
        return f"the CPUs work for {amount(pool_s, unit)} of it, longer than any piece of an accelerator"
    nodes = "" if longest.held is None else f" ({longest.held.named('node', MOST_NAMED)})"
    return f"{longest.title}{nodes} takes {amount(longest.load, unit)} of it, the longest part"


def of_one_sample(problem: PlacementProblem, plan: PlacementPlan) -> LatencyEvaluation:
    """The latency of one sample by a split, even if the split is judged by another objective."""
    try:
        return LatencyRules().evaluation(problem, plan)
    except NotAnAssignmentError as error:
        return LatencyEvaluation(None, {}, (), str(error))


def _rows(problem: PlacementProblem, plan: PlacementPlan, pieces: Sequence[Piece], nodes: Order) -> Iterator[Row]:
    """A row for each piece, with its memory and that of the other pieces on its device, which holds them all."""
    limits = {device.name: limit_of(problem, device) for device in plan.devices}
    sizes = [sum(problem.nodes[problem.index[node_id]].size_bytes for node_id in piece.nodes) for piece in pieces]
    totals: dict[str, float] = {}
    memory = IN_BYTES.like(limits.values())
    for piece, piece_bytes in zip(pieces, sizes, strict=True):
        totals[piece.device] = totals.get(piece.device, 0.0) + piece_bytes
    count: Counter[str] = Counter()
    for piece, piece_bytes in zip(pieces, sizes, strict=True):
        count[piece.device] += 1
        number, time = count[piece.device], piece.finish - piece.start
        yield Row(
            name=piece.device,
            load=time,
            parts={"from start to finish": time},
            cells={
                "piece": str(number),
                "size": memory.text(piece_bytes),
            },
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
        mark = MARKS[count[piece.device] % len(MARKS)]
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
    nodes = [
        problem.nodes[problem.index[i]] for device in plan.devices if device.type == "cpu" for i in device.nodes
    ]
    spans = [(evaluation.finish[node.id] - node.cpu_time, evaluation.finish[node.id], node) for node in nodes]
    bars: list[Bar] = []
    free: list[tuple[float, int]] = []
    lanes = 0
    slack = 1e-9 * (evaluation.latency or 0.0)  # a start is a difference of floats
    for start, finish, node in sorted(spans, key=lambda span: span[:2]):
        if node.cpu_time <= 0:
            continue
        if free and free[0][0] <= start + slack:
            _, number = heapq.heappop(free)
        else:
            lanes = number = lanes + 1
        heapq.heappush(free, (finish, number))
        lane = "CPU pool" if number == 1 else f"CPU pool {number}"
        bars.append(Bar(lane, start, finish, "#", str(node.id), str(node.name or node.id), int(node.backward)))
    return sorted(bars, key=lambda bar: (len(bar.lane), bar.lane))
