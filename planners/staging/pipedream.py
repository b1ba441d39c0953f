"""PipeDream's partitioner for stagings: cuts of a path and replication, all memory ignored.

The graph is contracted between its articulation points to a path; the path is cut, and each piece gets a number of
replicas, so that the largest load is least: Piper's program over the few downsets that are ends of the path, without
tensor parallelism and without a memory. The referee may reject what comes out, and a message says so.
"""

from __future__ import annotations

from itertools import accumulate
from typing import Any

from ...instances.base.errors import InputError
from ...instances.base.result import Stop
from ...instances.registry import violations_of
from ...instances.staging.problem import StagingProblem
from ..contract import Outcome, Request
from ..placement.heuristics.pipedream import contract_to_path
from ..search import OutOfTimeError, tick_of
from .model import PiperModel, from_downsets
from .search import Search, TooManySumsError


class PipeDreamPlanner:
    def plan(self, request: Request) -> Outcome:
        problem, semantics = request.problem, request.options.get("semantics", "paper")
        if problem.levels:
            raise InputError(
                "levels", "are not planned by piper-pipedream", "choose another planner, or remove them"
            )

        tick = tick_of(request)
        try:
            tick()
            search = Search(path_model(problem, semantics), tick=tick)
            answer = search.best()
        except OutOfTimeError:
            return Outcome(Stop.TIME)
        except TooManySumsError:
            return Outcome(Stop.MEMORY, messages=("too many sums of degrees for exactly N micro-batches",))
        if answer is None:
            return Outcome(Stop.COMPLETED, messages=("no cut of the path gives every layer a configuration",))
        value, steps = answer
        plan = search.plan(steps)
        broken = any(violation.rule == "memory" for violation in violations_of(problem, plan, semantics=semantics))
        messages = ("the plan exceeds the memory, which PipeDream's partitioner ignores",) if broken else ()
        return Outcome(Stop.COMPLETED, plan, value, messages=messages)


PLANNER = PipeDreamPlanner()


def path_model(problem: StagingProblem, semantics: str) -> PiperModel:
    """The model whose downsets are the ends of the path, with one device for each replica and no memory limit."""
    ends = [frozenset(i for block in rest for i in block) for rest in _rests(path_of(problem))]
    boundless = problem.replace(memory_bytes=None)
    return from_downsets(boundless, ends, semantics, allowed=lambda degree, way: degree == 1)


def path_of(problem: StagingProblem) -> list[list[int]]:
    """Blocks of layers (by position), one after the other."""
    work = tuple(
        min((way.time for way in layer.configurations.get(1, ())), default=0.0) for layer in problem.layers
    )
    return [block for block in contract_to_path(problem.arcs, work, work) if block]


def _rests(blocks: list[list[int]]) -> list[list[list[int]]]:
    """What is left behind each cut: nothing first, everything last."""
    empty: list[list[int]] = []
    pieces: Any = accumulate(([block] for block in reversed(blocks)), initial=empty)
    return list(pieces)
