"""The rules by which a stage graph is judged: time per sample in steady state, or one mini-batch from end to end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..base.errors import Violation
from ..base.kind import Rules, chosen
from ..registry import GRAPH_PIPELINE
from .plan import StageGraphPlan
from .problem import GraphPipelineProblem
from .referee import StageGraphEvaluation, evaluate_stage_graph, verify_stage_graph


@dataclass(frozen=True, slots=True)
class StageGraphRules:
    """Plans are judged by the time per sample of the slowest stage, or by the time of a simulated iteration."""

    objective: str = "time-per-sample"

    plan_type = StageGraphPlan

    def violations(self, problem: GraphPipelineProblem, plan: StageGraphPlan) -> tuple[Violation, ...]:
        return verify_stage_graph(problem, plan)

    def value(self, problem: GraphPipelineProblem, plan: StageGraphPlan) -> float:
        return evaluate_stage_graph(problem, plan).objective(self.objective)

    def evaluation(self, problem: GraphPipelineProblem, plan: StageGraphPlan) -> StageGraphEvaluation:
        return evaluate_stage_graph(problem, plan)

    def to_options(self) -> dict[str, Any]:
        return {"objective": self.objective}


def rules_of(problem: GraphPipelineProblem, options: Mapping[str, Any]) -> Rules:
    return StageGraphRules(chosen(options, "objective", GRAPH_PIPELINE.choices["objective"]))
