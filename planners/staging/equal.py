"""`equi` cuts the layers in a row into equal groups with the same degrees for all, as people do by hand.

On devices within devices every level has equal stages and equal degrees of its own (`equal_trees`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from ...instances.base.checks import NodeId
from ...instances.base.errors import Violation
from ...instances.base.graph import in_turn
from ...instances.base.kind import Rules
from ...instances.base.result import Stop
from ...instances.staging.plan import LeveledPlan, LeveledStage, PlannedStage, StagedPlan
from ...instances.staging.problem import Configuration, StagingLevel, StagingProblem, check_question
from ..contract import Outcome, Request
from ..referee import rules_of
from ..search import shares as even_shares

NO_STAGES = "no equal stages fit"
NO_TREES = "no equal stages fit that divide the devices of each level alike"


@dataclass(frozen=True)
class EqualPlanner:
    tensor_parallel: bool

    def plan(self, request: Request) -> Outcome:
        problem, board = request.problem, request.board
        options, tensor_parallel = request.options, self.tensor_parallel
        check_question(problem, options)
        semantics = options.get("semantics", "paper")
        rules = rules_of(problem, {"semantics": semantics})
        plans: Iterator[StagedPlan | LeveledPlan] = equal_plans(problem, semantics, tensor_parallel)
        if problem.levels:
            plans = equal_trees(problem, tensor_parallel)
        last: tuple[Violation, ...] = ()
        for plan in plans:
            if request.out_of_time():
                return Outcome(Stop.TIME, board.plan, board.value)
            broken = rules.violations(problem, plan)
            if broken:
                last = broken  # of the smallest stages, which come last
                continue
            value = rules.value(problem, plan)
            if board.value is None or value < board.value:
                board.post(plan, value)
        messages = (_why_none(NO_TREES if problem.levels else NO_STAGES, last),) if board.plan is None else ()
        return Outcome(Stop.COMPLETED, board.plan, board.value, messages=messages)


def _why_none(if_none: str, broken: tuple[Violation, ...]) -> str:
    """The message that no plan fits. `broken`: of the last plan tried, which has the smallest stages."""
    if not broken:
        return f"{if_none}: no number of stages and no configuration is possible for all layers"
    return f"{if_none}, not even the smallest: {broken[0].message.rstrip('.')}"


PLANNER = EqualPlanner(tensor_parallel=True)
NO_TENSOR_PARALLELISM = EqualPlanner(tensor_parallel=False)


def equal_plans(problem: StagingProblem, semantics: str, tensor_parallel: bool) -> Iterator[StagedPlan]:
    """Every grouping with every pair of degrees, with and without recomputation everywhere."""
    degrees = usual_degrees(problem, tensor_parallel)
    for groups in groupings(problem):
        most = min(problem.devices, problem.micro_batches) // len(groups)
        for d in range(1, (most if problem.replication else min(1, most)) + 1):
            if semantics == "reference" and problem.micro_batches % d:
                continue
            for t in degrees:
                if len(groups) * d * t <= problem.devices:
                    for again in (False, True):
                        chosen = configured(problem, groups, t, again)
                        if chosen is not None:
                            stages = [PlannedStage(tuple(ways), d, t, ways) for ways in chosen]
                            yield from on_types(problem, stages)


def on_types(problem: StagingProblem, stages: Sequence[PlannedStage]) -> Iterator[StagedPlan]:
    """The stages fill one type of devices after the other, in the order of the types and in the reverse; where all
    devices are alike, they are one plan."""
    if not problem.device_types:
        yield StagedPlan(tuple(stages))
        return
    size = stages[0].data_parallel * stages[0].tensor_parallel
    for types in (problem.device_types, problem.device_types[::-1]):
        rooms = [name for kind in types for name in [kind.name] * (kind.devices // size)]
        if len(stages) <= len(rooms):
            pairs = zip(stages, rooms, strict=False)
            yield StagedPlan(tuple(replace(stage, device_type=name) for stage, name in pairs))


# `equi` on devices within devices: each level has stages of equal size and equal degrees, the same everywhere. The
# layers are cut into equal groups as on a flat network. A way to divide the cluster says for every level into how
# many stages a device of the next level is cut, and how many copies each stage has; the groups are the stages of
# level 1.


@dataclass(frozen=True, slots=True)
class Share:
    """What each device of the next level does with its devices of this one."""

    stages: int
    copies: int
    """Copies of each stage."""

    @property
    def devices(self) -> int:
        """Devices that this takes, with one for each copy."""
        return self.stages * self.copies


def equal_trees(problem: StagingProblem, tensor_parallel: bool) -> Iterator[LeveledPlan]:
    """Every grouping with every way to divide the levels alike, with and without recomputation everywhere."""
    degrees = usual_degrees(problem, tensor_parallel)
    for groups in groupings(problem):
        for shares in _divisions(problem.levels, len(groups)):
            if not problem.replication and any(share.copies > 1 for share in shares):
                continue
            if len(groups) * math.prod(share.copies for share in shares) > problem.micro_batches:
                continue
            for t in degrees:
                if shares[0].devices * t <= problem.levels[0].devices:
                    for again in (False, True):
                        chosen = configured(problem, groups, t, again)
                        if chosen is not None:
                            leaves = [LeveledStage(tuple(ways), shares[0].copies, t, ways) for ways in chosen]
                            yield LeveledPlan(_tree(leaves, shares))


def _divisions(levels: Sequence[StagingLevel], stages: int) -> Iterator[tuple[Share, ...]]:
    """Every way to share all levels, the innermost first, with so many stages of level 1 in all."""
    if not levels:
        if stages == 1:
            yield ()
        return
    for here in range(1, min(stages, levels[0].devices) + 1):
        if stages % here == 0:
            for above in _divisions(levels[1:], stages // here):
                for copies in range(1, levels[0].devices // here + 1):
                    yield (Share(here, copies), *above)


def _tree(stages: Sequence[LeveledStage], shares: Sequence[Share]) -> tuple[LeveledStage, ...]:
    """Build the tree from the stages of level 1 upwards: as many of them as a device divides into make a stage of the
    next level."""
    for inner, outer in pairwise(shares):
        parts = [tuple(stages[i : i + inner.stages]) for i in range(0, len(stages), inner.stages)]
        stages = [
            LeveledStage(tuple(node for child in part for node in child.nodes), outer.copies, children=part)
            for part in parts
        ]
    return tuple(stages)


# Equal groups of layers in a row, and how they run: what `equi` makes its stages of, whatever the network.
# Transformers are grouped by their layers of that name, everything before them goes into the first stage and
# everything behind them into the last one, or into stages of their own. Other networks are cut in their topological
# order.

# A part of the id of every configuration that computes activations again.
RECOMPUTATION = "recomp"
# Name of the layers of a transformer in Piper's networks.
TRANSFORMER = "ParallelTransformerLayer"

# Positions of layers, by group.
Groups = Sequence[Sequence[int]]


def recomputes(way: Configuration) -> bool:
    """Does the configuration compute activations again in the backward pass?"""
    return RECOMPUTATION in way.id


def groupings(problem: StagingProblem) -> Iterator[Groups]:
    """Every way to cut the layers into equal groups."""
    # Kahn's order with a stack: sources and successors in the order of the input, the last one first.
    order = in_turn(problem.successors, list.pop)
    if has_transformers(problem):
        yield from _transformer_groups(problem, order)
    else:
        yield from (_shares(order, stages) for stages in range(1, min(problem.devices, len(order)) + 1))


def has_transformers(problem: StagingProblem) -> bool:
    """Does some layer bear the name `TRANSFORMER`?"""
    return any(layer.name == TRANSFORMER for layer in problem.layers)


def usual_degrees(problem: StagingProblem, tensor_parallel: bool) -> list[int]:
    """Tensor-parallel degrees of the first layer; by hand people cut only transformers in this way."""
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
    """The items in a row, cut into shares of equal size; the last ones get one more where a rest is left."""
    return [list(part[::-1]) for part in even_shares(items[::-1], groups)][::-1]


def _transformer_groups(problem: StagingProblem, order: Sequence[int]) -> Iterator[list[list[int]]]:
    middle = [i for i in order if problem.layers[i].name == TRANSFORMER]
    before = set(middle)
    for v in reversed(problem.topological_order):
        if not before.isdisjoint(problem.successors[v]):
            before.add(v)
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


# ---- Trees of stages that need no search --------------------------------------------------------------------------
# Trees of stages that need no search, so that a run on devices within devices has a plan from its first moment.
#
# Equal groups of layers are stages of the highest level, which share its devices evenly; inside, each runs on as many
# devices as may share a layer and has as many copies as there is room for.


def best_quick_tree(problem: StagingProblem, rules: Rules, out_of_time: Callable[[], bool]) -> LeveledPlan | None:
    """The fastest of the quick trees that fit, as the referee judges; None where none does."""
    best: LeveledPlan | None = None
    value = math.inf
    for plan in quick_trees(problem):
        if value <= 0 or out_of_time():
            break
        if not rules.violations(problem, plan) and (load := rules.value(problem, plan)) < value:
            best, value = plan, load
    return best


def quick_trees(problem: StagingProblem) -> Iterator[LeveledPlan]:
    """Trees by the number of stages on the highest level."""
    degree = widest_degree(problem)
    if degree is None:
        return
    for groups in groupings(problem):
        copies = _copies(problem, degree, len(groups))
        for again in (False, True) if copies else ():
            chosen = configured(problem, groups, degree, again)
            if copies and chosen:
                leaves = [LeveledStage(tuple(ways), copies[0], degree, ways) for ways in chosen]
                yield LeveledPlan(_tree(leaves, [Share(1, count) for count in copies]))


def widest_degree(problem: StagingProblem) -> int | None:
    """The most devices that may share any layer, on the innermost level; None: there is no number for all layers."""
    width = problem.levels[0].devices if problem.levels else problem.devices
    shared = (t for t in problem.degrees if t <= width and all(x.configurations.get(t) for x in problem.layers))
    return max(shared, default=None)


def _copies(problem: StagingProblem, degree: int, stages: int) -> list[int] | None:
    """Number of replicas of each stage on each level, the innermost first; a batch has enough micro-batches for
    all of them together; None where they do not fit."""
    left = problem.micro_batches // stages
    rooms = [problem.levels[0].devices // degree, *(level.devices for level in problem.levels[1:])]
    rooms[-1] //= stages
    copies: list[int] = []
    for room in reversed(rooms):
        copies.append(min(room, left) if problem.replication else min(room, 1))
        left //= max(copies[-1], 1)
    return copies[::-1] if min(copies) else None
