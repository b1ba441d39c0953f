"""The split that needs no planner, as many layers on each device as on any other: what a plan is compared with."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ..instances.errors import PipeplanError
from ..instances.kind import Rules
from ..instances.kinds import Plan, Problem
from ..instances.result import Stop
from ..planners.search import shares

if TYPE_CHECKING:
    from ..instances.chain.plan import PatternPlan
    from ..instances.chain.problem import ChainProblem
    from ..instances.placement.plan import PlacementPlan
    from ..instances.placement.problem import PlacementProblem
    from ..instances.staging.problem import StagingProblem
    from ..planners.referee import Ruling

ENOUGH_S = 1.0
"""For the equal stages of all degrees."""


def even_split(problem: Problem, rules: Rules) -> Ruling | None:
    """The best of them, as the referee judges; None where none keeps the rules, or nobody has said what is even."""
    from ..planners.referee import rule
    from .view import module_of

    plans = getattr(module_of(problem), "even_plans", None)
    if plans is None:
        return None
    try:
        rulings = [rule(problem, plan, rules) for plan in plans(problem)]
    except PipeplanError:
        return None
    fitting = ((ruling.value, i) for i, ruling in enumerate(rulings) if ruling.value is not None)
    best = min(fitting, default=None)
    return None if best is None else rulings[best[1]]


def chain_plans(problem: ChainProblem) -> Iterator[PatternPlan]:
    """The best pattern of equally many layers on each GPU."""
    from ..planners.beaumont.eager import scheduled

    borders = [0]
    for share in shares(range(problem.layers), problem.gpus):
        borders.append(borders[-1] + len(share))
    plan = scheduled(problem, tuple(borders))
    if plan is not None:
        yield plan


def staging_plans(problem: StagingProblem) -> Iterator[Plan]:
    """The best of equal stages, of whatever degrees; none where there are too many to try."""
    from ..planners.options import SolveOptions
    from ..planners.run.solve import solve

    result = solve(problem, planner="equi", limits=SolveOptions(time_limit_s=ENOUGH_S))
    if result.plan is not None and result.stop == Stop.COMPLETED:
        yield result.plan


def placements(problem: PlacementProblem) -> Iterator[PlacementPlan]:
    """Equally many nodes of the forward pass on each accelerator; others go where their colour is."""
    from ..instances.placement.plan import Device, PlacementPlan

    order = [problem.nodes[i] for i in problem.topological_order]
    forward = [node for node in order if not node.backward] or order
    place: dict[Any, int] = {}
    by_colour: dict[Any, int] = {}
    for device, share in enumerate(shares(forward, problem.accelerators)):
        for node in share:
            place[node.id] = device if node.color is None else by_colour.setdefault(node.color, device)
    for node in order:
        place.setdefault(node.id, by_colour.get(node.color, 0))
    devices: list[list[Any]] = [[] for _ in range(problem.accelerators)]
    for node in order:
        devices[place[node.id]].append(node.id)
    yield PlacementPlan(tuple(Device(f"acc{d}", "accelerator", tuple(nodes)) for d, nodes in enumerate(devices)))
