"""Rows that cut off patterns whose memory the referee refused: what decides the memory must differ.

Allocation, orders and shifts decide the memory of a pattern (Lemma 10), and a larger shift never takes less. So no
valid pattern has the same allocation and the same orders with shifts that are all at least as large.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from ...instances.chain.problem import ChainProblem
from ..contract import ExtraRow, Values

# Variables of the models for allocation and orders: any change counts.
DECIDING = ("Z", "on", "w", "ended", "far")
# Variables of the models for shifts: only a smaller shift counts.
SHIFTS = ("v", "v2", "u", "u2")


class NoGoods:
    """Remembers which values of the model each decoded plan came from: the plan itself has other forms as well.

    What one model remembers, the next one of the same form and problem knows: a refused plan is cut off there.
    """

    def __init__(
        self,
        form: str,
        problem: ChainProblem,
        decode: Callable[[Values], Any],
        encode: Callable[[Any], Values | None],
    ) -> None:
        self._decode, self._encode = decode, encode
        self._decoded = _remembered(form, problem.hash)

    def decode(self, values: Values) -> Any:
        plan = self._decode(values)
        self._decoded.setdefault(_key(plan), []).append(values)
        return plan

    def exclude(self, plan: Any) -> Sequence[ExtraRow]:
        forms = [*self._decoded.get(_key(plan), ()), self._encode(plan)]
        return [no_good(values) for values in forms if values is not None]


@lru_cache(maxsize=4)
def _remembered(form: str, digest: str) -> dict[Any, list[Values]]:
    return {}


def no_good(values: Values) -> ExtraRow:
    """A row by which at least one variable differs from these values."""
    coefficients: dict[str, float] = {}
    for name, value in values.items():
        family = name.partition("[")[0]
        if family in DECIDING:
            coefficients[name] = -1.0 if value > 0.5 else 1.0
        elif family in SHIFTS and value > 0.5:
            coefficients[name] = -1.0
    return ExtraRow(coefficients, 1.0 - sum(sign < 0 for sign in coefficients.values()), math.inf)


def _key(plan: Any) -> Any:
    return plan.period, plan.allocation, plan.starts
