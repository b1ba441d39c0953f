"""What is known of the least memory with which a problem has a plan."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from .amounts import as_written
from .kinds import Plan
from .result import Stop

BYTES = "bytes"
SEARCHED = "a search with proofs"
"""A reason: no single part of the problem needs so much, yet all together do."""


@dataclass(frozen=True, slots=True)
class SmallestMemory:
    """With `memory_bytes` a plan exists (`plan` is one), with less than `lower_bytes` none does.

    On each device alike, whatever its type.
    """

    memory_bytes: float | None
    """None: no amount is known to be enough."""
    lower_bytes: float
    proven: bool
    """Do the two meet? Without `memory_bytes`: is it known that no amount is enough?"""
    plan: Plan | None
    stop: Stop
    """Why the search ended."""
    reason: str
    """Who says that no plan needs less than `lower_bytes`."""
    counted: str = field(default=BYTES, kw_only=True)
    """In what: a schedule problem may count otherwise, activations say."""

    def to_json(self) -> dict[str, Any]:
        return {
            "memory_bytes": self.memory_bytes,
            "lower_bytes": self.lower_bytes,
            "proven": self.proven,
            "stop": str(self.stop),
            "reason": self.reason,
            **({} if self.counted == BYTES else {"counted": self.counted}),
        }


def enough(amount: Fraction) -> float:
    """The least number that can be given as a memory and is not below the amount."""
    if amount.denominator == 1:
        return amount.numerator
    value = float(amount)
    while as_written(value) < amount:
        value = math.nextafter(value, math.inf)
    return value


def at_most(amount: Fraction) -> float:
    """The largest number that is not above the amount."""
    if amount.denominator == 1:
        return amount.numerator
    value = float(amount)
    while as_written(value) > amount:
        value = math.nextafter(value, 0.0)
    return value
