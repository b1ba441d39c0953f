"""The plans among which a method proves its answer: every bound holds for a family, and says for which.

The registry's entry of a method that proves bounds names the function that describes its family (`Describe`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Outside:
    """Why a plan is none of a family."""

    why: str
    """What the plan has and the family has not, in words that follow "it has"."""
    asks: str | None = None
    """Options of a command whose family has such plans; None: no method's family has."""


def _covers_all(plan: Any) -> Outside | None:
    return None


@dataclass(frozen=True, slots=True)
class Family:
    """The plans for which a method's bound holds."""

    scope: str
    """The plans in a short phrase; none of them is better than the bound."""
    wider: str | None = None
    """Options of a command that asks for more plans than these; None: no method does."""
    outside: Callable[[Any], Outside | None] = _covers_all
    """Why a plan that the referee accepts by the method's rules is none of the family; None where it is one."""


# Function from a problem and the method's options to the family of plans that its bound speaks of.
Describe = Callable[[Any, Mapping[str, Any]], Family]

# Placements in words, by the referee's notion of contiguity, which is all that tells these families apart.
PLACEMENTS: Mapping[str, str] = {
    "none": "all placements",
    "device": "plans whose devices are each contiguous",
    "chain": "contiguous plans: a chain of stages",
}
