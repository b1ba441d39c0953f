"""For which plans the proofs about periods hold."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...instances.schedule.problem import ScheduleProblem
from ..family import Family
from .periodic_facts import facts_of, most_heights

SCOPE = "schedules with one micro-batch per period"


def family(problem: ScheduleProblem, options: Mapping[str, Any]) -> Family:
    """Schedules with one micro-batch per period. Several may be faster still, but no method here plans that.

    The number of periods that one micro-batch takes is limited only where it may give memory back before it takes it.
    """
    if facts_of(problem).early:
        return Family(f"{SCOPE}, over at most {2 * most_heights(problem)} periods")
    return Family(SCOPE)
