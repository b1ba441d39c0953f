"""The kinds of problems and plans that there are, for what takes any of them."""

from __future__ import annotations

from .chain import ChainProblem
from .errors import InputError, show
from .fields import as_object, join, require
from .graph_pipeline import GraphPipelineProblem
from .pattern import PatternPlan
from .placement import PlacementProblem
from .plan import PlacementPlan
from .stage_graph import StageGraphPlan
from .staged_plan import StagedPlan
from .staging import StagingProblem

Problem = PlacementProblem | ChainProblem | StagingProblem | GraphPipelineProblem
Plan = PlacementPlan | PatternPlan | StagedPlan | StageGraphPlan

PLAN_KIND = {
    PlacementProblem.kind: PlacementPlan.kind,
    ChainProblem.kind: PatternPlan.kind,
    StagingProblem.kind: StagedPlan.kind,
    GraphPipelineProblem.kind: StageGraphPlan.kind,
}
"""The kind of plan that solves each kind of problem."""


def any_plan_from_json(data: object, where: str = "plan") -> Plan:
    """Read a plan object of the kind that it names; `where` is its path in the file."""
    top = as_object(where, data, '{"kind": "placement", "devices": [...]}')
    kind = require(where, top, "kind")
    if kind == PatternPlan.kind:
        return PatternPlan.from_json(top, where)
    if kind == PlacementPlan.kind:
        return PlacementPlan.from_json(top, where)
    if kind == StagedPlan.kind:
        return StagedPlan.from_json(top, where)
    if kind == StageGraphPlan.kind:
        return StageGraphPlan.from_json(top, where)
    listed = " or ".join(f'"{known}"' for known in PLAN_KIND.values())
    raise InputError(join(where, "kind"), f"is {show(kind)}", f"give {listed}")
