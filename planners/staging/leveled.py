"""`dp-piper` for problems with levels: the nested program, its options checked, within the limits of a request."""

from __future__ import annotations

from ...instances.base.result import Stop
from ...instances.verdict import violations_of
from ..contract import Outcome, Request
from ..search import OutOfTimeError, tick_of
from .hierarchy import plan_levels
from .options import ROUNDED_MEMORY

CHECKS = ("the dynamic program decided over all downsets, level by level",)


def plan_with_levels(request: Request) -> Outcome:
    """The best tree of stages, proven; nothing on the way is a plan, so a limit leaves none."""
    problem, variant, bound = request.problem, request.options.get("hierarchy", "precise"), None
    messages: tuple[str, ...] = ()
    tick = tick_of(request)
    try:
        found = plan_levels(problem, variant, tick)
        if found is None:
            return Outcome(Stop.INFEASIBLE, checks=CHECKS)
        bound = found.time_per_micro_batch
        if violations_of(problem, found.plan, hierarchy=variant):
            messages = (ROUNDED_MEMORY,)
            found = plan_levels(problem, variant, tick, inside=True)
    except OutOfTimeError:
        return Outcome(Stop.TIME, bound=bound)
    if found is None:
        return Outcome(Stop.COMPLETED, bound=bound, messages=messages, checks=CHECKS)
    value = found.time_per_micro_batch
    request.board.post(found.plan, value, bound)
    stop = Stop.COMPLETED if messages else Stop.PROVEN
    return Outcome(stop, found.plan, value, bound, messages=messages, checks=CHECKS)
