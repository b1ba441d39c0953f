"""`dp-piper` and what the paper compares it with: the same program with some choices taken away.

The bound is a proof where knapsacks are solved exactly. With the published greedy the plan is what the published
program finds; its bound comes from relaxed knapsacks and holds for all choices. Bounds of a restricted planner hold for
its restriction alone, so they are not reported.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from ...instances.base.errors import InputError, UsageError
from ...instances.base.json_file import write_text_atomically
from ...instances.base.result import Stop
from ...instances.physics.tolerances import BETTER
from ...instances.registry import violations_of
from ...instances.staging.plan import StagedPlan
from ...instances.staging.problem import FLUSH, StagingLevel, StagingProblem, check_question
from ..contract import Outcome, Request
from ..placement.heuristics import contract_to_path
from ..referee import rules_of
from ..registry import TABLE
from ..search import OutOfTimeError, tick_of
from .costs import whole_memory
from .equal import best_quick_tree, recomputes
from .levels import LevelDecisions, decisions_of, downsets
from .model import PiperModel, Restriction, TooManyPairsError, from_downsets, model_of
from .search import (
    Found,
    Search,
    Step,
    check_size,
    check_table,
    flushed_value,
    least_flushed,
    proven,
    table_of,
)


@dataclass(frozen=True)
class PiperPlanner:
    restriction: Restriction | None = None
    """The choices that are left; None: the program decides over all of them, and its bounds are proofs."""

    def plan(self, request: Request) -> Outcome:
        check_question(request.problem, request.options)
        problem = request.problem
        if problem.levels or problem.device_types or request.options.get("objective") == FLUSH:
            if request.options.get(TABLE.name) is not None:
                what = "devices within devices" if problem.levels else "flushes and several types of devices"
                raise UsageError(
                    f"--{TABLE.name} is for one level, one type of device and throughput: with {what} drop it."
                )
            return plan_extended(request)
        return _plan_flat(self.restriction, request)


PLANNER = PiperPlanner()
NO_DATA_PARALLELISM = PiperPlanner(Restriction(replicas=lambda d: d == 1))
NO_TENSOR_PARALLELISM = PiperPlanner(Restriction(allowed=lambda degree, way: degree == 1))
NO_RECOMPUTATION = PiperPlanner(Restriction(allowed=lambda degree, way: not recomputes(way)))


def _plan_flat(restriction: Restriction | None, request: Request) -> Outcome:
    """The least load on devices that are alike."""
    options, board, tick, searches = request.options, request.board, tick_of(request), list[Search]()
    path, exact = options.get(TABLE.name), options.get("knapsack", "exact") == "exact"

    def best(inside: bool) -> Found[StagedPlan] | None:
        tick()
        if path is not None:
            check_table(path)
        model = model_of(request.problem, options, restriction or Restriction())
        if path is not None:
            check_size(model)
        search = Search(model.inside() if inside else model, exact, tick)
        searches.append(search)

        def hear(value: float, bound: float, steps: list[Step]) -> None:
            """Post the value and the bound, and the plan only where it is better and fits."""
            better = board.value is None or value < board.value
            plan = search.plan(steps) if better else None
            plan = plan if plan is not None and fits(Found(plan, value)) else None
            board.post(plan, value, None if inside or restriction else bound, nodes=search.decisions)

        answer = search.best(hear)
        if answer is None:
            return None
        value, steps = answer
        hear(value, search.bound, steps)
        if path is not None and not inside:
            with suppress(OutOfTimeError):
                write_text_atomically(path, table_of(search).to_csv())
        return Found(search.plan(steps), value)

    def fits(found: Found[StagedPlan]) -> bool:
        model = searches[0].model
        return model.memory.exact or not violations_of(model.problem, found.plan, semantics=model.semantics)

    try:
        outcome = proven(request, best, fits, (), lambda: searches[0].size() if searches else {})
    except TooManyPairsError:
        return Outcome(Stop.MEMORY, messages=("too many stages between downsets for the tables",))
    if not searches:
        return outcome
    decided = (
        f"decided over all {searches[0].model.downsets} downsets, with {'exact' if exact else 'relaxed'} knapsacks"
    )
    stop = Stop.COMPLETED if restriction and outcome.stop == Stop.INFEASIBLE else outcome.stop
    return replace(outcome, stop=stop, checks=(f"the dynamic program {decided}",))


# ---- Beyond the paper: devices within devices, devices of several types, and pipelines that are flushed -------------
# With a flush a batch of N micro-batches takes N + X - m slots where the stages have X copies in all and the fewest
# copies of a stage are m (`least_flushed`): fewer copies may be better than a smaller load.


def plan_extended(request: Request) -> Outcome:
    """The best plan, proven; the best so far where time runs out, at first a tree that needs no search."""
    problem, options, board, tick = request.problem, request.options, request.board, tick_of(request)
    trees, flush = bool(problem.levels), options.get("objective") == FLUSH
    if not trees and options.get("knapsack", "exact") != "exact":
        raise InputError(
            "option knapsack", "is greedy, but flushes and types of devices need exact knapsacks", "give exact"
        )
    rules, first = rules_of(problem, options), decisions_of(problem, options, tick)

    def fits(found: Found[Any]) -> bool:
        return not rules.violations(problem, found.plan)

    def best(inside: bool) -> Found[Any] | None:
        tick()
        search = decisions_of(problem, options, tick, inside) if inside else first

        def hear(found: Found[Any], bound: float) -> None:
            """A better plan, if it fits with all digits; a flush only adds to the largest load and its bounds."""
            plan, value = found.plan if fits(found) else None, rules.value(problem, found.plan)
            board.post(plan, value, None if inside else bound, nodes=None if trees else search.decisions)

        fastest = search.best(hear)
        if fastest is None:
            return None
        hear(fastest, fastest.load)
        if not flush:
            return fastest
        return least_flushed(problem, search.decide, fastest, fastest.load, _copies(search), hear)

    quick = best_quick_tree(problem, rules, request.out_of_time) if trees and not flush else None
    if quick is not None:
        board.post(quick, rules.value(problem, quick))
    claim = None if flush else lambda found: found.load
    checks = ("the dynamic program decided over all downsets, " + ("level by level" if trees else COUNTED),)
    return proven(request, best, fits, checks, dict if trees else first.size, claim)


COUNTED = "for each number of copies and of devices"


def _copies(search: LevelDecisions) -> set[int]:
    """Numbers of copies that a stage may have: so many on each level."""
    numbers = {1}
    for room in (*search.rooms[:-1], max(search.counts)) if search.problem.replication else ():
        numbers = {above * d for above in numbers for d in range(1, room + 1)}
    return {number for number in numbers if number <= search.problem.micro_batches}


# ---- PipeDream's partitioner for stagings -------------------------------------------------------------------------
# PipeDream's partitioner for stagings: cuts of a path and replication, all memory ignored.
#
# The graph is contracted between its articulation points to a path; the path is cut, and each piece gets a number of
# replicas, so that the largest load is least: Piper's program over the few downsets that are ends of the path,
# without tensor parallelism and without a memory. The referee may reject what comes out, and a message says so.


def plan_pipedream(request: Request) -> Outcome:
    problem, semantics = request.problem, request.options.get("semantics", "paper")
    tick = tick_of(request)
    try:
        tick()
        search = Search(path_model(problem, semantics), tick=tick)
        answer = search.best()
    except OutOfTimeError:
        return Outcome(Stop.TIME)
    if answer is None:
        return Outcome(Stop.COMPLETED, messages=("no cut of the path gives every layer a configuration",))
    value, steps = answer
    plan = search.plan(steps)
    broken = any(violation.rule == "memory" for violation in violations_of(problem, plan, semantics=semantics))
    messages = ("the plan exceeds the memory, which PipeDream's partitioner ignores",) if broken else ()
    return Outcome(Stop.COMPLETED, plan, value, messages=messages)


def path_model(problem: StagingProblem, semantics: str) -> PiperModel:
    """The model whose downsets are the ends of the path, with one device for each replica and no memory limit."""
    blocks = path_of(problem)
    ends = [frozenset(i for block in blocks[cut:] for i in block) for cut in range(len(blocks), -1, -1)]
    boundless = problem.replace(memory_bytes=None)
    return from_downsets(boundless, ends, semantics, Restriction(allowed=lambda degree, way: degree == 1))


def path_of(problem: StagingProblem) -> list[list[int]]:
    """Blocks of layers (by position), one after the other."""
    work = tuple(
        min((way.time for way in layer.configurations.get(1, ())), default=0.0) for layer in problem.layers
    )
    return [block for block in contract_to_path(problem.arcs, work, work) if block]


# ---- The same degrees on every stage ------------------------------------------------------------------------------
# `uniform`: the fastest plan whose stages all have the same degrees, which is what Megatron-LM and DeepSpeed can run.
#
# For each tensor-parallel degree and each number of replicas of every level, whether some plan is faster than the
# best so far is decided by the program of `levels` with these degrees alone; a flat network is one level.
# Where even perfectly shared work would take longer than the best plan, nothing is asked. With flushes
# (`least_flushed`), the best of each is sought.


NONE_FITS = "no plan with the same degrees on every stage fits"
# Up to so many replicas of a stage on one level every number is tried, and above it those that divide the level.
EVERY = 16

# The tensor-parallel degree, and the replicas of a stage on each level, the innermost first.
Degrees = tuple[int, tuple[int, ...]]


def plan_uniform(request: Request) -> Outcome:
    """Every way to give all stages the same degrees, those first that leave no device idle."""
    problem, board = request.problem, request.board
    check_question(problem, request.options)
    levels = problem.levels or (StagingLevel(problem.devices, problem.bandwidth),)
    leveled = problem.replace(levels=levels)
    tick = tick_of(request)
    try:
        sets, memory = downsets(problem), whole_memory(problem, problem.devices)
        for degrees in sorted(_choices(leveled), key=lambda each: _ideal(leveled, each)):
            tick()
            if board.value is not None and _ideal(leveled, degrees) >= board.value:
                break
            search = LevelDecisions(problem, sets, memory, tick, degrees)
            if request.options.get("objective") == FLUSH:
                _improve_flushed(request, search, _ideal(leveled, degrees))
            else:
                _improve(request, search)
    except OutOfTimeError:
        return Outcome(Stop.TIME, board.plan, board.value)
    messages = () if board.plan is not None else (NONE_FITS,)
    return Outcome(Stop.COMPLETED, board.plan, board.value, messages=messages)


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


def _improve(request: Request, search: LevelDecisions) -> None:
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
        if violations_of(search.problem, result.plan):  # memory has more digits than are counted
            return
        board.post(result.plan, result.load)


def _improve_flushed(request: Request, search: LevelDecisions, ideal: float) -> None:
    """The best plan of these degrees with a flush behind every batch, if it is better than the best so far."""
    board = request.board

    def hear(found: Found[Any], low: float) -> None:
        if not violations_of(search.problem, found.plan):
            board.post(found.plan, flushed_value(search.problem, found))

    # A flush only adds to the largest load.
    first = search.decide(math.inf if board.value is None else board.value * (1 - BETTER))
    if first is not None and search.degrees is not None:
        copies = math.prod(search.degrees[1])
        least_flushed(search.problem, search.decide, first, ideal, [copies], hear)
