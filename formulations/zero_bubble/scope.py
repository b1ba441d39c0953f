"""For which schedules the proofs hold: of given micro-batches, or of the steady state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...instances.base.quantities import several
from ...instances.schedule.problem import ScheduleProblem
from ...instances.schedule.referee import PERIOD
from ..family import Family
from .periodic_facts import facts_of, most_heights


def family(problem: ScheduleProblem, options: Mapping[str, Any]) -> Family:
    """All schedules of the given micro-batches; those of the steady state where none are given or periods count.

    There they are schedules with one micro-batch per period. Several may be faster still, but no method here plans
    that. The number of periods that one micro-batch takes is limited only where it may give memory back before it
    takes it.
    """
    if problem.micro_batches is not None and options.get("objective") != PERIOD:
        return Family(f"all schedules of {several(problem.micro_batches, 'micro-batch')}")
    limit = f", over at most {2 * most_heights(problem)} periods" if facts_of(problem).early else ""
    return Family(f"schedules with one micro-batch per period{limit}")
