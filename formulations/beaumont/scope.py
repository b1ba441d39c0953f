"""For which patterns the proofs about a chain hold: so many batches per period, any allocation or a given one."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from ...instances.base.quantities import several
from ...instances.chain.plan import PatternPlan
from ...instances.chain.problem import ChainProblem
from ..family import Family, Outside

# The most batches per period that `cp-beaumont` takes.
MOST_BATCHES = 16

PRINTED = Family(
    "the paper's program as printed, whose plans are not those of the problem", "--option variant=corrected"
)


def family(problem: ChainProblem, options: Mapping[str, Any]) -> Family:
    """The patterns for which bounds hold. Without a memory limit no number of batches per period beats one batch."""
    if options.get("variant") == "printed":
        return PRINTED
    given = options.get("allocation") is not None
    of = " of the given allocation" if given else ""
    free = "no --option allocation" if given else None
    if loads_decide(problem):
        return Family(f"all periodic patterns{of}", free)
    batches = options.get("batches_per_period", 1)
    scope = f"patterns of {_counted(batches)} per period{of}"
    wider = [free, _asking(problem, 2 * batches)]

    def outside(plan: PatternPlan) -> Outside | None:
        """A pattern is in the family if it is one of `batches` per period when repeated; else it is outside."""
        own = plan.batches_per_period
        if batches % own == 0:
            return None
        return Outside(f"{_counted(own)} per period", _asking(problem, math.lcm(own, batches)))

    return Family(scope, " or ".join(filter(None, wider)) or None, outside)


def loads_decide(problem: ChainProblem) -> bool:
    """Does every allocation reach its largest load?"""
    return problem.memory_bytes is None and not problem.exclusive_buffers


def _counted(batches: int) -> str:
    return "one batch" if batches == 1 else several(batches, "batch")


def _asking(problem: ChainProblem, batches: int) -> str | None:
    if batches > MOST_BATCHES or problem.exclusive_buffers:
        return None
    return f"--formulation cp-beaumont --option batches-per-period={batches}"
