"""`pipeplan.verify` and `pipeplan.evaluate`: the referee for problems and plans of every kind."""

from __future__ import annotations

import os
from typing import overload

from ...formulations.contract import Plan, Problem
from ...instances.base.errors import UsageError, Violation, unknown_name
from ...instances.chain.plan import PatternPlan
from ...instances.chain.problem import ChainProblem
from ...instances.chain.referee import PatternEvaluation
from ...instances.graph_pipeline.plan import StageGraphPlan
from ...instances.graph_pipeline.problem import GraphPipelineProblem
from ...instances.graph_pipeline.referee import StageGraphEvaluation
from ...instances.lookup import misfit, plan_of, problem_of
from ...instances.placement.plan import PlacementPlan
from ...instances.placement.problem import PlacementProblem
from ...instances.placement.referee.evaluate import PlacementEvaluation
from ...instances.registry import kind_of
from ...instances.staging.plan import LeveledPlan, StagedPlan
from ...instances.staging.problem import StagingProblem
from ...instances.staging.referee import LeveledEvaluation, StagedEvaluation
from ..referee import rules_of

# The name of a packaged instance, or the path of a file.
Instance = str | os.PathLike[str]

# The evaluations of all kinds of plans.
Evaluation = PlacementEvaluation | PatternEvaluation | StagedEvaluation | LeveledEvaluation | StageGraphEvaluation


def verify(
    problem: Problem | str | os.PathLike[str], plan: Plan, contiguity: str = "none"
) -> tuple[Violation, ...]:
    """Check a plan against every rule of its problem.

    Parameters
    ----------
    problem : Problem, str or PathLike
        A problem, the path of a file, or the name of a packaged instance.
    plan : Plan
        A plan of the problem's kind, as in `result.plan` or from `pipeplan.load_plan`.
    contiguity : str
        What the nodes of a placement's devices must form: "none", anything; "device", the published notion, looks at
        each device alone; "chain" asks that the devices can be put in an order in which no edge leads back.

    Returns
    -------
    tuple of Violation
        Every broken rule, in words; an empty tuple is a valid plan.

    Raises
    ------
    InputError
        An argument is no problem or no plan.
    UsageError
        The plan is one for another kind of problem, or contiguity says nothing about this kind or is unknown.
    """
    problem = problem_of(problem)
    notions = kind_of(problem).choices.get("contiguity")
    if contiguity != "none" and notions is None:
        raise UsageError(f"contiguity says nothing about a {problem.kind} problem; drop it.")
    if notions is not None and contiguity not in notions:
        raise unknown_name("contiguity", contiguity, notions)
    plan = _fitting(problem, plan)
    return rules_of(problem, {"contiguity": contiguity}).violations(problem, plan)


@overload
def evaluate(problem: PlacementProblem | Instance, plan: PlacementPlan) -> PlacementEvaluation: ...
@overload
def evaluate(problem: ChainProblem | Instance, plan: PatternPlan) -> PatternEvaluation: ...
@overload
def evaluate(problem: StagingProblem | Instance, plan: StagedPlan) -> StagedEvaluation: ...
@overload
def evaluate(problem: StagingProblem | Instance, plan: LeveledPlan) -> LeveledEvaluation: ...
@overload
def evaluate(problem: GraphPipelineProblem | Instance, plan: StageGraphPlan) -> StageGraphEvaluation: ...
@overload
def evaluate(problem: Problem | Instance, plan: Plan) -> Evaluation: ...
def evaluate(problem: Problem | str | os.PathLike[str], plan: Plan) -> Evaluation:
    """Compute everything that follows from a plan's decisions alone.

    Parameters
    ----------
    problem : Problem, str or PathLike
        A problem, the path of a file, or the name of a packaged instance.
    plan : Plan
        A plan of the problem's kind, as in `result.plan` or from `pipeplan.load_plan`.

    Returns
    -------
    PlacementEvaluation, PatternEvaluation, StagedEvaluation, LeveledEvaluation or StageGraphEvaluation
        By the kind of plan: its value and what it is made of; times are in the problem's time unit, memory in bytes.

    Raises
    ------
    InputError
        An argument is no problem or no plan.
    UsageError
        The plan is one for another kind of problem.
    """
    problem = problem_of(problem)
    evaluation: Evaluation = rules_of(problem, {}).evaluation(problem, _fitting(problem, plan))
    return evaluation


def _fitting(problem: Problem, given: Plan) -> Plan:
    """The plan, if it is of the one type that these problems are judged by: with levels it is another than without."""
    plan = plan_of(given)
    if not isinstance(plan, rules_of(problem, {}).plan_type):
        raise misfit(problem, plan)
    return plan
