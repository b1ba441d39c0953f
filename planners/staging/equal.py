"""`equi`: equal groups of layers in a row, the same degrees for all; what people do by hand.

On devices within devices every level has equal stages and equal degrees of its own (`equal_trees`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from ...instances.base.kind import Rules
from ...instances.base.result import Stop
from ...instances.base.violation import Violation
from ...instances.staging.leveled_plan import LeveledPlan, LeveledStage
from ...instances.staging.plan import PlannedStage, StagedPlan
from ...instances.staging.problem import StagingLevel, StagingProblem
from ...instances.staging.question import check_question
from ..contract import Outcome, Request
from ..referee import rules_of
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


# `equi` on devices within devices: each level has stages of equal size and equal degrees, the same everywhere.
# The layers are cut into equal groups as on a flat network. A way to divide the cluster says for every level into how
# many stages a device of the next level is cut, and how many copies each stage has; the groups are the stages of
# level 1.


@dataclass(frozen=True, slots=True)
class Share:
    """What each device of the next level does with its devices of this one."""

    stages: int
    copies: int
    """Of each stage."""

    @property
    def devices(self) -> int:
        """With one device for each copy."""
        return self.stages * self.copies


def equal_trees(problem: StagingProblem, variant: str, tensor_parallel: bool) -> Iterator[LeveledPlan]:
    """Every grouping with every way to divide the levels alike, with and without recomputation everywhere."""
    most = problem.micro_batches if variant == "precise" else math.inf
    degrees = usual_degrees(problem, tensor_parallel)
    for groups in groupings(problem):
        for shares in _divisions(problem.levels, len(groups)):
            if not problem.replication and any(share.copies > 1 for share in shares):
                continue
            if len(groups) * math.prod(share.copies for share in shares) > most:
                continue
            for t in degrees:
                if shares[0].devices * t <= problem.levels[0].devices:
                    for again in (False, True):
                        chosen = configured(problem, groups, t, again)
                        if chosen is not None:
                            leaves = [LeveledStage(tuple(ways), shares[0].copies, t, ways) for ways in chosen]
                            yield LeveledPlan(_tree(leaves, shares))


def _divisions(levels: Sequence[StagingLevel], stages: int) -> Iterator[tuple[Share, ...]]:
    """For each level, the innermost first, how it is shared, so that there are so many stages of level 1."""
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
    """From the stages of level 1 upwards: as many of them as a device divides into make a stage of the next level."""
    for inner, outer in pairwise(shares):
        parts = [tuple(stages[i : i + inner.stages]) for i in range(0, len(stages), inner.stages)]
        stages = [
            LeveledStage(tuple(node for child in part for node in child.nodes), outer.copies, children=part)
            for part in parts
        ]
    return tuple(stages)
