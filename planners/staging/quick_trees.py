"""Trees of stages that need no search, so that a run on devices within devices has a plan from its first moment.

The layers are cut into stages of about equal work on the highest level, which share its devices evenly; inside, each
stage runs on as many devices as may share a layer and has as many copies as there is room for. All layers run in their
fastest way, or in the one that holds least.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

from ...instances.base.kind import Rules
from ...instances.staging.plan import LeveledPlan, LeveledStage
from ...instances.staging.problem import Configuration, StagingProblem

Way = Callable[[Configuration], float]


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
    """Trees by the number of stages on the highest level; none where a batch must have exactly so many replicas."""
    degree = widest_degree(problem)
    if degree is None or problem.exact_batches:
        return
    order = problem.topological_order
    fastest, smallest = (
        {i: min(problem.layers[i].configurations[degree], key=key) for i in order} for key in _WAYS
    )
    for stages in range(1, min(len(order), problem.levels[-1].devices) + 1):
        copies = _copies(problem, degree, stages)
        if copies is None:
            return
        for ways in (fastest, smallest) if smallest != fastest else (fastest,):
            groups = _equal_work(order, [ways[i].time for i in order], stages)
            yield LeveledPlan(tuple(_tree(problem, group, ways, degree, copies) for group in groups))


def widest_degree(problem: StagingProblem) -> int | None:
    """The most devices that may share any layer, on the innermost level; None: there is no number for all layers."""
    width = problem.levels[0].devices if problem.levels else problem.devices
    shared = (t for t in problem.degrees if t <= width and all(x.configurations.get(t) for x in problem.layers))
    return max(shared, default=None)


# Keys of the fastest way and of the one that holds least; 8 stands for any usual number of micro-batches in flight.
_WAYS: tuple[Way, Way] = (lambda way: way.time, lambda way: float(way.memory_bytes(8)))


def _copies(problem: StagingProblem, degree: int, stages: int) -> list[int] | None:
    """Number of replicas of each stage on each level, the innermost first; a batch has enough micro-batches for
    all of them together; None where they do not fit."""
    left = problem.micro_batches // stages
    rooms = [problem.levels[0].devices // degree, *(level.devices for level in problem.levels[1:])]
    if len(rooms) == 1:
        rooms = [problem.levels[0].devices // (degree * stages)]
    else:
        rooms[-1] //= stages
    copies: list[int] = []
    for room in reversed(rooms):
        copies.append(min(room, left) if problem.replication else min(room, 1))
        left //= max(copies[-1], 1)
    return copies[::-1] if min(copies) else None


def _equal_work(order: Sequence[int], times: Sequence[float], stages: int) -> list[Sequence[int]]:
    """Each stage ends where its share of the work is reached, and leaves a layer for each that follows."""
    share = math.fsum(times) / stages
    groups: list[Sequence[int]] = []
    start, done = 0, 0.0
    for stage in range(1, stages + 1):
        end = start + 1
        done += times[start]
        while end < len(order) - (stages - stage) and (stage == stages or done + times[end] / 2 <= share * stage):
            done += times[end]
            end += 1
        groups.append(order[start:end])
        start = end
    return groups


def _tree(
    problem: StagingProblem,
    group: Sequence[int],
    ways: dict[int, Configuration],
    degree: int,
    copies: Sequence[int],
) -> LeveledStage:
    names = {problem.layers[i].id: ways[i].id for i in group}
    stage = LeveledStage(tuple(names), copies[0], degree, names)
    for here in copies[1:]:
        stage = LeveledStage(tuple(names), here, children=(stage,))
    return stage
