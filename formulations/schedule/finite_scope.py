"""For which schedules the bounds on makespan and span hold: all of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...instances.schedule.problem import ScheduleProblem
from ..family import Family
from . import periodic_scope


def family(problem: ScheduleProblem, options: Mapping[str, Any]) -> Family:
    """Without micro-batches, or where the period is asked for, the answer is a schedule that repeats."""
    if problem.micro_batches is None or options.get("objective") == "period":
        return periodic_scope.family(problem, options)
    return Family(f"all schedules of {problem.micro_batches} micro-batches")
