"""A latency plan as spans of time: pieces of accelerators, and nodes of the CPU pool packed into few lanes."""

from __future__ import annotations

import heapq
from dataclasses import dataclass

from ...instances.placement.plan import PlacementPlan
from ...instances.placement.problem import NodeId, PlacementProblem
from ...instances.placement.referee.latency import LatencyEvaluation


@dataclass(frozen=True, slots=True)
class Span:
    """What one lane does without interruption."""

    start: float
    finish: float
    nodes: tuple[NodeId, ...]


def lanes_of(
    problem: PlacementProblem, plan: PlacementPlan, evaluation: LatencyEvaluation
) -> dict[str, tuple[Span, ...]]:
    """Accelerators that hold something by name, then the pool as `cpu`, `cpu 2`, ...; nodes without time are left out.

    The pool has unlimited width: its lanes show how much of it is used at a time, and are no devices.
    """
    lanes: dict[str, list[Span]] = {}
    for piece in evaluation.pieces:
        lanes.setdefault(piece.device, []).append(Span(piece.start, piece.finish, piece.nodes))
    rows = _pool(problem, plan, evaluation)
    for number, row in enumerate(rows, start=1):
        lanes["CPU pool" if number == 1 else f"CPU pool {number}"] = row
    return {name: tuple(spans) for name, spans in lanes.items()}


def _pool(problem: PlacementProblem, plan: PlacementPlan, evaluation: LatencyEvaluation) -> list[list[Span]]:
    """The fewest lanes: each span goes where a lane has become free first."""
    spans = [
        Span(evaluation.finish[node_id] - time, evaluation.finish[node_id], (node_id,))
        for device in plan.devices
        if device.type == "cpu"
        for node_id in device.nodes
        if (time := problem.nodes[problem.index[node_id]].cpu_time) > 0
    ]
    rows: list[list[Span]] = []
    free: list[tuple[float, int]] = []
    slack = 1e-9 * (evaluation.latency or 0.0)  # a start is a difference of floats
    for span in sorted(spans, key=lambda span: (span.start, span.finish)):
        if free and free[0][0] <= span.start + slack:
            _, number = heapq.heappop(free)
        else:
            number = len(rows)
            rows.append([])
        rows[number].append(span)
        heapq.heappush(free, (span.finish, number))
    return rows
