"""Splits that need no planner, and what a plan is compared with: as many layers on each device as on any other, or as
many of a network's equal blocks, which is how frameworks divide it."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from itertools import islice, pairwise
from typing import TYPE_CHECKING, Any

from ..instances.base.errors import PipeplanError
from ..instances.base.kind import Rules
from ..instances.registry import Plan, Problem, kind_of
from ..planners.search import Item, shares

if TYPE_CHECKING:
    from ..instances.chain.plan import PatternPlan
    from ..instances.chain.problem import ChainProblem
    from ..instances.placement.plan import PlacementPlan
    from ..instances.placement.problem import Node, PlacementProblem
    from ..instances.staging.problem import StagingProblem
    from ..planners.referee import Ruling

# Layers of all plans of equal stages that are tried, some seconds of work: a count, so that a busy machine finds the
# same plan.
MOST_LAYERS = 50_000


def even_split(problem: Problem, rules: Rules) -> Ruling | None:
    """The best even split by the referee; None where none keeps the rules, or the kind does not say what is even."""
    return _best("even_plans", problem, rules)


def equal_blocks(problem: Problem, rules: Rules) -> Ruling | None:
    """The best plan with as many blocks on each device; None where the network is no row of numbered blocks, or does
    not fit."""
    return _best("block_plans", problem, rules)


def nearest_even_split(problem: Problem, rules: Rules) -> Ruling | None:
    """Where no even split fits: the one whose fullest device holds least, with the rules that it breaks."""
    from ..planners.referee import rule
    from .view import module_of

    kind, plans = kind_of(problem), getattr(module_of(problem), "even_plans", None)
    if plans is None or kind.held is None:
        return None
    options = rules.to_options()
    try:
        candidates = list(plans(problem)) or list(plans(kind.with_memory(problem, None)))
        fullest = [(kind.held(problem, plan, options), i) for i, plan in enumerate(candidates)]
        return rule(problem, candidates[min(fullest)[1]], rules) if fullest else None
    except PipeplanError:
        return None


def _best(plans_of: str, problem: Problem, rules: Rules) -> Ruling | None:
    """The best plan that the function of this name, in the module of the problem's kind, proposes."""
    from ..planners.referee import rule
    from .view import module_of

    plans: Callable[[Any], Iterable[Any]] | None = getattr(module_of(problem), plans_of, None)
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
    from ..planners.chain.contiguous import best_contiguous

    borders = [0]
    for share in shares(range(problem.layers), problem.gpus):
        borders.append(borders[-1] + len(share))
    plan = best_contiguous(problem, tuple(borders))
    if plan is not None:
        yield plan


def staging_plans(problem: StagingProblem) -> Iterator[Plan]:
    """The best plan of equal stages, of those that are tried; where none fits, those that do not fit."""
    from ..planners.referee import rules_of
    from ..planners.staging.equal import equal_plans, equal_trees

    plans: Iterator[Plan] = equal_plans(problem, "paper", True)
    if problem.levels:
        plans = equal_trees(problem, "precise", True)
    tried, rules = list(islice(plans, max(1, MOST_LAYERS // len(problem.layers)))), rules_of(problem, {})
    fitting = (plan for plan in tried if not rules.violations(problem, plan))
    best = min(fitting, key=lambda plan: rules.value(problem, plan), default=None)
    yield from tried if best is None else [best]


def staging_blocks(problem: StagingProblem) -> Iterator[Plan]:
    """As many blocks in a stage on each device, with and without recomputation; none on devices within devices."""
    from ..instances.staging.plan import PlannedStage
    from ..planners.staging.equal import configured, on_types

    order = problem.topological_order
    groups = shares_of_blocks(order, [problem.layers[i].id for i in order], problem.devices)
    if groups is not None and not problem.levels:
        for again in (False, True):
            chosen = configured(problem, groups, 1, again)
            if chosen is not None:
                yield from on_types(problem, [PlannedStage(tuple(ways), 1, 1, ways) for ways in chosen])


# The name of a block, which differs from other blocks in its number alone.
BLOCK = re.compile(r"(.*\.)\d+")


def shares_of_blocks(items: Sequence[Item], names: Sequence[Hashable], parts: int) -> list[Sequence[Item]] | None:
    """The items in parts with as many blocks each: items before the first block go with it, others with the block that
    they follow. None where the blocks are not of one sort, or are fewer than the parts."""
    sorts = [match[1] if (match := BLOCK.fullmatch(str(name))) else None for name in names]
    blocks = [i for i, sort in enumerate(sorts) if sort is not None]
    if len({*sorts} - {None}) != 1 or len(blocks) < max(parts, 2):
        return None
    firsts = [share[0] for share in shares(blocks, parts)]
    return [items[start:end] for start, end in pairwise((0, *firsts[1:], len(items)))]


def placements(problem: PlacementProblem) -> Iterator[PlacementPlan]:
    """Equally many nodes of the forward pass on each accelerator; for all others, see `_placed`."""
    for types in _orders_of_types(problem):
        yield _placed(problem, shares(_forward(problem), len(types)), types)


def placed_blocks(problem: PlacementProblem) -> Iterator[PlacementPlan]:
    """The plans with as many blocks of the forward graph on each accelerator."""
    forward = _forward(problem)
    for types in _orders_of_types(problem):
        groups = shares_of_blocks(forward, [node.id for node in forward], len(types))
        if groups is not None:
            yield _placed(problem, groups, types)


def _orders_of_types(problem: PlacementProblem) -> Iterator[list[str | None]]:
    """The type of each accelerator: one type after the other, in the order of the types and in the reverse."""
    types: list[str | None] = [None] * problem.accelerators
    types += [other.name for other in problem.other_types for _ in range(other.count)]
    yield types
    if problem.other_types:
        yield types[::-1]


def _forward(problem: PlacementProblem) -> list[Node]:
    """Nodes of the forward pass in their order, or all where none is of the backward pass."""
    order = [problem.nodes[i] for i in problem.topological_order]
    return [node for node in order if not node.backward] or order


def _placed(
    problem: PlacementProblem, groups: Iterable[Iterable[Node]], types: Sequence[str | None]
) -> PlacementPlan:
    """A group on each accelerator; a node of no group goes where its colour is, or to the first accelerator."""
    from ..instances.placement.plan import Device, PlacementPlan

    order = [problem.nodes[i] for i in problem.topological_order]
    place: dict[Any, int] = {}
    by_colour: dict[Any, int] = {}
    for device, share in enumerate(groups):
        for node in share:
            place[node.id] = device if node.color is None else by_colour.setdefault(node.color, device)
    for node in order:
        place.setdefault(node.id, by_colour.get(node.color, 0))
    devices: list[list[Any]] = [[] for _ in types]
    for node in order:
        devices[place[node.id]].append(node.id)
    return PlacementPlan(
        tuple(
            Device(f"acc{d}", "accelerator", tuple(nodes), accelerator_type=name)
            for d, (nodes, name) in enumerate(zip(devices, types, strict=True))
        )
    )
