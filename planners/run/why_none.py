"""Why there is no plan, in words: what the problem lacks, where it lacks it, and what would help.

Kinds of problems that have nothing to say name nobody who would.
"""

from __future__ import annotations

from dataclasses import replace

from ...instances.base.result import Stop
from ..contract import Request
from ..kinds import planned_kind
from .choose import Method

ENOUGH_S = 10.0
"""The search for reasons takes no longer, and not longer than the limit of the run."""


def reasons(request: Request, method: Method, stop: Stop) -> tuple[str, ...]:
    """Sentences for a run that ended without a plan because none exists, or none of the method's own kind."""
    explain = planned_kind(request.problem).why_none
    if explain is None or stop not in (Stop.INFEASIBLE, Stop.COMPLETED):
        return ()
    seconds = request.seconds_at_most(ENOUGH_S)
    if request.out_of_time():
        return ("there was no time left to find out what would be enough",)
    limits = replace(request.limits, time_limit_s=seconds, native={}, log_path=None)
    try:
        return explain(request.problem, method.options, limits, stop == Stop.INFEASIBLE)
    except KeyboardInterrupt:
        return ("interrupted: what would be enough was not found out",)
