"""By which rules stages are judged: on a flat network, or on devices within devices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..base.errors import Violation
from ..base.kind import Rules, chosen
from ..registry import STAGING
from .leveled_plan import LeveledPlan
from .plan import StagedPlan
from .problem import FLUSH, StagingProblem
from .referee.levels import LeveledEvaluation, evaluate_leveled, verify_leveled
from .referee.stages import StagedEvaluation, evaluate_stages, verify_stages


@dataclass(frozen=True, slots=True)
class StageRules:
    """Time per micro-batch, with or without the flush behind each batch."""

    objective: str = "throughput"
    semantics: str = "paper"
    """When weights are synchronised."""

    plan_type = StagedPlan

    def violations(self, problem: StagingProblem, plan: StagedPlan) -> tuple[Violation, ...]:
        return verify_stages(problem, plan, self.semantics)

    def value(self, problem: StagingProblem, plan: StagedPlan) -> float:
        evaluation = evaluate_stages(problem, plan, self.semantics)
        flushed = self.objective == FLUSH
        return evaluation.flushed_time_per_micro_batch if flushed else evaluation.time_per_micro_batch

    def evaluation(self, problem: StagingProblem, plan: StagedPlan) -> StagedEvaluation:
        return evaluate_stages(problem, plan, self.semantics)

    def to_options(self) -> dict[str, Any]:
        return {"semantics": self.semantics, **({"objective": FLUSH} if self.objective == FLUSH else {})}


@dataclass(frozen=True, slots=True)
class LevelRules:
    """Time per micro-batch: the largest over stages and levels, with or without the flush behind each batch."""

    hierarchy: str = "precise"
    """The variant by which the memory of nested levels is counted, such as `precise`."""
    objective: str = "throughput"

    plan_type = LeveledPlan

    def violations(self, problem: StagingProblem, plan: LeveledPlan) -> tuple[Violation, ...]:
        return verify_leveled(problem, plan, self.hierarchy)

    def value(self, problem: StagingProblem, plan: LeveledPlan) -> float:
        evaluation = evaluate_leveled(problem, plan, self.hierarchy)
        flushed = self.objective == FLUSH
        return evaluation.flushed_time_per_micro_batch if flushed else evaluation.time_per_micro_batch

    def evaluation(self, problem: StagingProblem, plan: LeveledPlan) -> LeveledEvaluation:
        return evaluate_leveled(problem, plan, self.hierarchy)

    def to_options(self) -> dict[str, Any]:
        return {"hierarchy": self.hierarchy, **({"objective": FLUSH} if self.objective == FLUSH else {})}


def rules_of(problem: StagingProblem, options: Mapping[str, Any]) -> Rules:
    """The rules in these options; problems with levels have rules of their own."""
    if problem.levels:
        return LevelRules(*(chosen(options, name, STAGING.choices[name]) for name in ("hierarchy", "objective")))
    return StageRules(*(chosen(options, name, STAGING.choices[name]) for name in ("objective", "semantics")))
