"""An expert's split, read from a file: a plan, a result, or a split as published."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ....instances.base.errors import UsageError
from ....instances.base.result import Stop
from ....instances.placement.plan import NotAnAssignmentError, PlacementPlan
from ....instances.registry import evaluation_of
from ....instances.stored_results import load_plan
from ...contract import Outcome, Request
from ..groups import objective_of


@dataclass(frozen=True)
class Expert:
    name: str
    value_of: Callable[[Request, PlacementPlan], float | None]

    def plan(self, request: Request) -> Outcome:
        """The split as it stands: whether it obeys the rules is for the referee to say."""
        path = request.options.get("split")
        if path is None:
            raise UsageError(f"The planner {self.name!r} needs a split; name its file with --option split=FILE.")
        plan: PlacementPlan = load_plan(path, request.problem)
        try:
            value = self.value_of(request, plan)
        except NotAnAssignmentError:
            return Outcome(Stop.COMPLETED, plan)
        request.board.post(plan, value)
        return Outcome(Stop.COMPLETED, plan, value)


PLANNER = Expert(
    "expert", lambda request, plan: evaluation_of(request.problem, plan).objective(objective_of(request))
)
