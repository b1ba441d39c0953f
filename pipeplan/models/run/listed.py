"""The order of all passes from a file: PyTorch's CSV of a schedule, or a result that holds one.

The plan says what each stage holds and on which rank it is, the file in which order the ranks work. A file with V times
as many stages as the plan has cuts each stage of the plan into V chunks with equally many nodes.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from ...instances.base.errors import InputError, UsageError
from ...instances.base.json_file import holds_json, read_text
from ...instances.base.quantities import several
from ...instances.networks.profile.profile import Profile
from ...instances.registry import Plan
from ...instances.schedule.csv_file import (
    PASSES,
    Action,
    Table,
    schedule_from_csv,
    table_from_csv,
    table_to_csv,
)
from ...instances.schedule.plan import SchedulePlan
from ...instances.schedule.problem import Block, BlockEdge, ScheduleDevice, ScheduleProblem
from ...instances.stored_results import load_plan
from ...instances.timeline.model import WEIGHTS, WHOLE, Pass, Pipeline
from ..stages import ModelStage, stages_of
from .orders import LOOPBACK_BYTES_PER_S, Schedule, pipeline_on

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
    _check_replicas(planned)
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


def _check_replicas(planned: Sequence[ModelStage]) -> None:
    for stage in planned:
        if stage.replicas > 1:
            raise UsageError(
                f"{stage.device.capitalize()} has {stage.replicas} replicas, and a schedule's file has one rank for "
                "each stage; plan without --data-parallel, or drop --schedule."
            )


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
