"""The public door: run a plan on this machine, and say how well it was predicted."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from ...instances.base.checks import check_positive, check_whole
from ...instances.base.errors import InputError, UsageError, one_of, show, wrong_argument
from ...instances.base.json_file import holds_json, read_text
from ...instances.base.quantities import several
from ...instances.lookup import plan_of
from ...instances.lowering import load_profile, lower
from ...instances.networks.profile.profile import Profile
from ...instances.registry import Plan
from ...instances.schedule.csv_file import PASSES, Action, Table, schedule_from_csv, table_from_csv, table_to_csv
from ...instances.schedule.plan import SchedulePlan
from ...instances.schedule.problem import Block, BlockEdge, ScheduleDevice, ScheduleProblem
from ...instances.stored_results import load_plan
from ...instances.timeline.model import WEIGHTS, WHOLE, Pass, Pipeline
from ...show.views.placement import even_plans
from ..from_torch import function_of, import_torch, require, takes_samples
from ..stages import ModelStage, stages_of
from .launch import Case, Job, address_of, launch
from .orders import LOOPBACK_BYTES_PER_S, Schedule, pipeline_on, schedule_of
from .report import RunReport, case_report, in_context

# ---- listed ----------------------------------------------------------------------------------------------
# The order of all passes from a file: PyTorch's CSV of a schedule, or a result that holds one.
#
# The plan says what each stage holds and on which rank it is, the file in which order the ranks work. A file with V
# times as many stages as the plan has cuts each stage of the plan into V chunks with equally many nodes.

_PASS_ID = re.compile(rf"([{PASSES}])([0-9]{{1,9}})")
# The remedy for a result that holds no schedule of the plan's stages.
EXPORT = "give the CSV that `plan export RESULT [PROBLEM] --to torch` writes"
Path = str | os.PathLike[str]


def listed_schedule(
    plan: Plan,
    profile: Profile,
    path: Path,
    micro_batches: int | None = None,
    bandwidth: float = LOOPBACK_BYTES_PER_S,
) -> Schedule:
    """The plan's schedule with the order in a file.

    An `InputError` names row and column where the file does not fit the plan, or deadlocks.
    """
    planned = stages_of(plan, profile).stages
    table = _table(path, [stage.rank for stage in planned])
    count = 1 + max((action.micro_batch for action in _actions(table)), default=-1)
    if micro_batches not in (None, count):
        raise UsageError(f"The schedule has {count} micro-batches, not {micro_batches}; drop --micro-batches.")
    if not count:
        raise InputError("content", "holds no pass", "give a schedule", str(path))
    for stage in planned:
        if stage.replicas > 1:
            raise UsageError(
                f"{stage.device.capitalize()} has {stage.replicas} replicas, and a schedule's file has one rank for "
                "each stage; plan without --data-parallel, or drop --schedule."
            )
    stages = _cut(planned, table, str(path))
    base = pipeline_on(stages, profile, count, bandwidth, [((),)] * len(stages))
    problem = _problem(stages, base.pipeline, table, count, training=profile.training)
    try:
        schedule_from_csv(table_to_csv(table), problem)
    except InputError as error:
        raise error.in_file(str(path)) from None
    shared = tuple(tuple(map(_pass, _actions([row]))) for row in table)
    own: list[list[int]] = [[] for _ in stages]
    for one in (one for order in shared for one in order if one.part != WEIGHTS):
        own[one.stage].append(one.micro_batch)
    ordered = (replace(stage, orders=(tuple(o),)) for stage, o in zip(base.pipeline.stages, own, strict=True))
    return replace(base, pipeline=replace(base.pipeline, stages=tuple(ordered), shared=shared), given=True)


def _actions(table: Sequence[Sequence[tuple[Action, ...]]]) -> Iterator[Action]:
    return (action for row in table for cell in row for action in cell)


def _pass(action: Action) -> Pass:
    number = action.micro_batch + 1
    part = action.kind if action.kind in "IW" else WHOLE
    return Pass(action.stage, number if action.kind == "F" else -number, part)


# ---- the file ------------------------------------------------------------------------------------------


def _table(path: Path, ranks: Sequence[int]) -> Table:
    """What each rank runs; `ranks` of the plan's stages, which a result does not name."""
    if not holds_json(path):
        try:
            return table_from_csv(read_text(path))
        except InputError as error:
            raise error.in_file(str(path)) from None
    plan = load_plan(path)
    if not isinstance(plan, SchedulePlan):
        raise InputError("plan", f"is of the kind {plan.kind}, not schedule", EXPORT, str(path))
    rows: list[list[tuple[object, int, int, Action]]] = [[] for _ in range(1 + max(ranks))]
    for name, starts in plan.starts.items():
        match = _PASS_ID.fullmatch(name)
        if match is None or int(match[2]) >= len(ranks):
            raise InputError(f"plan.starts.{name}", "is no pass of a stage of the plan", EXPORT, str(path))
        kind, stage = match[1], int(match[2])
        rows[ranks[stage]] += [(t, n, PASSES.index(kind), Action(stage, kind, n)) for n, t in enumerate(starts)]
    return tuple(tuple((action,) for *_, action in sorted(row)) for row in rows)


# ---- the stages ----------------------------------------------------------------------------------------


def _cut(planned: tuple[ModelStage, ...], table: Table, path: str) -> tuple[ModelStage, ...]:
    """The plan's stages, or chunks of them on the ranks that the file gives them."""
    count = 1 + max(action.stage for action in _actions(table))
    chunks, rest = divmod(count, len(planned))
    if chunks == 1 and not rest:
        return planned
    if rest or not chunks or len({stage.rank for stage in planned}) < len(planned):
        raise InputError(
            "content", f"has {count} stages and the plan {len(planned)}", "give a schedule of this plan", path
        )
    rank_of = {action.stage: rank for rank, row in enumerate(table) for action in _actions([row])}
    device_of = {stage.rank: stage.device for stage in planned}
    pieces: list[ModelStage] = []
    for stage in planned:
        length, left = divmod(len(stage.nodes), chunks)
        if left or not length:
            raise UsageError(
                f"{stage.device.capitalize()} has {several(len(stage.nodes), 'node')}, which {chunks} chunks cannot "
                "share evenly; give a schedule with fewer stages."
            )
        for number in range(chunks):
            rank = rank_of.get(len(pieces), stage.rank)
            nodes = stage.nodes[number * length : (number + 1) * length]
            pieces.append(replace(stage, nodes=nodes, rank=rank, device=device_of.get(rank, f"rank {rank}")))
    return tuple(pieces)


def _problem(
    stages: Sequence[ModelStage], pipeline: Pipeline, table: Table, micro_batches: int, *, training: bool
) -> ScheduleProblem:
    """The problem by which the reader of the file checks its order; times do not matter there."""
    divided = {action.stage for action in _actions(table) if action.kind in "IW"}
    names = {stage.rank: f"rank {stage.rank}" for stage in stages}
    blocks: list[Block] = []
    edges: list[BlockEdge] = []
    for x, stage in enumerate(stages):
        kinds = ["F", *(("I", "W") if x in divided else ("B",))] if training else ["F"]
        blocks += [Block(f"{kind}{x}", kind, (names[stage.rank],), 1, x) for kind in kinds]  # type: ignore[arg-type]
        edges += [BlockEdge(f"{one}{x}", f"{other}{x}") for one, other in pairwise(kinds)]
    back = {x: "I" if x in divided else "B" for x in range(len(stages))}
    for arc in pipeline.dependencies:
        edges.append(BlockEdge(f"F{arc.source}", f"F{arc.target}"))
        if training:
            edges.append(BlockEdge(f"{back[arc.target]}{arc.target}", f"{back[arc.source]}{arc.source}"))
    devices = tuple(ScheduleDevice(names[rank]) for rank in sorted(names))
    return ScheduleProblem(devices, tuple(blocks), tuple(edges), micro_batches)


# ---- run ------------------------------------------------------------

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
    plan: Plan,
    profile: Profile,
    micro_batches: int | None,
    bandwidth: float,
    compare: str | None,
    listed: str | os.PathLike[str] | None,
) -> dict[str, Schedule]:
    """The schedules of the plan and, where it is asked for and another, of the even split on as many devices."""
    if listed is None:
        count = USUAL_MICRO_BATCHES if micro_batches is None else micro_batches
        planned = schedule_of(plan, profile, count, bandwidth)
    else:
        planned = listed_schedule(plan, profile, listed, micro_batches, bandwidth)
    schedules = {"plan": planned}
    if compare == "even":
        even = schedule_of(even_split(profile, planned.ranks), profile, planned.pipeline.mini_batch, bandwidth)
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
