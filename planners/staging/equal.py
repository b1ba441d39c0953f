"""`equi`: equal groups of layers in a row, the same degrees for all; what people do by hand.

On devices within devices every level has equal stages and equal degrees of its own: see `equal_trees`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ...instances.base.errors import Violation
from ...instances.base.kind import Rules
from ...instances.base.result import Stop
from ...instances.staging.plan import PlannedStage, StagedPlan
from ...instances.staging.problem import StagingProblem
from ...instances.staging.question import check_question
from ..contract import Outcome, Request
from ..referee import rules_of
from .equal_trees import equal_trees
from .groupings import Groups, configured, groupings, usual_degrees

NO_STAGES = "no equal stages fit"
NO_TREES = "no equal stages fit that divide the devices of each level alike"


@dataclass(frozen=True)
class EqualPlanner:
    tensor_parallel: bool

    def plan(self, request: Request) -> Outcome:
        problem, board = request.problem, request.board
        rules, plans, if_none = self._asked(problem, request.options)
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
        messages = (_why_none(if_none, last),) if board.plan is None else ()
        return Outcome(Stop.COMPLETED, board.plan, board.value, messages=messages)

    def _asked(self, problem: StagingProblem, options: Mapping[str, Any]) -> tuple[Rules, Iterator[Any], str]:
        """How plans are judged, the plans, and what is said where none of them fits."""
        check_question(problem, options)
        if problem.levels:
            hierarchy = options.get("hierarchy", "precise")
            rules = rules_of(problem, {"hierarchy": hierarchy})
            return rules, equal_trees(problem, hierarchy, self.tensor_parallel), NO_TREES
        semantics = options.get("semantics", "paper")
        return (
            rules_of(problem, {"semantics": semantics}),
            equal_plans(problem, semantics, self.tensor_parallel),
            NO_STAGES,
        )


def _why_none(if_none: str, broken: tuple[Violation, ...]) -> str:
    """With the first rule that the smallest stages break."""
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
                        plan = _plan(problem, groups, d, t, again)
                        if plan is not None:
                            yield plan


def _plan(problem: StagingProblem, groups: Groups, d: int, t: int, again: bool) -> StagedPlan | None:
    """None where a layer cannot be run on t devices in this way."""
    chosen = configured(problem, groups, t, again)
    return None if chosen is None else StagedPlan(tuple(PlannedStage(tuple(ways), d, t, ways) for ways in chosen))
