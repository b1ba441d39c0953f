"""For which schedules the bounds on makespan and span hold: all of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...instances.schedule.problem import ScheduleProblem
from ..family import Family


def family(problem: ScheduleProblem, options: Mapping[str, Any]) -> Family:
    return Family(f"all schedules of {problem.micro_batches} micro-batches")
