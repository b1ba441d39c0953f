"""Splits that were not made for latency, evaluated for it: all on CPUs, an expert's, and the best for throughput."""

from __future__ import annotations

import math

from ...formulations.contract import OptionSpec
from ...instances.errors import UsageError
from ...instances.kind import load_address
from ...instances.placement.plan import PlacementPlan
from ...instances.placement.referee.evaluate import NotAnAssignmentError
from ...instances.placement.referee.latency import evaluate_latency
from ...instances.result import Stop
from ...instances.results import load_plan
from ..contract import Board, Outcome, Request
from ..dp.options import OPTIONS as DP_OPTIONS
from ..placement.options import OPTIONS
from .incumbent import Incumbent, world_of


class LatencyCpu:
    def plan(self, request: Request) -> Outcome:
        """Every node as soon as its inputs are there; where there are no CPUs there is no such plan."""
        incumbent = Incumbent(request, world_of(request))
        if not request.problem.cpus:
            return incumbent.outcome(Stop.COMPLETED, "the problem has no CPU")
        incumbent.offer([0] * len(request.problem.nodes))
        return incumbent.outcome(Stop.COMPLETED)


class LatencyExpert:
    def plan(self, request: Request) -> Outcome:
        """The split as it stands: whether it obeys the rules is for the referee to say."""
        path = request.options.get("split")
        if path is None:
            raise UsageError("The planner 'latency-expert' needs a split; name its file with --split FILE.")
        plan = load_plan(path, request.problem)
        try:
            value = evaluate_latency(request.problem, plan).latency
        except NotAnAssignmentError:
            return Outcome(Stop.COMPLETED, plan)
        return Outcome(Stop.COMPLETED, plan, value)


class _Borrowed:
    """The plan that another planner makes for throughput."""

    def __init__(self, lender: str, lent_from: str, its_options: tuple[OptionSpec, ...]) -> None:
        self.lender, self.lent_from, self.its_options = lender, lent_from, its_options

    def plan(self, request: Request) -> Outcome:
        own = {spec.name: spec.default for spec in self.its_options}
        board = Board(started=request.board.started)
        answer = load_address(self.lent_from).plan(Request(request.problem, own, request.limits, board=board))
        world = world_of(request)
        incumbent = Incumbent(request, world)
        if not isinstance(answer.plan, PlacementPlan):
            return incumbent.outcome(answer.stop, f"{self.lender} found no plan", *answer.messages)
        place = world.places(answer.plan)
        if place is None or not math.isfinite(world.latency(place)):
            message = f"the plan of {self.lender} needs more than {world.pieces} subgraphs per device"
            return incumbent.outcome(Stop.COMPLETED, message)
        incumbent.offer(place)
        return incumbent.outcome(Stop.COMPLETED)


CPU = LatencyCpu()
EXPERT = LatencyExpert()
DP = _Borrowed("dp", "pipeplan.planners.dp.planner:PLANNER", DP_OPTIONS)
LINEAR_DP = _Borrowed("linear-dp", "pipeplan.planners.placement.linear_dp:PLANNER", OPTIONS["linear-dp"])
PARTITION = _Borrowed("partition", "pipeplan.planners.placement.partition:PLANNER", OPTIONS["partition"])
