"""The rules by which a placement is judged: for throughput, or for the latency of one sample at a time."""

from __future__ import annotations

import math
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
class LimitedRules(ThroughputRules):
    """Loads and contiguity as for throughput, and one sample alone takes no longer than the limit."""

    latency_limit: float = math.inf
    """Longest time of one sample alone, in the problem's time unit."""
    subgraphs_per_device: int | None = None
    """Number of pieces in which an accelerator may run one sample; None: any number."""

    def violations(self, problem: PlacementProblem, plan: PlacementPlan) -> tuple[Violation, ...]:
        from .referee.latency_rules import verify_limited

        return verify_limited(problem, plan, self.contiguity, self.latency_limit, self.subgraphs_per_device)

    def to_options(self) -> dict[str, Any]:
        return {
            "contiguity": self.contiguity,
            "objective": self.objective,
            "latency_limit": self.latency_limit,
            "subgraphs_per_device": self.subgraphs_per_device,
        }


@dataclass(frozen=True, slots=True)
class LatencyRules:
    """One sample at a time, in pieces, without stages."""

    subgraphs_per_device: int | None = None
    """Number of pieces that an accelerator may hold; None: any number."""

    objective = LATENCY
    plan_type = PlacementPlan

    def violations(self, problem: PlacementProblem, plan: PlacementPlan) -> tuple[Violation, ...]:
        from .referee.latency_rules import verify_latency

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
    objective, contiguity = chosen(options, "objective", OBJECTIVES), _contiguity(options)
    limit = _limit(options.get("latency_limit"))
    if limit is None:
        return ThroughputRules(objective, contiguity)
    return LimitedRules(objective, contiguity, limit, _pieces(options.get("subgraphs_per_device")))


def _contiguity(options: Mapping[str, Any]) -> str:
    stored = options.get("contiguity")
    if stored in CONTIGUITIES:
        return str(stored)
    if options.get("non_contiguous"):
        return "none"
    return "device" if options.get("device_contiguity") else "chain"


def _limit(value: Any) -> float | None:
    """The latency limit as a number; None: there is none."""
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _pieces(value: Any) -> int | None:
    """The limit on pieces; None where the value, perhaps of a broken result, is no number of at least 1."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 1 else None
