"""One door for the plans of every kind: simulate one iteration."""

from __future__ import annotations

import os

from .base.checks import check_whole
from .base.errors import UsageError
from .lookup import plan_for, problem_of
from .registry import Plan, Problem, kind_of
from .timeline.engine import run
from .timeline.model import Pipeline, Simulation, check_schedule

# A larger number is refused before anything of that size is made.
MAX_MICRO_BATCHES = 100_000


def simulate(
    problem: Problem | str | os.PathLike[str],
    plan: Plan,
    *,
    micro_batches: int | None = None,
    schedule: str = "planned",
) -> Simulation:
    """Run one iteration: all micro-batches through all stages of the plan, and the weights synchronised.

    Parameters
    ----------
    problem : Problem, str or PathLike
        A problem, the path of a file, or the name of a packaged instance.
    plan : Plan
        A plan of the problem's kind, as in `result.plan` or from `pipeplan.load_plan`.
    micro_batches : int, optional
        Number of micro-batches that pass through the stages. None: the plan's number (stage graphs) or the problem's
        (stagings); placements and chains have none, so that one is required for them.
    schedule : str
        The order of a stage's passes: "planned" (the plan's own kFkB, 1F1B where plans have none), "1f1b" or "gpipe".

    Returns
    -------
    Simulation
        When each stage did what, in the problem's time unit, and what the whole iteration took.

    Raises
    ------
    DeadlockError
        The stages wait for each other.
    InputError
        An argument is no problem, no plan or no number of micro-batches.
    UsageError
        The plan is one for another kind of problem, or cannot be simulated; or the schedule is unknown.
    """
    return run(pipeline_of(problem, plan, micro_batches=micro_batches, schedule=schedule))


def pipeline_of(
    problem: Problem | str | os.PathLike[str],
    plan: Plan,
    *,
    micro_batches: int | None = None,
    schedule: str = "planned",
) -> Pipeline:
    """The stages and the orders of their passes that `simulate` runs."""
    check_schedule(schedule)
    if micro_batches is not None:
        check_whole("micro_batches", micro_batches, MAX_MICRO_BATCHES)
    problem = problem_of(problem)
    kind, plan = kind_of(problem), plan_for(problem, plan)
    if kind.pipeline is None:
        raise UsageError(f"Plans of {problem.kind} problems cannot be simulated.")
    return kind.pipeline(problem, plan, micro_batches, schedule)
