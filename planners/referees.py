"""Which referee judges plans of which kind of problem: the one place that a new kind is added to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from ..formulations.contract import Plan, Problem
from ..instances.pattern import PatternPlan
from ..instances.plan import PlacementPlan
from ..instances.referee import Violation, evaluate, evaluate_pattern, verify, verify_pattern
from ..instances.referee.stage_graph import evaluate_stage_graph, verify_stage_graph
from ..instances.referee.staged import evaluate_stages, verify_stages
from ..instances.stage_graph import StageGraphPlan
from ..instances.staged_plan import StagedPlan


@dataclass(frozen=True, slots=True)
class Rules:
    """By which rules the referee judges: those that the options ask for. Chains have one set of rules."""

    objective: str = "max-load"
    """Of graph pipelines: "iteration", or else the time per sample."""
    contiguity: str = "chain"
    semantics: str = "paper"
    """Of staging problems: when weights are synchronised."""

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> Rules:
        contiguity = "device" if options.get("device_contiguity") else "chain"
        return cls(
            options.get("objective", "max-load"),
            "none" if options.get("non_contiguous") else contiguity,
            options.get("semantics", "paper"),
        )


@dataclass(frozen=True, slots=True)
class Referee:
    """What judges plans of one type: violations in words, and the value of a plan without any."""

    plan_type: type
    violations: Callable[[Any, Any, Rules], tuple[Violation, ...]]
    value: Callable[[Any, Any, Rules], float]
    facts: Callable[[Any], dict[str, Any]]
    """What a report says of a problem beside its name."""
    evaluation: Callable[[Any, Any, Rules], Any]
    """Everything that follows from a plan, with `to_json`."""


def referee_of(problem: Problem) -> Referee:
    return _REFEREES[problem.kind]


def fits(problem: Problem, plan: Plan) -> bool:
    """Is the plan of the type that problems of this kind have?"""
    return isinstance(plan, referee_of(problem).plan_type)


def _placement_violations(problem: Any, plan: Any, rules: Rules) -> tuple[Violation, ...]:
    return verify(problem, plan, contiguity=rules.contiguity)


def _placement_value(problem: Any, plan: Any, rules: Rules) -> float:
    return evaluate(problem, plan).objective(rules.objective)


def _placement_facts(problem: Any) -> dict[str, Any]:
    return {
        "nodes": len(problem.nodes),
        "edges": len(problem.edges),
        "accelerators": problem.accelerators,
        "cpus": problem.cpus,
        "memory_bytes": problem.memory_bytes,
        **_cluster_facts(problem),
    }


def _cluster_facts(problem: Any) -> dict[str, Any]:
    """Other types and levels, where there are any."""
    facts: dict[str, tuple[Any, ...]] = {"other_types": problem.other_types, "levels": problem.levels}
    return {name: [asdict(entry) for entry in entries] for name, entries in facts.items() if entries}


def _pattern_violations(problem: Any, plan: Any, rules: Rules) -> tuple[Violation, ...]:
    return verify_pattern(problem, plan)


def _pattern_value(problem: Any, plan: Any, rules: Rules) -> float:
    """The period per batch."""
    return evaluate_pattern(problem, plan).period_per_batch


def _chain_facts(problem: Any) -> dict[str, Any]:
    return {
        "layers": problem.layers,
        "gpus": problem.gpus,
        "memory_bytes": problem.memory_bytes,
        "memory_mode": problem.memory_mode,
    }


def _staged_violations(problem: Any, plan: Any, rules: Rules) -> tuple[Violation, ...]:
    return verify_stages(problem, plan, rules.semantics)


def _staged_value(problem: Any, plan: Any, rules: Rules) -> float:
    """Time per micro-batch."""
    return evaluate_stages(problem, plan, rules.semantics).time_per_micro_batch


def _staging_facts(problem: Any) -> dict[str, Any]:
    return {
        "layers": len(problem.layers),
        "edges": len(problem.edges),
        "devices": problem.devices,
        "memory_bytes": problem.memory_bytes,
        "bandwidth": problem.bandwidth,
        "micro_batches": problem.micro_batches,
    }


def _stage_graph_violations(problem: Any, plan: Any, rules: Rules) -> tuple[Violation, ...]:
    return verify_stage_graph(problem, plan)


def _stage_graph_value(problem: Any, plan: Any, rules: Rules) -> float:
    return evaluate_stage_graph(problem, plan).objective(rules.objective)


def _stage_graph_evaluation(problem: Any, plan: Any, rules: Rules) -> Any:
    return evaluate_stage_graph(problem, plan)


def _graph_pipeline_facts(problem: Any) -> dict[str, Any]:
    return {
        "operators": len(problem.operators),
        "edges": len(problem.edges),
        "devices": problem.devices,
        "memory_bytes": problem.memory_bytes,
        "mini_batch": problem.mini_batch,
    }


def _placement_evaluation(problem: Any, plan: Any, rules: Rules) -> Any:
    return evaluate(problem, plan)


def _pattern_evaluation(problem: Any, plan: Any, rules: Rules) -> Any:
    return evaluate_pattern(problem, plan)


def _staged_evaluation(problem: Any, plan: Any, rules: Rules) -> Any:
    return evaluate_stages(problem, plan, rules.semantics)


_REFEREES: Mapping[str, Referee] = {
    "placement": Referee(
        PlacementPlan, _placement_violations, _placement_value, _placement_facts, _placement_evaluation
    ),
    "chain": Referee(PatternPlan, _pattern_violations, _pattern_value, _chain_facts, _pattern_evaluation),
    "staging": Referee(StagedPlan, _staged_violations, _staged_value, _staging_facts, _staged_evaluation),
    "graph-pipeline": Referee(
        StageGraphPlan, _stage_graph_violations, _stage_graph_value, _graph_pipeline_facts, _stage_graph_evaluation
    ),
}
