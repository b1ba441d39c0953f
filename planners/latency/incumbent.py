"""The best placement that a latency planner has seen, posted as soon as it is found; and a bound to measure it by."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ...instances.errors import InputError
from ...instances.placement import PlacementProblem
from ...instances.result import PROVEN_TOLERANCE, Stop, WarmStart, relative_gap
from ..contract import Outcome, Request
from .world import World

SAFETY = 1e-9
"""Relative: bounds are lowered by this, so that rounding never lifts one above the optimum."""


def world_of(request: Request) -> World:
    pieces = request.options.get("subgraphs_per_device", 1)
    if pieces < 1:
        raise InputError("option subgraphs_per_device", f"is {pieces}", "give a whole number >= 1")
    return World(request.problem, pieces)


class Incumbent:
    """Takes placements; those that break memory, support or colours, or wait in a circle, count for nothing."""

    def __init__(self, request: Request, world: World, source: str) -> None:
        self.request, self.world, self.source = request, world, source
        self.place: list[int] | None = None
        self.value = math.inf

    def offer(self, place: Sequence[int]) -> bool:
        """Keep and post it if it is better than everything before."""
        value = self.world.latency(place)
        if value >= self.value or not self.world.fits(place):
            return False
        self.place, self.value = list(place), value
        self.request.board.post(self.world.plan(self.place), value, source=self.source)
        return True

    def outcome(self, stop: Stop, *messages: str, warm_start: WarmStart | None = None) -> Outcome:
        """What the planner answers: `stop`, unless the value meets the bound."""
        bound = lower_bound(self.world.problem)
        warm_start = warm_start or WarmStart()
        if self.place is None:
            return Outcome(stop, bound=bound, warm_start=warm_start, messages=messages)
        gap = relative_gap(self.value, bound)
        if gap is not None and gap <= PROVEN_TOLERANCE:
            stop = Stop.PROVEN
        bound = None if bound is None else min(bound, self.value)
        return Outcome(stop, self.world.plan(self.place), self.value, bound, warm_start, messages=messages)


def lower_bound(problem: PlacementProblem) -> float | None:
    """The longest path with every node on the faster kind of device that can run it, without any transfer."""
    finish = [0.0] * len(problem.nodes)
    for v in problem.topological_order:
        node = problem.nodes[v]
        choices = [node.accelerator_time] if node.supported and problem.accelerators else []
        choices += [node.cpu_time] if problem.cpus else []
        before = max((finish[u] for u in problem.predecessors[v]), default=0.0)
        finish[v] = before + min(choices, default=math.inf)
    bound = max(finish) * (1 - SAFETY)
    return bound if math.isfinite(bound) else None
