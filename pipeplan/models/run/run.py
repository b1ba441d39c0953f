"""The public door: run a plan on this machine, and say how well it was predicted."""

from __future__ import annotations

import inspect
import math
import os
from collections.abc import Callable
from typing import Any

from ...instances.base.checks import check_positive, check_whole
from ...instances.base.errors import UsageError, show, unknown_choice, wrong_argument
from ...instances.base.quantities import several
from ...instances.lookup import plan_of
from ...instances.lowering import load_profile, lower
from ...instances.networks.profile.profile import Profile
from ...instances.registry import Plan
from ...show.answer import placements
from ..from_torch import require
from .job import Case, Job
from .launch import address_of, launch
from .listed import listed_schedule
from .orders import LOOPBACK_BYTES_PER_S, Schedule, schedule_of
from .report import RunReport, case_report, in_context

ENGINES = ("own", "torch")
DEVICES = ("cpu", "cuda")
COMPARISONS = ("even",)
# Micro-batches of an iteration where neither the user nor a schedule says how many.
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
UNTRIED = "runs on GPUs, with NCCL and CUDA events, have not been tried by us"


def run(
    plan: Plan,
    profile: Profile | str | os.PathLike[str],
    build: Callable[[], Any] | str,
    *,
    micro_batches: int | None = None,
    schedule: str | os.PathLike[str] | None = None,
    steps: int = 10,
    check: bool = False,
    compare: str | None = None,
    engine: str = "own",
    device: str = "cpu",
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
    micro_batches : int, optional
        Micro-batches of one iteration. None: as many as the schedule has, or 8.
    schedule : str or PathLike, optional
        The order of all passes: PyTorch's CSV of a schedule, or a result that holds one. None: the plan's own.
    steps : int
        Iterations that are measured; two more go before them.
    check : bool
        Compare the loss and every gradient with one process that runs the same micro-batches.
    compare : str, optional
        "even": run the split into equally many nodes for each device as well. None: the plan alone.
    engine : str
        "own", or "torch": torch's own pipelines.
    device : str
        "cpu", or "cuda": a GPU for each rank.
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
    _check(engine, device, compare, steps, time_limit_s)
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
    schedules = _schedules(plan, profile, micro_batches, bandwidth, compare, schedule)
    require("torch")
    model = address_of(build)
    if measure:
        profile = _measured(profile, model)
        schedules = _schedules(plan, profile, micro_batches, bandwidth, compare, schedule)
    job = Job(
        model=model,
        samples=profile.micro_batch,
        graph_sha256=sha256,
        granularity=str(profile.source.get("granularity", "block")),
        loss=profile.source.get("loss"),
        training=profile.training,
        ranks=max(schedule.ranks for schedule in schedules.values()),
        micro_batches=schedules["plan"].pipeline.mini_batch,
        steps=steps,
        warm_up=WARM_UP,
        check=check,
        device=device,
        deadline_s=time_limit_s,
        cases=tuple(
            Case.of(name, schedule, engine=engine, ordered=device == "cuda") for name, schedule in schedules.items()
        ),
    )
    _check_job(job)
    notes = [*([THE_SAME] if compare and len(schedules) == 1 else []), *([UNTRIED] if device == "cuda" else [])]
    return _report(job, profile, schedules, bandwidth, launch(job), tuple(notes))


def _check(engine: str, device: str, compare: str | None, steps: int, time_limit_s: float) -> None:
    """Refuse choices that do not exist and numbers out of range, before anything is started."""
    if engine not in ENGINES:
        raise unknown_choice("The engine", engine, ENGINES)
    if device not in DEVICES:
        raise unknown_choice("The device", device, DEVICES)
    if compare is not None and compare not in COMPARISONS:
        raise unknown_choice("The comparison", compare, COMPARISONS)
    check_whole("steps", steps, MAX_STEPS)
    check_positive("time_limit_s", time_limit_s)


def _check_job(job: Job) -> None:
    if job.ranks > MAX_RANKS:
        raise UsageError(
            f"The plan has {job.ranks} devices, and a run has at most {MAX_RANKS} processes; plan for fewer --devices."
        )
    if job.check and not job.training:
        raise UsageError("There are no gradients to check where nothing is trained; drop --check.")
    if any(case.engine == "torch" for case in job.cases) and not job.training:
        raise UsageError("torch's pipelines are run for training alone; give --engine own.")
    if job.device == "cuda":
        import torch

        count = torch.cuda.device_count()
        if count < job.ranks:
            raise UsageError(
                f"The plan needs {several(job.ranks, 'GPU')} and there are {count}; give --device cpu."
            )


def _schedules(
    plan: Plan,
    profile: Profile,
    micro_batches: int | None,
    bandwidth: float,
    compare: str | None,
    listed: str | os.PathLike[str] | None,
) -> dict[str, Schedule]:
    """The schedules of the plan and, where it is asked for and another, of the even split on as many devices."""
    if listed is None:
        planned = schedule_of(
            plan, profile, USUAL_MICRO_BATCHES if micro_batches is None else micro_batches, bandwidth
        )
    else:
        planned = listed_schedule(plan, profile, listed, micro_batches, bandwidth)
    schedules = {"plan": planned}
    if compare == "even":
        even = schedule_of(even_split(profile, planned.ranks), profile, planned.pipeline.mini_batch, bandwidth)
        if (even.orders, _nodes(even)) != (schedules["plan"].orders, _nodes(schedules["plan"])):
            schedules["even"] = even
    return schedules


def _nodes(schedule: Schedule) -> list[tuple[str, ...]]:
    return [stage.nodes for stage in schedule.stages]


def even_split(profile: Profile, devices: int) -> Plan:
    """A plan with equally many nodes on each device, in their order, which needs no planner."""
    problem = lower(profile, kind="placement", devices=devices, memory_bytes=math.inf, bandwidth=math.inf).problem
    return next(placements(problem))


def _measured(profile: Profile, model: str) -> Profile:
    """A profile of the same model with times that are measured now."""
    from ..from_torch import function_of, import_torch

    takes = "micro_batch" in inspect.signature(function_of(model)).parameters
    return import_torch(
        model,
        measure=True,
        training=profile.training,
        granularity=str(profile.source.get("granularity", "block")),
        micro_batch=profile.micro_batch if takes else None,
        loss=profile.source.get("loss"),
        allow_uncounted=True,
        name=profile.name,
    )


def _report(
    job: Job,
    profile: Profile,
    schedules: dict[str, Schedule],
    bandwidth: float,
    answers: list[dict[str, Any]],
    notes: tuple[str, ...],
) -> RunReport:
    cases = {name: case_report(name, schedule, answers) for name, schedule in schedules.items()}
    changed, context = in_context(profile, schedules["plan"], cases["plan"])
    return RunReport(
        name=profile.name,
        plan=cases["plan"],
        even=cases.get("even"),
        micro_batches=job.micro_batches,
        engine=job.cases[0].engine,
        device=job.device,
        torch=answers[0]["torch"],
        bandwidth=bandwidth,
        profile=changed,
        context=context,
        notes=notes,
    )
