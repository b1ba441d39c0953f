"""`pipeplan.verify` and `pipeplan.evaluate`: the referee for problems and plans of every kind."""

from __future__ import annotations

from typing import Any, overload

from ..formulations.contract import Plan, Problem
from ..instances.chain import ChainProblem
from ..instances.errors import UsageError
from ..instances.graph_pipeline import GraphPipelineProblem
from ..instances.kinds import plan_kind
from ..instances.leveled_plan import LeveledPlan
from ..instances.pattern import PatternPlan
from ..instances.placement import PlacementProblem
from ..instances.plan import PlacementPlan
from ..instances.referee import Violation
from ..instances.referee.evaluate import PlacementEvaluation
from ..instances.referee.pattern import PatternEvaluation
from ..instances.referee.stage_graph import StageGraphEvaluation
from ..instances.referee.staged import StagedEvaluation
from ..instances.referee.staged_levels import LeveledEvaluation
from ..instances.stage_graph import StageGraphPlan
from ..instances.staged_plan import StagedPlan
from ..instances.staging import StagingProblem
from .referees import fits, referee_of
from .rules import Rules


def verify(problem: Problem, plan: Plan, contiguity: str = "none") -> tuple[Violation, ...]:
    """Every broken rule; an empty tuple is a valid plan.

    `contiguity` is for placements: "none"; "device", the published notion, of each device alone; or "chain", which
    asks that the devices can be put in an order in which no edge leads back.
    """
    if contiguity != "none" and not isinstance(problem, PlacementProblem):
        raise UsageError(f"contiguity says nothing about a {problem.kind} problem; drop it.")
    _check_kinds(problem, plan)
    return referee_of(problem).violations(problem, plan, Rules(contiguity=contiguity))


@overload
def evaluate(problem: PlacementProblem, plan: PlacementPlan) -> PlacementEvaluation: ...
@overload
def evaluate(problem: ChainProblem, plan: PatternPlan) -> PatternEvaluation: ...
@overload
def evaluate(problem: StagingProblem, plan: StagedPlan) -> StagedEvaluation: ...
@overload
def evaluate(problem: StagingProblem, plan: LeveledPlan) -> LeveledEvaluation: ...
@overload
def evaluate(problem: GraphPipelineProblem, plan: StageGraphPlan) -> StageGraphEvaluation: ...
def evaluate(problem: Problem, plan: Plan) -> Any:
    """Everything that follows from a plan's decisions alone; raises where it cannot be read as a plan."""
    _check_kinds(problem, plan)
    return referee_of(problem).evaluation(problem, plan, Rules())


def _check_kinds(problem: Problem, plan: Plan) -> None:
    if not fits(problem, plan):
        fitting = plan_kind(problem)
        raise UsageError(
            f"A {plan.kind} plan does not fit a {problem.kind} problem; give a plan of the kind {fitting}."
        )
