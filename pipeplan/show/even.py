"""The split that needs no planner, as many layers on each device as on any other: what a plan is compared with."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeVar

from ..instances.errors import PipeplanError
from ..instances.kind import Rules
from ..instances.kinds import Plan, Problem
from ..instances.result import Stop

if TYPE_CHECKING:
    from ..instances.chain.plan import PatternPlan
    from ..instances.chain.problem import ChainProblem
    from ..instances.graph_pipeline.plan import StageGraphPlan
    from ..instances.graph_pipeline.problem import GraphPipelineProblem
    from ..instances.placement.plan import PlacementPlan
    from ..instances.placement.problem import PlacementProblem
    from ..instances.staging.problem import StagingProblem

Item = TypeVar("Item")
ENOUGH_S = 1.0
"""For the equal stages of all degrees."""
MOST_MICRO_BATCHES = 64
"""In an iteration: more are not simulated for a comparison."""


def value_of_even_split(problem: Problem, rules: Rules) -> float | None:
    """The referee's value of the best of them; None where none keeps the rules, or nobody has said what is even."""
    from ..planners.referee import rule
    from .view import module_of

    plans = getattr(module_of(problem), "even_plans", None)
    if plans is None:
        return None
    try:
        values = [rule(problem, plan, rules).value for plan in plans(problem)]
    except PipeplanError:
        return None
    return min((value for value in values if value is not None), default=None)


def shares(items: Sequence[Item], parts: int) -> list[Sequence[Item]]:
    """In a row; the first ones get one more where it does not divide, and nobody gets nothing."""
    parts = min(parts, len(items))
    size, more = divmod(len(items), parts)
    borders = [part * size + min(part, more) for part in range(parts + 1)]
    return [items[start:end] for start, end in pairwise(borders)]


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


def stage_graphs(problem: GraphPipelineProblem) -> Iterator[StageGraphPlan]:
    """Equally many operators on each device, one stage behind the other, for every micro-batch that is a power of 2."""
    from ..instances.graph_pipeline.plan import GraphStage, StageGraphPlan

    operators = [problem.operators[i].id for i in problem.topological_order]
    parts = shares(operators, problem.devices)
    edges = tuple((i, i + 1) for i in range(len(parts) - 1))
    for size in (2**power for power in range(problem.mini_batch.bit_length())):
        if problem.mini_batch <= MOST_MICRO_BATCHES * size:
            stages = tuple(GraphStage(tuple(part), 1, size) for part in parts)
            yield _in_flight(problem, StageGraphPlan(stages, edges))


def _in_flight(problem: GraphPipelineProblem, plan: StageGraphPlan) -> StageGraphPlan:
    """Each stage with what those behind it make it hold, and each edge that the operators ask for."""
    from ..instances.graph_pipeline.referee.costs import forced_edges, required_in_flight

    plan = replace(plan, edges=tuple(sorted({*plan.edges, *forced_edges(problem, plan)})))
    for _ in plan.stages:
        held = required_in_flight(problem, plan)
        stages = (replace(stage, in_flight=most) for stage, most in zip(plan.stages, held, strict=True))
        plan = replace(plan, stages=tuple(stages))
    return plan
