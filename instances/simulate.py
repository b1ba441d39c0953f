"""One door for the plans of every kind: simulate one iteration, or ask when their stages should run what."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from .base.checks import check_whole
from .base.errors import UsageError
from .lookup import plan_for, problem_of
from .registry import Plan, Problem, kind_of
from .timeline.engine import run
from .timeline.model import Pipeline, Simulation, check_schedule

if TYPE_CHECKING:
    from .schedule.from_plan import LoweredSchedule


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


# ---- from stages to the schedule problem of what they run when ----------------------------------------


def lower_to_schedule(
    problem: Problem | str | os.PathLike[str],
    plan: Plan,
    *,
    micro_batches: int | None = None,
    split_backward: float | Sequence[float] | None = None,
    weight_stash: float | None = None,
    virtual: int | None = None,
    shape: str | None = None,
    recompute: bool = False,
) -> LoweredSchedule:
    """The schedule problem of a plan's stages: when should each device run its forward and backward passes?

    There is one forward and one backward block for each stage, on the stage's device (for each convex piece, where a
    device holds several). Times, transfers and memory are those of the problem's own cost model.

    Parameters
    ----------
    problem : Problem, str or PathLike
        A problem, the path of a file, or the name of a packaged instance.
    plan : Plan
        A plan of the problem's kind, as in `result.plan` or from `pipeplan.load_plan`.
    micro_batches : int, optional
        Number of micro-batches that pass through the stages. None: the steady state alone.
    split_backward : float or sequence of float, optional
        The share of each backward pass that is for its inputs, for all stages or for each; the rest is for the
        weights and may wait. None: one block for both.
    weight_stash : float, optional
        The share of its activations that a stage keeps until its backward pass for the weights ends. None: a half.
    virtual : int, optional
        Number of chunks on each device, with as many layers each where that is possible: chunk k is on device k modulo
        the number of devices. None: one, or two for the shape v.
    shape : str, optional
        "v": the chunks go down the devices and back up. None: always down.
    recompute : bool
        Forward passes keep only what they read, and backward passes run them again.

    Returns
    -------
    LoweredSchedule
        The problem, and sentences on what of the plan it does not hold.

    Raises
    ------
    InputError
        An argument is no problem, no plan, no share or no number.
    UsageError
        The plan is one for another kind of problem, or cannot be lowered with these options; the message says why.
    """
    from .schedule.from_plan import ScheduleOptions  # simulations do without

    shares = (
        split_backward
        if split_backward is None or isinstance(split_backward, (int, float))
        else tuple(split_backward)
    )
    options = ScheduleOptions(micro_batches, shares, weight_stash, virtual, shape, recompute)
    problem = problem_of(problem)
    kind, plan = kind_of(problem), plan_for(problem, plan)
    check_has_stages(problem, plan)
    assert kind.to_schedule is not None, "checked before"
    return kind.to_schedule(problem, plan, options)


def check_has_stages(problem: Problem, plan: Plan) -> None:
    """Raise a `UsageError` where plans of this kind are not made of stages that run passes."""
    if kind_of(problem).to_schedule is None:
        raise UsageError(f"A {plan.kind} plan of a {problem.kind} problem has no stages to schedule.")
