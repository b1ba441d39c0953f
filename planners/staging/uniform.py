"""`uniform`: the fastest plan whose stages all have the same degrees, which is what Megatron-LM and DeepSpeed can run.

For each tensor-parallel degree and each number of replicas of every level, whether some plan is faster than the best so
far is decided by the program of `level_decisions` with these degrees alone; a flat network is one level. Where even
perfectly shared work would take longer than the best plan, nothing is asked. With flushes (`flushes`), the best of each
is sought.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import product

from ...instances.base.errors import UsageError
from ...instances.base.result import Stop
from ...instances.physics.tolerances import BETTER
from ...instances.registry import violations_of
from ...instances.staging.plan import LeveledPlan, PlannedStage, StagedPlan
from ...instances.staging.problem import FLUSH, StagingLevel, StagingProblem, check_question
from ..contract import Outcome, Request
from ..search import OutOfTimeError, tick_of
from .flushes import flushed_value, least_flushed
from .hierarchy import downsets
from .level_decisions import LevelDecisions
from .memory import whole_memory
from .search import Found

NONE_FITS = "no plan with the same degrees on every stage fits"
# Up to so many replicas of a stage on one level every number is tried, and above it those that divide the level.
EVERY = 16

# The tensor-parallel degree, and the replicas of a stage on each level, the innermost first.
Degrees = tuple[int, tuple[int, ...]]


class UniformPlanner:
    """Every way to give all stages the same degrees, those first that leave no device idle."""

    def plan(self, request: Request) -> Outcome:
        problem, board = request.problem, request.board
        check_question(problem, request.options)
        if problem.exact_batches:
            raise UsageError("--option uniform plans for at most --batch replicas; drop --option exact-batches.")
        if problem.device_types:
            raise UsageError("--option uniform is for devices of one type; drop --option uniform.")
        levels = problem.levels or (StagingLevel(problem.devices, problem.bandwidth),)
        leveled = problem.replace(levels=levels)
        tick = tick_of(request)
        try:
            sets = downsets(leveled)
            memory = whole_memory(leveled, leveled.devices)
            for degrees in sorted(_choices(leveled), key=lambda each: _ideal(leveled, each)):
                tick()
                if board.value is not None and _ideal(leveled, degrees) >= board.value:
                    break
                search = LevelDecisions(leveled, sets, memory, tick, degrees)
                if request.options.get("objective") == FLUSH:
                    _improve_flushed(request, problem, search, _ideal(leveled, degrees))
                else:
                    _improve(request, problem, search)
        except OutOfTimeError:
            return Outcome(Stop.TIME, board.plan, board.value)
        messages = () if board.plan is not None else (NONE_FITS,)
        return Outcome(Stop.COMPLETED, board.plan, board.value, messages=messages)


PLANNER = UniformPlanner()


def _choices(problem: StagingProblem) -> Iterator[Degrees]:
    """Every tensor-parallel degree with every number of replicas on each level that leaves room for a stage."""
    innermost, *upper = (level.devices for level in problem.levels)
    for t in problem.degrees:
        if t <= innermost and all(layer.configurations.get(t) for layer in problem.layers):
            rooms = [innermost // t, *upper]
            yield from ((t, copies) for copies in product(*(_replicas(problem, room) for room in rooms)))


def _replicas(problem: StagingProblem, room: int) -> list[int]:
    """Numbers of replicas to try on one level, which has room for `room` of them."""
    if not problem.replication:
        return [1]
    return [d for d in range(1, room + 1) if d <= EVERY or room % d == 0]


def _ideal(problem: StagingProblem, degrees: Degrees) -> float:
    """No plan of these degrees takes less time per micro-batch: the work of all layers, shared perfectly among
    the devices that its stages can have."""
    t, copies = degrees
    rooms = [problem.levels[0].devices // t, *(level.devices for level in problem.levels[1:])]
    used = t * math.prod(room // d * d for room, d in zip(rooms, copies, strict=True))
    stages = math.prod(room // d for room, d in zip(rooms, copies, strict=True))
    shared = min(len(problem.layers), stages, problem.micro_batches // math.prod(copies)) * t * math.prod(copies)
    work = math.fsum(t * min(way.time for way in layer.configurations[t]) for layer in problem.layers)
    return work / min(used, shared) if shared else math.inf


def _improve(request: Request, problem: StagingProblem, search: LevelDecisions) -> None:
    """Plans of these degrees, each better than the best so far, as long as there are any."""
    board = request.board
    while True:
        result = (
            search.best(lambda best, low: None)
            if board.value is None
            else search.decide(board.value * (1 - BETTER))
        )
        if result is None:
            return
        plan = result.plan if problem.levels else _flat(result.plan)
        if violations_of(problem, plan):  # memory has more digits than are counted
            return
        board.post(plan, result.load)


def _improve_flushed(request: Request, problem: StagingProblem, search: LevelDecisions, ideal: float) -> None:
    """The best plan of these degrees with a flush behind every batch, if it is better than the best so far."""
    board = request.board

    def hear(found: Found[LeveledPlan], low: float) -> None:
        plan = found.plan if problem.levels else _flat(found.plan)
        if not violations_of(problem, plan):
            board.post(plan, flushed_value(search.problem, found))

    # A flush only adds to the largest load.
    first = search.decide(math.inf if board.value is None else board.value * (1 - BETTER))
    if first is not None and search.degrees is not None:
        copies = math.prod(search.degrees[1])
        least_flushed(search.problem, search.decide, first, ideal, [copies], hear)


def _flat(plan: LeveledPlan) -> StagedPlan:
    return StagedPlan(
        tuple(
            PlannedStage(leaf.nodes, leaf.data_parallel, leaf.tensor_parallel, leaf.configurations)
            for leaf in plan.leaves()
        )
    )
