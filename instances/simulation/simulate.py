"""One door for the plans of every kind: simulate one iteration."""

from __future__ import annotations

from collections.abc import Iterable

from ..chain.plan import PatternPlan
from ..chain.problem import ChainProblem
from ..chain.referee.layout import shape_faults
from ..chain.simulated import chain_pipeline
from ..checks import check_whole
from ..errors import InputError, UsageError
from ..graph_pipeline.plan import StageGraphPlan
from ..graph_pipeline.problem import GraphPipelineProblem
from ..graph_pipeline.referee.evaluate import verify_stage_graph
from ..graph_pipeline.simulated import stage_graph_pipeline
from ..kinds import Plan, Problem, plan_kind
from ..placement.plan import PlacementPlan
from ..placement.problem import PlacementProblem
from ..placement.referee.verify import Violation
from ..placement.simulated import placement_pipeline
from ..staging.plan import StagedPlan
from ..staging.problem import StagingProblem
from ..staging.referee.stages import verify_stages
from ..staging.simulated import staged_pipeline
from .engine import run
from .model import Pipeline
from .orders import check_schedule
from .timeline import Simulation

MAX_MICRO_BATCHES = 100_000
MAX_TASKS = 2_000_000
"""Passes whose start and end are told one by one."""

HARMLESS = frozenset({"memory", "devices", "batches", "divides", "in-flight", "deadlock"})
"""Rules that a plan may break and still be run: the simulation shows what comes of it."""


def simulate(
    problem: Problem, plan: Plan, *, micro_batches: int | None = None, schedule: str = "planned"
) -> Simulation:
    """One iteration: `micro_batches` through all stages of the plan, and the weights synchronised.

    A stage graph says itself how many micro-batches there are; a staging problem too, unless they are given; for
    splits and chains they have to be. `schedule`: `planned` (the plan's own kFkB; 1F1B where plans have none),
    `1f1b` or `gpipe`. Raises `DeadlockError` where the stages wait for each other.
    """
    return run(pipeline_of(problem, plan, micro_batches=micro_batches, schedule=schedule))


def _check_tasks(micro_batches: Iterable[int]) -> None:
    """Before the orders of all stages are made: `micro_batches` of each stage."""
    count = 2 * sum(micro_batches)
    if count > MAX_TASKS:
        raise UsageError(f"An iteration of this plan has {count} passes; at most {MAX_TASKS} can be told one by one.")


def pipeline_of(
    problem: Problem, plan: Plan, *, micro_batches: int | None = None, schedule: str = "planned"
) -> Pipeline:
    """What `simulate` runs."""
    check_schedule(schedule)
    if micro_batches is not None:
        check_whole("micro_batches", micro_batches, MAX_MICRO_BATCHES)
    if isinstance(problem, GraphPipelineProblem) and isinstance(plan, StageGraphPlan):
        if micro_batches is not None:
            raise UsageError("A stage graph says itself how many micro-batches there are; drop micro_batches.")
        _check_tasks(problem.mini_batch // max(1, stage.micro_batch) for stage in plan.stages)
        _refuse(verify_stage_graph(problem, plan))
        return stage_graph_pipeline(problem, plan, schedule)
    if isinstance(problem, StagingProblem) and isinstance(plan, StagedPlan):
        _refuse(verify_stages(problem, plan))
        _check_tasks([problem.micro_batches if micro_batches is None else micro_batches] * len(plan.stages))
        return staged_pipeline(problem, plan, micro_batches, schedule)
    if isinstance(problem, PlacementProblem) and isinstance(plan, PlacementPlan):
        _check_tasks([_given(micro_batches)] * len(plan.devices))
        return placement_pipeline(problem, plan, _given(micro_batches), schedule)
    if isinstance(problem, ChainProblem) and isinstance(plan, PatternPlan):
        _refuse(tuple(Violation("shape", fault) for fault in shape_faults(problem, plan)))
        _check_tasks([_given(micro_batches)] * problem.gpus)
        return chain_pipeline(problem, plan, _given(micro_batches), schedule)
    fitting = plan_kind(problem)
    if plan.kind == fitting:
        raise UsageError("Stages on devices within devices cannot be simulated; simulate a plan of the flat problem.")
    raise UsageError(f"A {plan.kind} plan does not fit a {problem.kind} problem; give a plan of the kind {fitting}.")


def _refuse(violations: tuple[Violation, ...]) -> None:
    blocking = next((violation for violation in violations if violation.rule not in HARMLESS), None)
    if blocking is not None:
        raise UsageError(f"The plan cannot be simulated. {blocking.message}")


def _given(count: int | None) -> int:
    if count is None:
        raise InputError("micro_batches", "is missing: this kind of problem does not say it", "give how many to run")
    return count
