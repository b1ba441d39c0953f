"""Columns of the exact model: a set of operators on so many devices with a schedule, and its price.

Written from the definition of the problem; shares no code with the planner that it checks.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ...instances.errors import InputError
from ...instances.graph_pipeline import GraphPipelineProblem
from .schedules import degrees

FULL = 1e-12
"""Relative: a stage that fills the memory to the last bit fits."""

MOST_COLUMNS = 400_000
"""Each is a literal of the model."""


@dataclass(frozen=True, slots=True)
class Column:
    members: int
    """Bit set of operators."""
    devices: int
    micro_batch: int
    time: float
    """Per sample."""
    most: int
    """Samples in flight, in whole micro-batches, for which the memory suffices; the mini-batch at most."""
    k: int = 1

    def highest(self, problem: GraphPipelineProblem) -> int:
        """Where all stages run micro-batches of this size in turn: the most stages on a way to the end of the pipeline.

        Height h holds h micro-batches in flight, the mini-batch at most.
        """
        return (
            problem.devices if self.most >= problem.mini_batch else min(problem.devices, self.most // self.micro_batch)
        )


def find_columns(
    problem: GraphPipelineProblem,
    sets: Iterable[int],
    sizes: Iterable[int],
    cutoff: float | None,
    which_degrees: str = "divisors",
    groups: Mapping[int, tuple[int, ...]] | None = None,
) -> list[Column]:
    """All that fit the memory and are no slower than the cut-off; `groups`: the k of each size, if not only 1."""
    facts = [(members, *_facts(problem, members)) for members in sets]
    columns, batch = list[Column](), problem.mini_batch
    for b in sizes:
        ks = (1,) if groups is None else groups[b]
        for d in degrees(problem, b, which_degrees):
            times = [x.forward(b / d) + x.backward(b / d) for x in problem.operators]
            for members, inside, weight, stash, crossing in facts:
                most = _most(problem, weight, stash, b, d)
                time = _time(problem, math.fsum(times[v] for v in inside), weight, crossing, b, d)
                if cutoff is None or time <= cutoff:
                    columns += [Column(members, d, b, time, most, k) for k in ks if min(b * k, batch) <= most]
            _check_number(columns)
    return columns


def _check_number(columns: list[Column]) -> None:
    if len(columns) > MOST_COLUMNS:
        raise InputError(
            "operators",
            f"form more than {MOST_COLUMNS} stages with devices and schedules",
            "give --micro-batch, --degrees none or a smaller --k, or choose --planner graphpipe",
        )


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


def _most(problem: GraphPipelineProblem, weight: float, stash: float, b: int, d: int) -> int:
    batch = problem.mini_batch
    if problem.memory_bytes is None:
        return batch
    room = problem.memory_bytes * (1 + FULL) - problem.workspace_bytes - problem.weight_copies * weight
    if room < 0:
        return 0
    if stash <= 0 or batch * stash / d <= room:
        return batch
    return b * math.floor(room * d / (stash * b))
