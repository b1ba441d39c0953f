"""The rules by which a placement is judged: for throughput, or for the latency of one sample at a time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..base.errors import Violation
from ..base.kind import Rules, chosen
from .plan import PlacementPlan
from .problem import PlacementProblem
from .referee.evaluate import OBJECTIVES, PlacementEvaluation, evaluate
from .referee.verify import CONTIGUITIES, verify

if TYPE_CHECKING:
    from .referee.latency import LatencyEvaluation

LATENCY = "latency"


@dataclass(frozen=True, slots=True)
class ThroughputRules:
    """Plans are judged by the loads of their devices; `contiguity` says what the nodes of each device must form."""

    objective: str = "max-load"
    contiguity: str = "chain"

    plan_type = PlacementPlan

    def violations(self, problem: PlacementProblem, plan: PlacementPlan) -> tuple[Violation, ...]:
        return verify(problem, plan, contiguity=self.contiguity)

    def value(self, problem: PlacementProblem, plan: PlacementPlan) -> float:
        return evaluate(problem, plan).objective(self.objective)

    def evaluation(self, problem: PlacementProblem, plan: PlacementPlan) -> PlacementEvaluation:
        return evaluate(problem, plan)

    def to_options(self) -> dict[str, Any]:
        return {"contiguity": self.contiguity, "objective": self.objective}


@dataclass(frozen=True, slots=True)
class LatencyRules:
    """One sample at a time, in pieces, without stages."""

    subgraphs_per_device: int | None = None
    """Number of pieces that an accelerator may hold; None: any number."""

    objective = LATENCY
    plan_type = PlacementPlan

    def violations(self, problem: PlacementProblem, plan: PlacementPlan) -> tuple[Violation, ...]:
        from .referee.verify import verify_latency

        return verify_latency(problem, plan, self.subgraphs_per_device)

    def value(self, problem: PlacementProblem, plan: PlacementPlan) -> float:
        evaluation = self.evaluation(problem, plan)
        if evaluation.latency is None:
            raise ValueError(evaluation.reason)
        return evaluation.latency

    def evaluation(self, problem: PlacementProblem, plan: PlacementPlan) -> LatencyEvaluation:
        from .referee.latency import evaluate_latency

        return evaluate_latency(problem, plan)

    def to_options(self) -> dict[str, Any]:
        return {"objective": self.objective, "subgraphs_per_device": self.subgraphs_per_device}


def rules_of(problem: PlacementProblem, options: Mapping[str, Any]) -> Rules:
    """The rules that options ask for. `contiguity` comes from results, which say by which one their plan was judged."""
    if options.get("objective") == LATENCY:
        return LatencyRules(_pieces(options.get("subgraphs_per_device")))
    return ThroughputRules(chosen(options, "objective", OBJECTIVES), _contiguity(options))


def _contiguity(options: Mapping[str, Any]) -> str:
    stored = options.get("contiguity")
    if stored in CONTIGUITIES:
        return str(stored)
    if options.get("non_contiguous"):
        return "none"
    return "device" if options.get("device_contiguity") else "chain"


def _pieces(value: Any) -> int | None:
    """The limit on pieces; None where the value, perhaps of a broken result, is no number of at least 1."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 1 else None
