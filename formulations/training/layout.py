"""Where to cut a row of units into stages under 1F1B, as a mixed-integer program through Pyomo.

It states the bound of the search for configurations, whose own is no higher, and shares no code with it. Stage k has
units i to j - 1 where x_kij is one; only intervals that fit are choices. With m micro-batches, and c_k the time of
messages from stage 0 to stage k:

    (1)  sum of x_00j = 1                              the first stage begins with the first unit
    (2)  sum over i of x_kij = sum over l of x_(k+1)jl  each stage begins where the one before ends
    (3)  tau_k = sum of (F_ij + B_kij) x_kij            one micro-batch on stage k
    (4)  T >= (m - 1) tau_k + tau_0 + ... + tau_k + 2 c_k

and the bound is the least T.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Choice:
    """One interval of units on one stage, with the best word that fits."""

    first: int
    behind: int
    """The unit behind its last one."""
    seconds: float
    """Forward and backward pass of one micro-batch."""


@dataclass(frozen=True)
class Row:
    """A row of units and all choices that fit."""

    units: int
    micro_batches: int
    stages: tuple[tuple[Choice, ...], ...]
    """The choices of each stage."""
    delays: tuple[float, ...] = ()
    """Seconds of a message between each two stages that follow each other."""

    @property
    def sent(self) -> tuple[float, ...]:
        """c: seconds of messages alone from stage 0 to each stage."""
        seconds = [0.0]
        for delay in self.delays:
            seconds.append(seconds[-1] + delay)
        return tuple(seconds) if self.delays else (0.0,) * len(self.stages)


def layout_model(row: Row) -> Any:
    """The program for the bound; infeasible where no layout fits."""
    from ..quick_pyomo import pyo

    model = pyo.ConcreteModel("layout")
    model.K = pyo.RangeSet(0, len(row.stages) - 1)
    model.choices = pyo.Set(
        dimen=3, initialize=[(k, own.first, own.behind) for k, stage in enumerate(row.stages) for own in stage]
    )
    model.x = pyo.Var(model.choices, domain=pyo.Binary)
    model.tau = pyo.Var(model.K, domain=pyo.NonNegativeReals)
    model.rows = pyo.ConstraintList()
    _path(model, row)
    for k, stage in enumerate(row.stages):  # (3)
        own = sum(choice.seconds * model.x[k, choice.first, choice.behind] for choice in stage)
        model.rows.add(model.tau[k] - own == 0)
    _bound(model, row)
    return model


def _path(model: Any, row: Row) -> None:
    """Equations (1) and (2): a path through borders between units."""
    last = len(row.stages) - 1
    for k, stage in enumerate(row.stages):
        for border in range(row.units + 1):
            begins = [model.x[k, own.first, own.behind] for own in stage if own.first == border]
            if k == 0:
                if border == 0:
                    model.rows.add(_total(begins) == 1)
                elif begins:
                    model.rows.add(_total(begins) == 0)
                continue
            ends = [model.x[k - 1, own.first, own.behind] for own in row.stages[k - 1] if own.behind == border]
            if begins or ends:
                model.rows.add(_total(ends) - _total(begins) == 0)
    ends = [model.x[last, own.first, own.behind] for own in row.stages[last] if own.behind == row.units]
    model.rows.add(_total(ends) == 1)


def _total(terms: Sequence[Any]) -> Any:
    """A sum that stays an expression where there is nothing to add up."""
    from pyomo.core.expr.numeric_expr import LinearExpression

    return sum(terms) if terms else LinearExpression(constant=0, linear_coefs=[], linear_vars=[])


def _bound(model: Any, row: Row) -> None:
    from ..quick_pyomo import pyo

    model.T = pyo.Var(domain=pyo.NonNegativeReals)
    for k in range(len(row.stages)):  # (4)
        before = sum(model.tau[j] for j in range(k + 1))
        model.rows.add(model.T - (row.micro_batches - 1) * model.tau[k] - before >= 2 * row.sent[k])
    model.objective = pyo.Objective(expr=model.T)


def layout_of(row: Row, values: Mapping[str, float]) -> tuple[int, ...]:
    """Units of each stage, from the values of the columns."""
    counts = []
    for k, stage in enumerate(row.stages):
        chosen = [own for own in stage if values.get(f"x[{k},{own.first},{own.behind}]", 0) > 0.5]
        counts.append(chosen[0].behind - chosen[0].first)
    return tuple(counts)
