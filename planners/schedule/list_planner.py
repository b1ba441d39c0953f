"""List schedules as a planner: of all micro-batches, or of the steady state."""

from __future__ import annotations

from ...instances.base.result import Stop
from ...instances.verdict import evaluation_of
from ..contract import Outcome, Request
from .list_schedule import better_and_better
from .listing import why_none
from .periodic_list import periodic_list_schedule

PERIOD = "period"


class ListSchedule:
    def plan(self, request: Request) -> Outcome:
        """The best of several rules; each plan is posted as soon as it is there."""
        problem, objective = request.problem, str(request.options["objective"])
        if problem.micro_batches is None or objective == PERIOD:
            periodic = periodic_list_schedule(problem, request.out_of_time)
            stop = Stop.TIME if request.out_of_time() else Stop.COMPLETED
            if periodic is None:
                return Outcome(stop, messages=(why_none(problem),))
            return Outcome(stop, periodic, float(periodic.period))
        board = request.board
        for plan in better_and_better(problem, objective, request.out_of_time, seed=request.limits.seed):
            value = evaluation_of(problem, plan).objective(objective)
            assert value is not None, "the micro-batches have an end"
            board.post(plan, float(value))
        stop = Stop.TIME if request.out_of_time() else Stop.COMPLETED
        messages = (why_none(problem),) if board.plan is None else ()
        return Outcome(stop, board.plan, board.value, messages=messages)


PLANNER = ListSchedule()
