"""Equal groups of layers in a row, and how they run: what `equi` makes its stages of, whatever the network.

Transformers are grouped by their layers of that name, everything before them goes into the first stage and everything
behind them into the last one, or into stages of their own. Other networks are cut in their topological order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...instances.base.checks import NodeId
from ...instances.staging.problem import Configuration, StagingProblem
from ..placement.orders import in_turn
from .restriction import recomputes

TRANSFORMER = "ParallelTransformerLayer"

Groups = Sequence[Sequence[int]]
"""Positions of layers, by group."""


def groupings(problem: StagingProblem) -> Iterator[Groups]:
    """By the number of groups."""
    return _transformer_groups(problem) if has_transformers(problem) else _plain_groups(problem)


def has_transformers(problem: StagingProblem) -> bool:
    """Does some layer bear that name?"""
    return any(layer.name == TRANSFORMER for layer in problem.layers)


def usual_degrees(problem: StagingProblem, tensor_parallel: bool) -> list[int]:
    """Tensor-parallel degrees of the first layer; other networks than transformers are not cut in this way by hand."""
    several = tensor_parallel and has_transformers(problem)
    return [t for t in problem.degrees if (t == 1 or several) and problem.layers[0].configurations.get(t)]


def configured(problem: StagingProblem, groups: Groups, t: int, again: bool) -> list[dict[NodeId, str]] | None:
    """The configurations of each group, with or without recomputation everywhere; None where a layer has none."""
    chosen = []
    for group in groups:
        ways = {problem.layers[i].id: _way(problem.layers[i].configurations.get(t, ()), again) for i in group}
        if None in ways.values():
            return None
        chosen.append({node_id: way.id for node_id, way in ways.items() if way is not None})
    return chosen


def _way(ways: Sequence[Configuration], again: bool) -> Configuration | None:
    """The configuration with or without recomputation; where there is only one kind, that one."""
    fitting = [way for way in ways if recomputes(way) == again]
    return next(iter(fitting or ways), None)


def _shares(items: Sequence[int], groups: int) -> list[list[int]]:
    """In a row, of equal sizes; the last ones get one more where it does not divide."""
    size, more = divmod(len(items), groups)
    shares, at = [], 0
    for g in range(groups):
        end = at + size + (g >= groups - more)
        shares.append(list(items[at:end]))
        at = end
    return shares


def _plain_groups(problem: StagingProblem) -> Iterator[list[list[int]]]:
    order = last_in_first_out(problem)
    for stages in range(1, min(problem.devices, len(order)) + 1):
        yield _shares(order, stages)


def _transformer_groups(problem: StagingProblem) -> Iterator[list[list[int]]]:
    order = last_in_first_out(problem)
    middle = [i for i in order if problem.layers[i].name == TRANSFORMER]
    before = _reaching(problem, middle)
    initial = [i for i in order if i in before and problem.layers[i].name != TRANSFORMER]
    final = [i for i in order if i not in before and problem.layers[i].name != TRANSFORMER]
    for separate in (0, 1):
        for stages in range(1 + 2 * separate, min(problem.devices, len(middle) + 2 * separate) + 1):
            groups = _shares(middle, stages - 2 * separate)
            if separate:
                groups = [initial, *groups, final]
            else:
                groups[0] = initial + groups[0]
                groups[-1] = groups[-1] + final
            yield [group for group in groups if group]


def _reaching(problem: StagingProblem, targets: Sequence[int]) -> set[int]:
    """Layers from which a way leads to one of the targets, and these."""
    reached, waiting = set(targets), list(targets)
    while waiting:
        for u in problem.predecessors[waiting.pop()]:
            if u not in reached:
                reached.add(u)
                waiting.append(u)
    return reached


def last_in_first_out(problem: StagingProblem) -> list[int]:
    """Kahn's topological order with a stack, sources and successors in the order of the input, the last one first."""
    return in_turn(problem.successors, list.pop)
