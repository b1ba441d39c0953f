"""Rows of pipelines that are flushed: (N + X - m) / N times the largest load, where stages have X copies in all and
none fewer than m; on levels as well.

y[n]: the plan takes n slots more than micro-batches; P[n]: the largest load where it does, else 0. Their sum is T, so
the time Z of a batch, a product of two decisions, is linear in P. m: no stage has fewer copies. The blocks of rows are
numbered from 10 on.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple


class Count(NamedTuple):
    """A number of slots that a plan may take."""

    more: int
    """Number of slots beyond the N micro-batches."""
    slots: int
    """Number of slots together with the micro-batches."""
    most: float
    """The largest load that a plan of so many slots may have, in the model's unit."""


Counts = tuple[Count, ...]


def counts_of(most: int, batches: int, floor: float, cutoff: float | None, unit: float, step: float) -> Counts:
    """Numbers of slots, for at most so many copies in all, with which a plan may be as good as the cut-off; no load is
    below `floor`."""
    counts = []
    for more in range(most):
        slots = batches + more
        if cutoff is None:
            counts.append(Count(more, slots, math.inf))
        elif slots / batches * floor <= cutoff:
            # Rounded up, or a plan as good as the cut-off would be lost on the grid.
            counts.append(Count(more, slots, math.ceil(cutoff * batches / slots / unit / step) * step))
    return tuple(counts)


def add_flush(
    model: Any, copies: Any, each: Sequence[Any], counts: Counts, unit: float, batches: int, most: int
) -> None:
    """Add these rows to a model. `copies`: number of copies of all stages, as an expression; `each`: that of single
    stages; `most`: the largest number that a stage may have.

    The objective is made anew: one number times Z, which solvers of whole numbers take as it is.
    """
    from ..quick_pyomo import pyo

    numbers, highest = range(len(counts)), model.T.ub
    model.m = pyo.Var(bounds=(1, most), doc="the fewest copies of a stage, or fewer")
    model.y = pyo.Var(numbers, domain=pyo.Binary, doc="[n] does a batch take the n-th number of slots?")
    model.P = pyo.Var(numbers, bounds=lambda m, i: (0, min(counts[i].most, highest)))
    model.P.doc = "[n] the largest load if it does, else 0"
    model.eq_10_one_number = pyo.Constraint(expr=sum(model.y[i] for i in numbers) == 1)
    model.eq_10_one_number.doc = "a batch takes one number of slots"
    model.eq_10_fewest = pyo.Constraint(range(len(each)), rule=lambda m, i: m.m <= each[i])
    model.eq_10_fewest.doc = "[s] no stage has fewer copies than m"
    model.eq_10_slots = pyo.Constraint(
        expr=sum(count.more * model.y[i] for i, count in enumerate(counts)) == copies - model.m
    )
    model.eq_10_slots.doc = "the slots beyond the micro-batches are the copies of all stages, less m"
    model.eq_11 = pyo.Constraint(numbers, rule=lambda m, i: m.P[i] <= m.P[i].ub * m.y[i])
    model.eq_11.doc = "[n] P is 0 for other numbers of slots"
    model.eq_12_largest = pyo.Constraint(expr=sum(model.P[i] for i in numbers) == model.T, doc="the sum of P is T")
    model.cut_least = pyo.Constraint(numbers, rule=lambda m, i: m.P[i] >= m.T.lb * m.y[i])
    model.cut_least.doc = "(12c) [n] P is at least the bound that is known for T"
    model.Z = pyo.Var(bounds=(0, max((count.slots * min(count.most, highest) for count in counts), default=0)))
    model.Z.doc = "the time of a batch, in units"
    model.eq_12_batch = pyo.Constraint(
        expr=sum(count.slots * model.P[i] for i, count in enumerate(counts)) == model.Z
    )
    model.eq_12_batch.doc = "Z is the sum of the P, each times its number of slots"
    model.del_component(model.objective)
    model.objective = pyo.Objective(expr=unit / batches * model.Z)


def flush_values(counts: Counts, copies: Sequence[int], load: float) -> dict[str, float] | None:
    """Values of these variables where the stages have these copies; {} where nothing is flushed, and None where the
    model knows no plan of so many slots."""
    if not counts:
        return {}
    more = sum(copies) - min(copies)
    if more not in {count.more for count in counts}:
        return None
    values = {"m": float(min(copies))}
    for i, count in enumerate(counts):
        here = count.more == more
        values |= {f"y[{i}]": float(here), f"P[{i}]": load if here else 0.0}
        values |= {"Z": count.slots * load} if here else {}
    return values
