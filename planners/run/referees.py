"""Which referee judges plans of which kind of problem: the one place that a new kind is added to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from ...formulations.beaumont.given_allocation import canonical
from ...formulations.contract import Plan, Problem
from ...instances.chain.plan import PatternPlan
from ...instances.chain.referee.evaluate import evaluate_pattern
from ...instances.chain.referee.verify import verify_pattern
from ...instances.graph_pipeline.plan import StageGraphPlan
from ...instances.graph_pipeline.referee.evaluate import evaluate_stage_graph, verify_stage_graph
from ...instances.placement.plan import PlacementPlan
from ...instances.placement.referee.evaluate import evaluate
from ...instances.placement.referee.latency import evaluate_latency
from ...instances.placement.referee.latency_rules import verify_latency
from ...instances.placement.referee.verify import Violation, verify
from ...instances.staging.leveled_plan import LeveledPlan
from ...instances.staging.plan import StagedPlan
from ...instances.staging.problem import StagingProblem
from ...instances.staging.referee.levels import evaluate_leveled, verify_leveled
from ...instances.staging.referee.stages import evaluate_stages, verify_stages
from .rules import FLUSH as FLUSH
from .rules import LATENCY as LATENCY
from .rules import Rules as Rules


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
    return _LEVELED if isinstance(problem, StagingProblem) and problem.levels else _REFEREES[problem.kind]


def fits(problem: Problem, plan: Plan) -> bool:
    """Is the plan of the type that problems of this kind have?"""
    return isinstance(plan, referee_of(problem).plan_type)


def _placement_violations(problem: Any, plan: Any, rules: Rules) -> tuple[Violation, ...]:
    if rules.latency:
        return verify_latency(problem, plan, rules.subgraphs_per_device)
    return verify(problem, plan, contiguity=rules.contiguity)


def _placement_value(problem: Any, plan: Any, rules: Rules) -> float:
    if not rules.latency:
        return evaluate(problem, plan).objective(rules.objective)
    evaluation = evaluate_latency(problem, plan)
    if evaluation.latency is None:
        raise ValueError(evaluation.reason)
    return evaluation.latency


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
    return _listed({"other_types": problem.other_types, "levels": problem.levels})


def _listed(facts: Mapping[str, tuple[Any, ...]]) -> dict[str, Any]:
    return {name: [asdict(entry) for entry in entries] for name, entries in facts.items() if entries}


def _pattern_violations(problem: Any, plan: Any, rules: Rules) -> tuple[Violation, ...]:
    found, given = verify_pattern(problem, plan), rules.allocation
    if given is None or canonical(plan.allocation) == canonical(given):
        return found
    return (*found, Violation("allocation", f"Layers share GPUs as {plan.allocation} says, not as {given}."))


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
    """Time per micro-batch, with or without the flush behind each batch."""
    evaluation = evaluate_stages(problem, plan, rules.semantics)
    return evaluation.flushed_time_per_micro_batch if rules.objective == FLUSH else evaluation.time_per_micro_batch


def _staging_facts(problem: Any) -> dict[str, Any]:
    return {
        "layers": len(problem.layers),
        "edges": len(problem.edges),
        "devices": problem.devices,
        "memory_bytes": problem.memory_bytes,
        "bandwidth": problem.bandwidth,
        "micro_batches": problem.micro_batches,
        **_listed({"levels": problem.levels, "device_types": problem.device_types}),
    }


def _leveled_violations(problem: Any, plan: Any, rules: Rules) -> tuple[Violation, ...]:
    return verify_leveled(problem, plan, rules.hierarchy)


def _leveled_value(problem: Any, plan: Any, rules: Rules) -> float:
    """Time per micro-batch: the largest over stages and levels."""
    return evaluate_leveled(problem, plan, rules.hierarchy).time_per_micro_batch


def _leveled_evaluation(problem: Any, plan: Any, rules: Rules) -> Any:
    return evaluate_leveled(problem, plan, rules.hierarchy)


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
    return evaluate_latency(problem, plan) if rules.latency else evaluate(problem, plan)


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
_LEVELED = Referee(LeveledPlan, _leveled_violations, _leveled_value, _staging_facts, _leveled_evaluation)
"""Of staging problems on devices within devices."""
