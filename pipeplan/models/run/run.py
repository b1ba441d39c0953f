"""The public door: run a plan on this machine, and say how well it was predicted."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from typing import Any

from ...instances.base.checks import check_positive, check_whole
from ...instances.base.errors import UsageError, one_of, show, wrong_argument
from ...instances.lookup import plan_of
from ...instances.lowering import load_profile, lower
from ...instances.networks.profile.profile import Profile
from ...instances.registry import Plan
from ...show.views.placement import even_plans
from ..from_torch import function_of, import_torch, require, takes_samples
from .launch import Case, Job, address_of, launch
from .orders import LOOPBACK_BYTES_PER_S, Schedule, schedule_of
from .report import RunReport, case_report, in_context

COMPARISONS = ("even",)
# Micro-batches of an iteration where the user does not say how many.
USUAL_MICRO_BATCHES = 8
# Larger numbers are taken for mistakes.
MAX_STEPS = 10_000
MAX_RANKS = 256
# Iterations that are run first and not counted: memory is reserved and kernels are chosen in them.
WARM_UP = 2
TIME_LIMIT_S = 600.0
# The key in the source of a profile that says that its model was captured.
CAPTURED = "graph_sha256"
THE_SAME = "the plan is the even split, so there is nothing to compare"


def run(
    plan: Plan,
    profile: Profile | str | os.PathLike[str],
    build: Callable[[], Any] | str,
    *,
    micro_batches: int = USUAL_MICRO_BATCHES,
    steps: int = 10,
    check: bool = False,
    compare: str | None = None,
    bandwidth: float = LOOPBACK_BYTES_PER_S,
    measure: bool = False,
    time_limit_s: float = TIME_LIMIT_S,
) -> RunReport:
    """Run a plan with a process for each device on this machine, and hold what was measured against the prediction.

    Parameters
    ----------
    plan : Plan
        A plan of any kind that was made for a problem of the profile.
    profile : Profile, str or PathLike
        The profile of the captured model, or its file.
    build : callable or str
        The function that the profile was imported from, which stands at the top level of a file; or FILE:FUNCTION.
    micro_batches : int
        Micro-batches of one iteration.
    steps : int
        Iterations that are measured; two more go before them.
    check : bool
        Compare the loss and every gradient with one process that runs the same micro-batches.
    compare : str, optional
        "even": run the split into equally many nodes for each device as well. None: the plan alone.
    bandwidth : float
        Bytes per second between two processes, for the prediction.
    measure : bool
        Measure the profile anew first, in one go with the run: load at another moment shifts predictions.
    time_limit_s : float
        Seconds that the whole run may take.

    Returns
    -------
    RunReport
        Predicted and measured iterations, by rank and by stage.

    Raises
    ------
    InputError
        An argument is wrong, torch is missing, or the function makes another model than the profile's.
    UsageError
        The plan cannot be run, or was made for another model.
    RunError
        A rank failed, or the time was up.
    """
    if compare is not None:
        one_of("The comparison", compare, COMPARISONS)
    check_whole("steps", steps, MAX_STEPS)
    check_positive("time_limit_s", time_limit_s)
    plan = plan_of(plan)
    if isinstance(profile, (str, os.PathLike)):
        profile = load_profile(profile)
    if not isinstance(profile, Profile):
        raise wrong_argument("profile", profile, "a profile", "give what pipeplan.load_profile(path) returns")
    sha256 = profile.source.get(CAPTURED)
    if not isinstance(sha256, str):
        raise UsageError(
            f"The profile {show(profile.name)} was not captured from a PyTorch model, so there is nothing to run; "
            "make one by `plan import torch`."
        )
    schedules = _schedules(plan, profile, micro_batches, bandwidth, compare)
    require("torch")
    model = address_of(build)
    if measure:
        profile = _measured(profile, model)
        schedules = _schedules(plan, profile, micro_batches, bandwidth, compare)
    job = Job(
        model=model,
        samples=profile.micro_batch,
        graph_sha256=sha256,
        granularity=str(profile.source.get("granularity", "block")),
        loss=profile.source.get("loss"),
        training=profile.training,
        ranks=max(schedule.ranks for schedule in schedules.values()),
        micro_batches=micro_batches,
        steps=steps,
        warm_up=WARM_UP,
        check=check,
        deadline_s=time_limit_s,
        cases=tuple(Case.of(name, schedule) for name, schedule in schedules.items()),
    )
    _check_job(job)
    answers = launch(job)
    cases = {name: case_report(name, planned, answers) for name, planned in schedules.items()}
    changed, context = in_context(profile, schedules["plan"], cases["plan"])
    return RunReport(
        name=profile.name,
        plan=cases["plan"],
        even=cases.get("even"),
        micro_batches=job.micro_batches,
        torch=answers[0]["torch"],
        bandwidth=bandwidth,
        profile=changed,
        context=context,
        notes=(THE_SAME,) if compare and len(schedules) == 1 else (),
    )


def _check_job(job: Job) -> None:
    if job.ranks > MAX_RANKS:
        raise UsageError(
            f"The plan has {job.ranks} devices, and a run has at most {MAX_RANKS} processes; plan for fewer --devices."
        )
    if job.check and not job.training:
        raise UsageError("There are no gradients to check where nothing is trained; drop --check.")


def _schedules(
    plan: Plan, profile: Profile, micro_batches: int, bandwidth: float, compare: str | None
) -> dict[str, Schedule]:
    """The schedules of the plan and, where it is asked for and another, of the even split on as many devices."""
    planned = schedule_of(plan, profile, micro_batches, bandwidth)
    schedules = {"plan": planned}
    if compare == "even":
        even = schedule_of(even_split(profile, planned.ranks), profile, micro_batches, bandwidth)
        own, other = ((each.orders, [stage.nodes for stage in each.stages]) for each in (planned, even))
        if own != other:
            schedules["even"] = even
    return schedules


def even_split(profile: Profile, devices: int) -> Plan:
    """A plan with equally many nodes on each device, in their order, which needs no planner."""
    problem = lower(profile, kind="placement", devices=devices, memory_bytes=math.inf, bandwidth=math.inf).problem
    return next(even_plans(problem))


def _measured(profile: Profile, model: str) -> Profile:
    """A profile of the same model with times that are measured now."""
    return import_torch(
        model,
        measure=True,
        training=profile.training,
        granularity=str(profile.source.get("granularity", "block")),
        micro_batch=profile.micro_batch if takes_samples(function_of(model)) else None,
        loss=profile.source.get("loss"),
        allow_uncounted=True,
        name=profile.name,
    )
