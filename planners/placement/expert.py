"""An expert's split, read from a file: a plan, a result, or a split as published."""

from __future__ import annotations

from ...instances.errors import UsageError
from ...instances.placement.referee.evaluate import NotAnAssignmentError, evaluate
from ...instances.result import Stop
from ...instances.results import load_plan
from ..contract import Outcome, Request


class Expert:
    def plan(self, request: Request) -> Outcome:
        """The split as it stands: whether it obeys the rules is for the referee to say."""
        path = request.options.get("split")
        if path is None:
            raise UsageError("The planner 'expert' needs a split; name its file with --split FILE.")
        plan = load_plan(path, request.problem)
        try:
            value = evaluate(request.problem, plan).objective(request.options.get("objective", "max-load"))
        except NotAnAssignmentError:
            return Outcome(Stop.COMPLETED, plan)
        request.board.post(plan, value)
        return Outcome(Stop.COMPLETED, plan, value)


PLANNER = Expert()
