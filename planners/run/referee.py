"""`pipeplan.verify` and `pipeplan.evaluate`: the referee for problems and plans of every kind."""

from __future__ import annotations

from typing import Any, overload

from ...formulations.contract import Plan, Problem
from ...instances.chain.plan import PatternPlan
from ...instances.chain.problem import ChainProblem
from ...instances.chain.referee.evaluate import PatternEvaluation
from ...instances.errors import UsageError
from ...instances.graph_pipeline.plan import StageGraphPlan
from ...instances.graph_pipeline.problem import GraphPipelineProblem
from ...instances.graph_pipeline.referee.evaluate import StageGraphEvaluation
from ...instances.kinds import kind_of, plan_kind
from ...instances.placement.plan import PlacementPlan
from ...instances.placement.problem import PlacementProblem
from ...instances.placement.referee.evaluate import PlacementEvaluation
from ...instances.staging.leveled_plan import LeveledPlan
from ...instances.staging.plan import StagedPlan
from ...instances.staging.problem import StagingProblem
from ...instances.staging.referee.levels import LeveledEvaluation
from ...instances.staging.referee.stages import StagedEvaluation
from ...instances.violation import Violation
from ..referee import rules_of


def verify(problem: Problem, plan: Plan, contiguity: str = "none") -> tuple[Violation, ...]:
    """Every broken rule; an empty tuple is a valid plan.

    `contiguity` is for placements: "none"; "device", the published notion, of each device alone; or "chain", which
    asks that the devices can be put in an order in which no edge leads back.
    """
    if contiguity != "none" and "contiguity" not in kind_of(problem).choices:
        raise UsageError(f"contiguity says nothing about a {problem.kind} problem; drop it.")
    _check_kinds(problem, plan)
    return rules_of(problem, {"contiguity": contiguity}).violations(problem, plan)


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
    return rules_of(problem, {}).evaluation(problem, plan)


def _check_kinds(problem: Problem, plan: Plan) -> None:
    if not isinstance(plan, rules_of(problem, {}).plan_type):
        fitting = plan_kind(problem)
        raise UsageError(
            f"A {plan.kind} plan does not fit a {problem.kind} problem; give a plan of the kind {fitting}."
        )
