"""A staged plan as a schedule problem: one device stands for all that run a stage together, with its two passes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterator, Sequence
from itertools import chain

from ..base.amounts import Amount
from ..base.errors import UsageError, refuse_broken
from ..schedule.from_plan import LoweredSchedule, OwnSchedule, schedule_of
from ..schedule.lowering_options import ScheduleOptions
from ..schedule.planned_work import (
    PlannedWork,
    evenly,
    holders_of,
    joints_of,
    notes_on,
    one_of_alike,
    parts_of,
    repeated,
    spread,
)
from ..timeline.model import Pipeline
from .leveled_plan import LeveledPlan, LeveledStage
from .plan import PlannedStage, StagedPlan
from .problem import Configuration, Layer, StagingProblem
from .referee.levels import evaluate_leveled, verify_leveled
from .referee.stages import type_of, verify_stages
from .simulated import chunked_pipeline, leveled_pipeline, staged_pipeline

AnyStage = PlannedStage | LeveledStage


def lower(problem: StagingProblem, plan: StagedPlan | LeveledPlan, options: ScheduleOptions) -> LoweredSchedule:
    """The schedule problem of a plan; on devices within devices, of each stage of level 1."""
    if isinstance(plan, LeveledPlan):
        refuse_broken(verify_leveled(problem, plan), "lowered to a schedule problem")
        leaves: tuple[AnyStage, ...] = tuple(plan.leaves())
        limits = [problem.memory_bytes] * len(leaves)
        if options.chunks > 1:
            copies = [cost.copies for cost in evaluate_leveled(problem, plan).leaves]
            _check_alike([(d, leaf.tensor_parallel) for d, leaf in zip(copies, leaves, strict=True)])
            leaves = tuple(_chunks(problem, leaves, options.chunks))
            pipeline = chunked_pipeline(
                problem, plan, [chunk.nodes for chunk in leaves], spread(len(leaves), options)
            )
        else:
            pipeline = leveled_pipeline(problem, plan, 1)
        return _lowered(
            problem, leaves, pipeline, options, limits, lambda count: leveled_pipeline(problem, plan, count)
        )
    refuse_broken(verify_stages(problem, plan), "lowered to a schedule problem")
    cut = _cut(problem, plan, options.chunks)
    kinds = [type_of(problem, stage) for stage in cut.stages]
    limits = [None if kind is None else kind.memory_bytes for kind in kinds]
    pipeline = staged_pipeline(problem, cut, 1)
    return _lowered(
        problem, cut.stages, pipeline, options, limits, lambda count: staged_pipeline(problem, plan, count)
    )


def _lowered(
    problem: StagingProblem,
    stages: Sequence[AnyStage],
    pipeline: Pipeline,
    options: ScheduleOptions,
    limits: Sequence[Amount | None],
    own: OwnSchedule,
) -> LoweredSchedule:
    """The schedule problem of one pipeline; where replicas form several alike pipelines, of one of them."""
    pipeline, pipelines = one_of_alike(pipeline)
    devices = spread(len(stages), options)
    count = len(stages) // options.chunks
    names = [f"d{number}" for number in range(count)]
    work = PlannedWork(
        holders_of(pipeline, devices, names, limits[:count]),
        parts_of(pipeline, devices, _read(problem, stages)),
        joints_of(pipeline, devices),
        problem.name,
        problem.time_unit,
        notes=tuple(chain(_notes(problem, stages, options), _on_replicas(pipelines), notes_on(pipeline))),
    )
    return schedule_of(work, options, lambda count: one_of_alike(own(count))[0], pipelines)


def _on_replicas(pipelines: int) -> Iterator[str]:
    if pipelines > 1:
        yield (
            f"replicas form {pipelines} alike pipelines, which share the micro-batches; the schedule is that of one of "
            "them, and memory that of one device"
        )


def _cut(problem: StagingProblem, plan: StagedPlan, chunks: int) -> StagedPlan:
    """The plan with every stage cut into `chunks` stages of equally many layers; layers keep their configurations."""
    if chunks == 1:
        return plan
    _check_alike([(stage.data_parallel, stage.tensor_parallel, stage.device_type) for stage in plan.stages])
    return StagedPlan(tuple(_chunks(problem, plan.stages, chunks)))


def _check_alike(shapes: Sequence[Hashable]) -> None:
    if len(set(shapes)) > 1:
        raise UsageError(
            "The stages run on different devices or on different numbers of them, so that chunks cannot change places; "
            "drop --virtual and --shape, or plan with stages that are alike (--option uniform)."
        )


def _chunks(problem: StagingProblem, stages: Sequence[AnyStage], chunks: int) -> Iterator[PlannedStage]:
    """Each stage cut into `chunks` stages of equally many layers, in the order of the network."""
    rank = {problem.ids[i]: place for place, i in enumerate(problem.topological_order)}
    counted = repeated({layer.id: _cost(layer) for layer in problem.layers})
    for number, stage in enumerate(stages):
        kind = stage.device_type if isinstance(stage, PlannedStage) else None
        for nodes in evenly(sorted(stage.nodes, key=rank.__getitem__), chunks, f"Stage {number}", counted):
            names = {node_id: stage.configurations[node_id] for node_id in nodes}
            yield PlannedStage(nodes, stage.data_parallel, stage.tensor_parallel, names, kind)


def _cost(layer: Layer) -> tuple[tuple[int, str, float, float], ...]:
    """What a layer costs in each of its configurations, whoever its neighbours are."""
    return tuple(
        (degree, way.id, way.time, way.weight_bytes)
        for degree, ways in sorted(layer.configurations.items())
        for way in ways
    )


def _read(problem: StagingProblem, stages: Sequence[AnyStage]) -> list[float]:
    """Bytes that each stage reads of others."""
    stage_of = {node_id: number for number, stage in enumerate(stages) for node_id in stage.nodes}
    bytes_read: defaultdict[int, float] = defaultdict(float)
    for edge in problem.edges:
        target = stage_of[edge.target]
        if stage_of[edge.source] != target:
            bytes_read[target] += edge.bytes
    return [bytes_read[number] for number in range(len(stages))]


def _ways(problem: StagingProblem, stage: AnyStage) -> Iterator[Configuration]:
    """The configurations that the layers of a stage run in."""
    for node_id, name in stage.configurations.items():
        ways = problem.layers[problem.index[node_id]].configurations[stage.tensor_parallel]
        yield from (way for way in ways if way.id == name)


def _notes(problem: StagingProblem, stages: Sequence[AnyStage], options: ScheduleOptions) -> Iterator[str]:
    ways = (_ways(problem, stage) for stage in stages)
    if any(way.forward_time is None for chosen in ways for way in chosen):
        yield "a third of the time of a stage is taken for its forward pass: configurations have one time for both"
    if any(stage.tensor_parallel > 1 for stage in stages):
        yield "a device of the schedule is a group of tensor-parallel devices; memory is that of one of them"
    if options.recompute:
        yield "the network's own input is not counted among what is kept: nothing says how large it is"
