"""One door for the plans of every kind: simulate one iteration."""

from __future__ import annotations

from .checks import check_whole
from .errors import UsageError
from .kinds import Plan, Problem, kind_of, plan_kind
from .simulation.engine import run
from .simulation.model import Pipeline
from .simulation.orders import check_schedule
from .simulation.timeline import Simulation

MAX_MICRO_BATCHES = 100_000


def simulate(
    problem: Problem, plan: Plan, *, micro_batches: int | None = None, schedule: str = "planned"
) -> Simulation:
    """One iteration: `micro_batches` through all stages of the plan, and the weights synchronised.

    A stage graph says itself how many micro-batches there are; a staging problem too, unless they are given; for
    splits and chains they have to be. `schedule`: `planned` (the plan's own kFkB; 1F1B where plans have none),
    `1f1b` or `gpipe`. Raises `DeadlockError` where the stages wait for each other.
    """
    return run(pipeline_of(problem, plan, micro_batches=micro_batches, schedule=schedule))


def pipeline_of(
    problem: Problem, plan: Plan, *, micro_batches: int | None = None, schedule: str = "planned"
) -> Pipeline:
    """What `simulate` runs."""
    check_schedule(schedule)
    if micro_batches is not None:
        check_whole("micro_batches", micro_batches, MAX_MICRO_BATCHES)
    kind, fitting = kind_of(problem), plan_kind(problem)
    if plan.kind not in kind.plans:
        raise UsageError(
            f"A {plan.kind} plan does not fit a {problem.kind} problem; give a plan of the kind {fitting}."
        )
    if kind.pipeline is None:
        raise UsageError(f"Plans of {problem.kind} problems cannot be simulated.")
    return kind.pipeline_of(problem, plan, micro_batches, schedule)
