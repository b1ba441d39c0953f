"""Columns of the exact model: a set of operators on so many devices with one micro-batch size, and its price.

Written from the definition of the problem; shares no code with the planner that it checks.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from ...instances.graph_pipeline import GraphPipelineProblem

FULL = 1e-12
"""Relative: a stage that fills the memory to the last bit fits."""


@dataclass(frozen=True, slots=True)
class Column:
    members: int
    """Bit set of operators."""
    devices: int
    micro_batch: int
    time: float
    """Per sample."""
    highest: int
    """The most stages on a way to the end of the pipeline, this one included, for which the memory suffices."""


def find_columns(
    problem: GraphPipelineProblem, sets: Iterable[int], sizes: Iterable[int], cutoff: float | None
) -> list[Column]:
    """All that fit the memory and are no slower than the cut-off."""
    facts = [(members, *_facts(problem, members)) for members in sets]
    columns = []
    for b in sizes:
        for d in (d for d in range(1, min(b, problem.devices) + 1) if b % d == 0):
            times = [x.forward(b / d) + x.backward(b / d) for x in problem.operators]
            for members, inside, weight, stash, crossing in facts:
                highest = _highest(problem, weight, stash, b, d)
                time = _time(problem, math.fsum(times[v] for v in inside), weight, crossing, b, d)
                if highest > 0 and (cutoff is None or time <= cutoff):
                    columns.append(Column(members, d, b, time, highest))
    return columns


def _facts(problem: GraphPipelineProblem, members: int) -> tuple[list[int], float, float, list[float]]:
    inside = [v for v in range(len(problem.operators)) if members >> v & 1]
    crossing = {u for u, v in problem.arcs if (members >> u & 1) != (members >> v & 1)}
    weight = math.fsum(problem.operators[v].weight_bytes for v in inside)
    stash = math.fsum(problem.operators[v].stash_bytes for v in inside)
    return inside, weight, stash, [problem.operators[u].output_bytes for u in sorted(crossing)]


def _time(problem: GraphPipelineProblem, work: float, weight: float, crossing: list[float], b: int, d: int) -> float:
    link = problem.boundary_link
    transfers = 2 * math.fsum(link.seconds(amount * b / d) for amount in crossing)
    synchronised = 0.0 if d == 1 else problem.inner_link(d).seconds(2 * (d - 1) / d * weight)
    return (work + transfers) / b + synchronised / problem.mini_batch


def _highest(problem: GraphPipelineProblem, weight: float, stash: float, b: int, d: int) -> int:
    """Height h holds h micro-batches in flight, the mini-batch at most."""
    tall = problem.devices
    if problem.memory_bytes is None:
        return tall
    room = problem.memory_bytes * (1 + FULL) - problem.workspace_bytes - problem.weight_copies * weight
    if room < 0:
        return 0
    if stash <= 0 or problem.mini_batch * stash / d <= room:
        return tall
    return min(tall, math.floor(room * d / (stash * b)))
