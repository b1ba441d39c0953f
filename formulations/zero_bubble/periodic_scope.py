"""For which plans the proofs about periods hold."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...instances.schedule.problem import ScheduleProblem
from ..family import Family
from .periodic_facts import facts_of, most_heights

SCOPE = "schedules with one micro-batch per period"


def family(problem: ScheduleProblem, options: Mapping[str, Any]) -> Family:
    """Several micro-batches per period may be faster still; no method here plans that.

    How many periods one micro-batch may take is no matter, but where it may give memory back before it has taken it.
    """
    if facts_of(problem).early:
        return Family(f"{SCOPE}, over at most {2 * most_heights(problem)} periods")
    return Family(SCOPE)
