"""Memory on each device of a staging problem: another limit, and what a plan holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

from .leveled_plan import LeveledPlan
from .plan import PlannedStage, StagedPlan
from .problem import StagingProblem
from .referee.levels import evaluate_leveled
from .referee.memory import held_bytes
from .referee.stages import evaluate_stages, ways_of
from .rules import rules_of

# The variant of the hierarchy that does not count memory.
BASIC = "basic"


def with_memory(problem: StagingProblem, memory_bytes: float | None) -> StagingProblem:
    """The problem with so much memory on devices of every type."""
    if not problem.device_types:
        return problem.replace(memory_bytes=memory_bytes)
    return problem.replace(
        device_types=tuple(replace(kind, memory_bytes=memory_bytes) for kind in problem.device_types)
    )


def held(problem: StagingProblem, plan: StagedPlan | LeveledPlan, options: Mapping[str, Any]) -> Fraction:
    """What a device of the fullest stage holds, in bytes."""
    if isinstance(plan, StagedPlan):
        costs = evaluate_stages(problem, plan).stages
        counts = [(stage.data_parallel, cost.in_flight) for stage, cost in zip(plan.stages, costs, strict=True)]
        return _largest(problem, plan.stages, counts)
    hierarchy = str(rules_of(problem, options).to_options()["hierarchy"])
    if hierarchy == BASIC:
        return Fraction(0)
    leaves = evaluate_leveled(problem, plan, hierarchy).leaves
    stages = [PlannedStage(x.nodes, x.data_parallel, x.tensor_parallel, x.configurations) for x in plan.leaves()]
    return _largest(problem, stages, [(leaf.copies, leaf.in_flight) for leaf in leaves])


def _largest(
    problem: StagingProblem, stages: Sequence[PlannedStage], counts: Sequence[tuple[int, int]]
) -> Fraction:
    """The most bytes of a device; `counts`: copies of each stage, and micro-batches that each copy holds."""
    return max(
        held_bytes(problem, ways_of(problem, stage).values(), stage.tensor_parallel, copies, count)
        for stage, (copies, count) in zip(stages, counts, strict=True)
    )
