"""Splits that were not made for latency, evaluated for it: all on CPUs, an expert's, and the best for throughput."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ....formulations.contract import OptionSpec
from ....instances.base.kind import load_address
from ....instances.base.result import Stop
from ....instances.placement.plan import PlacementPlan
from ....instances.verdict import evaluation_of
from ...contract import Board, Outcome, Request
from ..dp.options import OPTIONS as DP_OPTIONS
from ..heuristics.expert import Expert
from ..options import OPTIONS
from .incumbent import Incumbent, world_of


class LatencyCpu:
    def plan(self, request: Request) -> Outcome:
        """Every node as soon as its inputs are there; where there are no CPUs there is no such plan."""
        incumbent = Incumbent(request, world_of(request))
        if not request.problem.cpus:
            return incumbent.outcome(Stop.COMPLETED, "the problem has no CPU")
        incumbent.offer([0] * len(request.problem.nodes))
        return incumbent.outcome(Stop.COMPLETED)


@dataclass(frozen=True)
class _Borrowed:
    """The plan that another planner makes for throughput."""

    lender: str
    lent_from: str
    its_options: tuple[OptionSpec, ...]

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
EXPERT = Expert(
    "latency-expert", lambda request, plan: evaluation_of(request.problem, plan, objective="latency").latency
)
DP = _Borrowed("dp", "pipeplan.planners.placement.dp.planner:PLANNER", DP_OPTIONS)
LINEAR_DP = _Borrowed("linear-dp", "pipeplan.planners.placement.heuristics.linear_dp:PLANNER", OPTIONS["linear-dp"])
PARTITION = _Borrowed("partition", "pipeplan.planners.placement.heuristics.partition:PLANNER", OPTIONS["partition"])
