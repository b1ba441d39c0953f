"""The kinds of problems and plans that there are, for what takes any of them."""

from __future__ import annotations

from .chain.plan import PatternPlan
from .chain.problem import ChainProblem
from .errors import InputError, show
from .fields import as_object, join, require
from .graph_pipeline.plan import StageGraphPlan
from .graph_pipeline.problem import GraphPipelineProblem
from .placement.plan import PlacementPlan
from .placement.problem import PlacementProblem
from .staging.leveled_plan import LeveledPlan
from .staging.plan import StagedPlan
from .staging.problem import StagingProblem

Problem = PlacementProblem | ChainProblem | StagingProblem | GraphPipelineProblem
Plan = PlacementPlan | PatternPlan | StagedPlan | LeveledPlan | StageGraphPlan

PLAN_KIND = {
    PlacementProblem.kind: PlacementPlan.kind,
    ChainProblem.kind: PatternPlan.kind,
    StagingProblem.kind: StagedPlan.kind,
    GraphPipelineProblem.kind: StageGraphPlan.kind,
}
"""The kind of plan that solves each kind of problem, where it has no levels: see `plan_kind`."""

_PLAN_TYPES: tuple[type[Plan], ...] = (PlacementPlan, PatternPlan, StagedPlan, LeveledPlan, StageGraphPlan)


def plan_kind(problem: Problem) -> str:
    """The kind of plan that solves the problem: of stagings on devices within devices a tree of stages."""
    if isinstance(problem, StagingProblem) and problem.levels:
        return LeveledPlan.kind
    return PLAN_KIND[problem.kind]


def any_plan_from_json(data: object, where: str = "plan") -> Plan:
    """Read a plan object of the kind that it names; `where` is its path in the file."""
    top = as_object(where, data, '{"kind": "placement", "devices": [...]}')
    kind = require(where, top, "kind")
    for plan_type in _PLAN_TYPES:
        if kind == plan_type.kind:
            return plan_type.from_json(top, where)
    listed = " or ".join(f'"{known.kind}"' for known in _PLAN_TYPES)
    raise InputError(join(where, "kind"), f"is {show(kind)}", f"give {listed}")
