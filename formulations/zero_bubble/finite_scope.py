"""For which schedules bounds on makespan and span hold: all of them. Those on the period have a scope of their own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...instances.base.quantities import several
from ...instances.schedule.problem import ScheduleProblem
from ...instances.schedule.referee import PERIOD
from ..family import Family
from .periodic_scope import family as of_periods


def family(problem: ScheduleProblem, options: Mapping[str, Any]) -> Family:
    """All schedules of the given micro-batches; those of the steady state where none are given or periods count."""
    if problem.micro_batches is None or options.get("objective") == PERIOD:
        return of_periods(problem, options)
    return Family(f"all schedules of {several(problem.micro_batches, 'micro-batch')}")
