"""What a stage does in an iteration: its passes, its synchronisation, and the transfers to and from it.

Written from the definition of the problem; shares no arithmetic with the planner that it checks.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from ...instances.graph_pipeline.plan import StageGraphPlan
from ...instances.graph_pipeline.problem import GraphPipelineProblem
from ...instances.physics.tolerances import SUM_ROUNDING
from ...instances.registry import evaluation_of
from .columns import Column
from .more_in_flight import with_more_in_flight
from .schedules import Schedule


@dataclass(frozen=True, slots=True)
class Passes:
    """Times of a column: the two passes of one micro-batch, and all passes of an iteration."""

    forward: float
    backward: float
    synchronised: float
    busy: float

    @classmethod
    def of(cls, problem: GraphPipelineProblem, column: Column) -> Passes:
        inside = [x for v, x in enumerate(problem.operators) if column.members >> v & 1]
        share, d = column.micro_batch / column.devices, column.devices
        forward, backward = (
            math.fsum(x.forward(share) for x in inside),
            math.fsum(x.backward(share) for x in inside),
        )
        weights = math.fsum(x.weight_bytes for x in inside)
        synchronised = 0.0 if d == 1 else problem.inner_link(d).seconds(2 * (d - 1) / d * weights)
        busy = problem.mini_batch / column.micro_batch * (forward + backward)
        return cls(forward, backward, synchronised, busy)


def within(problem: GraphPipelineProblem, columns: Iterable[Column], cutoff: float | None) -> dict[Column, Passes]:
    """The columns that alone take no longer than the cut-off, with the times of their passes."""
    passes_of = {column: Passes.of(problem, column) for column in columns}
    if cutoff is None:
        return passes_of
    limit = cutoff * (1 + SUM_ROUNDING)
    return {column: passes for column, passes in passes_of.items() if passes.busy + passes.synchronised <= limit}


def delays(problem: GraphPipelineProblem, shares: Iterable[Schedule]) -> list[list[tuple[int, int, float]]]:
    """Times of sending each operator's output: (micro-batch, devices, time) for each of these shares."""
    link, chosen = problem.boundary_link, sorted(set(shares))
    return [[(b, d, link.seconds(x.output_bytes * b / d)) for b, d in chosen] for x in problem.operators]


def held_longer(problem: GraphPipelineProblem, plan: StageGraphPlan) -> StageGraphPlan:
    """The plan with more samples in flight where that shortens the iteration; the model has only what the rule asks."""
    iteration = evaluation_of(problem, plan).iteration
    return plan if iteration is None else with_more_in_flight(problem, plan, iteration)[0]
