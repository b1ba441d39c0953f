"""The best placement that a latency planner has seen, and the bound to measure it by."""

from __future__ import annotations

import math

from ....instances.base.errors import InputError
from ....instances.placement.problem import PlacementProblem
from ... import search as incumbent
from ...contract import Request
from ...search import SAFETY
from .world import World


def world_of(request: Request) -> World:
    pieces = request.options.get("subgraphs_per_device", 1)
    if pieces < 1:
        raise InputError("option subgraphs_per_device", f"is {pieces}", "give a whole number >= 1")
    return World(request.problem, pieces)


class Incumbent(incumbent.Incumbent):
    """Placements that break memory, support or colours, or wait in a circle, count for nothing."""

    def __init__(self, request: Request, world: World) -> None:
        super().__init__(request, world.latency, world.fits, world.plan, lambda: lower_bound(world.problem))


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
