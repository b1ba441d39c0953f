"""From what a decision leaves behind to the stages of a plan: their loads, and the options behind these."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from ...instances.staging.plan import PlannedStage, StagedPlan
from .model import ROUNDING
from .tables import Tables, loop


@dataclass(frozen=True)
class Step:
    """A stage between two downsets, with its degrees and the sum of degrees of it and all later ones."""

    smaller: int
    larger: int
    pair: int
    tau: int
    replicas: int
    suffix: int

    @property
    def in_flight(self) -> int:
        """Micro-batches that a replica holds at once."""
        return -(-self.suffix // self.replicas)


def steps_of_fronts(tables: Tables, front: Any) -> list[Step]:
    """The stages of the plan with the fewest devices, in execution order; `front` is from `decide`."""
    j, x, steps = tables.model.downsets - 1, 0, []
    while j > 0:
        _, s, p, tau, d, left = (int(value) for value in front[j, x])
        steps.append(Step(int(tables.table.pair_source[p]), j, p, tau, d, s))
        j, x = steps[-1].smaller, left
    return steps


def steps_of_sums(tables: Tables, came: Any, devices: int) -> list[Step]:
    """The same on so many devices where degrees sum to a number exactly; `came` is from `decide_sums`."""
    model = tables.model
    j, k, s, steps = model.downsets - 1, devices, model.problem.micro_batches, []
    while j > 0:
        p, tau, n = (int(value) for value in came[j, k, s])
        d = int(model.replicas[n])
        steps.append(Step(int(tables.table.pair_source[p]), j, p, tau, d, s))
        j, k, s = steps[-1].smaller, k - d * int(tables.cluster.degree[tau]), s - d
    return steps


def load(tables: Tables, step: Step) -> float:
    """Time per micro-batch of a stage."""
    n = int((tables.model.replicas == step.replicas).argmax())
    base, weight, fastest, _, start = _stage(tables, step)
    total = base + tables.cluster.sync[n] * weight
    if step.in_flight > fastest:
        total += tables.table.upper[start + step.in_flight - fastest - 1]
    return float(total) / step.replicas


def plan_of(tables: Tables, steps: list[Step], exact: bool) -> StagedPlan:
    """Stages in execution order, with the options behind their times."""
    return StagedPlan(tuple(_planned(tables, step, exact) for step in steps))


def _planned(tables: Tables, step: Step, exact: bool) -> PlannedStage:
    import numpy as np

    model, y = tables.model, step.in_flight
    tau = tables.rows[step.tau][0]
    choice = np.full(model.layers, -1, dtype=np.int64)
    base, _, fastest, _, start = _stage(tables, step)
    budget = math.inf
    if exact and y > fastest:
        budget = float(tables.table.upper[start + y - fastest - 1])
        # Sums in another order round differently: a hair more, or the choice would not be found again.
        budget += ROUNDING * (base + budget)
    given = (tables.layers, step.smaller, step.larger, step.tau, y, budget, choice)
    answer, _ = loop(model, "exact_knapsack")(*given)
    assert answer == 1, "a choice within this budget was found before"
    ids = {}
    for v in np.flatnonzero(choice >= 0):
        way = model.ways[tau][v][int(choice[v] - tables.layers.option_start[step.tau, v])]
        ids[model.problem.layers[model.order[v]].id] = way.id
    return PlannedStage(tuple(ids), step.replicas, model.degrees[tau], ids)


def _stage(tables: Tables, step: Step) -> tuple[float, float, int, int, int]:
    from . import kernel

    return kernel.stage_at(tables.layers, tables.table, step.pair, step.smaller, step.larger, step.tau)
