"""Rows of pipelines that are flushed: (N + S - 1) / N times the largest load of S stages, in either form of the model.

y[n]: the plan has n stages; P[n]: the largest load where it has, else 0. Their sum is T, so the objective, a product of
two decisions, is linear in P. Its blocks are numbered from 10 on.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple


class Count(NamedTuple):
    """A number of stages that a plan may have."""

    stages: int
    factor: float
    """The time of a micro-batch, with its share of the flush, over the largest load: (N + stages - 1) / N."""
    most: float
    """The largest load that a plan of so many stages may have, in the model's unit."""


Counts = tuple[Count, ...]


def counts_of(
    most_stages: int, batches: int, floor: float, cutoff: float | None, unit: float, step: float
) -> Counts:
    """Numbers of stages with which a plan may be as good as the cut-off; no load is below `floor`."""
    found = []
    for stages in range(1, most_stages + 1):
        factor = (batches + stages - 1) / batches
        if cutoff is None:
            found.append(Count(stages, factor, math.inf))
        elif factor * floor <= cutoff:
            # Rounded up, or a plan as good as the cut-off would be lost on the grid.
            found.append(Count(stages, factor, math.ceil(cutoff / factor / unit / step) * step))
    return tuple(found)


def add_flush(model: Any, stages: Any, counts: Counts, unit: float) -> None:
    """`stages`: how many there are, as an expression. The objective is made anew."""
    import pyomo.environ as pyo

    numbers, highest = range(len(counts)), model.T.ub
    model.y = pyo.Var(numbers, domain=pyo.Binary)
    model.P = pyo.Var(numbers, bounds=lambda m, i: (0, min(counts[i].most, highest)))
    model.eq_10_one_number = pyo.Constraint(expr=sum(model.y[i] for i in numbers) == 1)
    model.eq_10_stages = pyo.Constraint(
        expr=sum(count.stages * model.y[i] for i, count in enumerate(counts)) == stages
    )
    model.eq_11 = pyo.Constraint(numbers, rule=lambda m, i: m.P[i] <= m.P[i].ub * m.y[i])
    model.eq_12 = pyo.Constraint(expr=sum(model.P[i] for i in numbers) == model.T)
    model.cut_least = pyo.Constraint(numbers, rule=lambda m, i: m.P[i] >= m.T.lb * m.y[i])
    model.del_component(model.objective)
    model.objective = pyo.Objective(expr=unit * sum(count.factor * model.P[i] for i, count in enumerate(counts)))


def flush_values(counts: Counts, stages: int, load: float) -> dict[str, float]:
    """What a plan makes of the variables; nothing where nothing is flushed."""
    values: dict[str, float] = {}
    for i, count in enumerate(counts):
        here = count.stages == stages
        values |= {f"y[{i}]": float(here), f"P[{i}]": load if here else 0.0}
    return values
