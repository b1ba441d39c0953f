"""A staged plan (Piper) as the simulator's input: its stages in their order, replicas that take turns.

Where a configuration has one time for both passes, a third of it counts as forward, as for layers of matrix products.
Weights are synchronised once, at the end, or as far as ZeRO wants it in every pass, whose time grows by that. A sample
of the simulator is a micro-batch.

On devices within devices the stages are those of level 1, and the copies of all levels take turns: micro-batch after
micro-batch goes to the next device of the highest level, and inside it to the next one below. A tensor crosses the
links of the highest level that lies between its two stages; what tensor-parallel devices redistribute stays on level 1.
Weights are synchronised level by level, the innermost first. Links are never shared: transfers do not wait for each
other, and neither do synchronisations.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from ..base.checks import NodeId
from ..base.errors import refuse_broken
from ..schedule.from_plan import (
    LoweredSchedule,
    OwnSchedule,
    ScheduleOptions,
    check_alike,
    evenly,
    one_of_alike,
    repeated,
    schedule_of,
    spread,
    work_of,
)
from ..timeline.model import Dependency, Pipeline, Stage, replica_orders
from .plan import LeveledPlan, LeveledStage, PlannedStage, StagedPlan
from .problem import Configuration, Layer, StagingProblem
from .referee import (
    COLLECTIVE,
    COLLECTIVES,
    evaluate_leveled,
    evaluate_stages,
    full_weight,
    gathered_bytes,
    type_of,
    verify_leveled,
    verify_stages,
    ways_of,
)

# The forward pass's share of a time that is given for both passes together.
FORWARD_SHARE = 1 / 3

# How to plan with stages that are alike.
UNIFORM = " (--option uniform)"

Ways = Mapping[NodeId, Configuration]


@dataclass(frozen=True, slots=True)
class _Part:
    """A stage of the simulator."""

    path: tuple[int, ...]
    """Its number, behind those of the stages of higher levels that it is inside of."""
    stage: PlannedStage
    ways: Ways
    copies: int
    """Number of copies on all levels together."""
    in_flight: int
    """Micro-batches of one copy, as its memory was judged with."""
    collective: float
    """Time of one scatter of its gradients or gather of its weights among all copies."""
    limit_bytes: float | None
    """Memory of one of its devices."""
    speed: float = 1.0
    """Speed of its devices."""


def staged_pipeline(
    problem: StagingProblem, plan: StagedPlan, micro_batches: int | None = None, schedule: str = "planned"
) -> Pipeline:
    """The pipeline of a plan; in `planned` and `1f1b` each replica holds as many micro-batches as its memory was judged
    with."""
    costs = evaluate_stages(problem, plan).stages
    parts = []
    for number, (stage, cost) in enumerate(zip(plan.stages, costs, strict=True)):
        d, ways = stage.data_parallel, ways_of(problem, stage)
        kind = type_of(problem, stage)
        assert kind is not None, "plans with other types are refused before"
        once = _collective(d, _weights(ways), problem.bandwidth)
        parts.append(_Part((number,), stage, ways, d, cost.in_flight, once, kind.memory_bytes, kind.speed))
    return _pipeline(problem, parts, (problem.bandwidth,), micro_batches, schedule)


def leveled_pipeline(
    problem: StagingProblem, plan: LeveledPlan, micro_batches: int | None = None, schedule: str = "planned"
) -> Pipeline:
    """The pipeline of a plan on devices within devices, with micro-batches in flight as the precise variant counts
    them."""
    chunks = [leaf.nodes for leaf in plan.leaves()]
    return chunked_pipeline(problem, plan, chunks, range(len(chunks)), micro_batches, schedule)


def chunked_pipeline(
    problem: StagingProblem,
    plan: LeveledPlan,
    chunks: Sequence[tuple[NodeId, ...]],
    places: Sequence[int],
    micro_batches: int | None = 1,
    schedule: str = "planned",
) -> Pipeline:
    """Chunks of a plan's layers in their order, each on the devices of the stage of level 1 at its place.

    Where chunks are not the plan's own, all stages of level 1 have the same degrees, so that any of them can hold any.
    """
    leaves = list(_paths_down(plan.stages))
    costs = evaluate_leveled(problem, plan).leaves
    ways_of_node = {node: way for stage in plan.leaves() for node, way in stage.configurations.items()}
    parts = []
    for nodes, place in zip(chunks, places, strict=True):
        above, leaf, cost = leaves[place], leaves[place][-1][1], costs[place]
        names = {node: ways_of_node[node] for node in nodes}
        stage = PlannedStage(nodes, leaf.data_parallel, leaf.tensor_parallel, names)
        ways, path = ways_of(problem, stage), tuple(number for number, _ in above)
        time = _on_levels(problem, [around.data_parallel for _, around in above[::-1]], ways)
        parts.append(_Part(path, stage, ways, cost.copies, cost.in_flight, time, problem.memory_bytes))
    return _pipeline(problem, parts, [level.bandwidth for level in problem.levels], micro_batches, schedule)


def _paths_down(stages: tuple[LeveledStage, ...]) -> Iterator[tuple[tuple[int, LeveledStage], ...]]:
    """For each stage of level 1, all stages that it is inside of and itself, each with its number on its level."""
    for number, stage in enumerate(stages):
        here = (number, stage)
        if not stage.children:
            yield (here,)
        for below in _paths_down(stage.children):
            yield (here, *below)


def _on_levels(problem: StagingProblem, copies: list[int], ways: Ways) -> float:
    """Time of one collective: of a device's weights on level 1, then of whole layers on each level above."""
    whole = math.fsum(full_weight(problem.layers[problem.index[node_id]]) for node_id in ways)
    weights = [_weights(ways)] + [whole] * (len(copies) - 1)
    links = (level.bandwidth for level in problem.levels)
    return math.fsum(_collective(d, size, speed) for d, size, speed in zip(copies, weights, links, strict=True))


def _collective(copies: int, weights: float, bandwidth: float) -> float:
    return COLLECTIVE * (copies - 1) / copies * weights / bandwidth


def _weights(ways: Ways) -> float:
    """Bytes of the weights on one device."""
    return math.fsum(way.weight_bytes for way in ways.values())


def _pipeline(
    problem: StagingProblem,
    parts: list[_Part],
    bandwidths: Sequence[float],
    micro_batches: int | None,
    schedule: str,
) -> Pipeline:
    """The simulator's stages and dependencies; `bandwidths` are those of the levels, the innermost first."""
    count = problem.micro_batches if micro_batches is None else micro_batches
    stages = tuple(_stage(problem, part, count, count if schedule == "gpipe" else part.in_flight) for part in parts)
    return Pipeline(stages, _dependencies(problem, parts, bandwidths), count, problem.name, problem.time_unit)


def _stage(problem: StagingProblem, part: _Part, count: int, warm_up: int) -> Stage:
    ways = part.ways.values()
    forward, backward = _passes(part)
    at_the_end, in_forward, in_backward = COLLECTIVES[problem.zero]
    gathered = float(gathered_bytes(problem, part.stage.tensor_parallel, part.copies))
    return Stage(
        name="stage " + ".".join(map(str, part.path)),
        micro_batch=1,
        forward=forward + in_forward * part.collective,
        backward=backward + in_backward * part.collective,
        orders=replica_orders(count, part.copies, warm_up),
        devices=part.copies * part.stage.tensor_parallel,
        synchronisation=at_the_end * part.collective,
        fixed_bytes=math.fsum((gathered, *(float(way.memory_bytes(0, part.copies)) for way in ways))),
        sample_bytes=math.fsum(way.memory_per_batch for way in ways),
        limit_bytes=part.limit_bytes,
    )


def _passes(part: _Part) -> tuple[float, float]:
    """Times of the forward and of the backward pass, as far as the configurations tell them apart."""
    whole = math.fsum(way.time for way in part.ways.values() if way.forward_time is None) / part.speed
    told = [(way.forward_time, way.time) for way in part.ways.values() if way.forward_time is not None]
    forward = math.fsum(first for first, _ in told) / part.speed
    backward = math.fsum(both - first for first, both in told) / part.speed
    return FORWARD_SHARE * whole + forward, (1 - FORWARD_SHARE) * whole + backward


def _dependencies(
    problem: StagingProblem, parts: list[_Part], bandwidths: Sequence[float]
) -> tuple[Dependency, ...]:
    """Tensors between stages, redistribution included; and each stage follows the one before, data or not."""
    stage_of = {node_id: number for number, part in enumerate(parts) for node_id in part.stage.nodes}
    moved: defaultdict[tuple[int, int], float] = defaultdict(float)
    gathered: defaultdict[tuple[int, int], float] = defaultdict(float)
    for number in range(len(parts) - 1):
        moved[number, number + 1] += 0.0
    for edge in problem.edges:
        x, y = stage_of[edge.source], stage_of[edge.target]
        if x != y:
            moved[x, y] += edge.bytes
            gathered[x, y] += parts[x].ways[edge.source].gather_out.get(edge.target, 0.0)
            gathered[x, y] += parts[y].ways[edge.target].gather_in.get(edge.source, 0.0)
    delays = {
        (x, y): amount / bandwidths[_level_between(parts[x], parts[y])] + gathered[x, y] / bandwidths[0]
        for (x, y), amount in moved.items()
    }
    return tuple(Dependency(x, y, delay, delay) for (x, y), delay in delays.items())


def _level_between(one: _Part, other: _Part) -> int:
    """The highest level, from 0, on which the two are in different stages; 0 where they are on the same devices."""
    pairs = enumerate(zip(one.path, other.path, strict=True))
    return next((len(one.path) - 1 - i for i, (a, b) in pairs if a != b), 0)


# ---- blocks of a schedule ----------------------------------------------------------------------------
# A staged plan as a schedule problem: one device stands for all that run a stage together, with its two passes.


AnyStage = PlannedStage | LeveledStage


def lower(problem: StagingProblem, plan: StagedPlan | LeveledPlan, options: ScheduleOptions) -> LoweredSchedule:
    """The schedule problem of a plan, on devices within devices of each stage of level 1; where replicas form several
    alike pipelines, of one of them."""
    stages: tuple[AnyStage, ...]
    if isinstance(plan, LeveledPlan):
        refuse_broken(verify_leveled(problem, plan), "lowered to a schedule problem")
        own: OwnSchedule = partial(leveled_pipeline, problem, plan)
        stages = tuple(plan.leaves())
        if options.chunks > 1:
            copies = [cost.copies for cost in evaluate_leveled(problem, plan).leaves]
            check_alike(((d, leaf.tensor_parallel) for d, leaf in zip(copies, stages, strict=True)), UNIFORM)
            stages = tuple(_chunks(problem, stages, options.chunks))
            nodes = [chunk.nodes for chunk in stages]
            pipeline = chunked_pipeline(problem, plan, nodes, spread(len(stages), options))
        else:
            pipeline = own(1)
    else:
        refuse_broken(verify_stages(problem, plan), "lowered to a schedule problem")
        own = partial(staged_pipeline, problem, plan)
        stages = _cut(problem, plan, options.chunks)
        pipeline = staged_pipeline(problem, StagedPlan(stages), 1)
    pipeline, pipelines = one_of_alike(pipeline)
    notes = _notes(problem, stages, options, pipelines)
    work = work_of(pipeline, options, notes, inputs=_read(problem, stages))
    return schedule_of(work, options, lambda count: one_of_alike(own(count))[0], pipelines)


def _cut(problem: StagingProblem, plan: StagedPlan, chunks: int) -> tuple[PlannedStage, ...]:
    """Every stage cut into `chunks` stages of equally many layers, which keep their configurations."""
    if chunks == 1:
        return plan.stages
    check_alike(((stage.data_parallel, stage.tensor_parallel, stage.device_type) for stage in plan.stages), UNIFORM)
    return tuple(_chunks(problem, plan.stages, chunks))


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


def _notes(
    problem: StagingProblem, stages: Sequence[AnyStage], options: ScheduleOptions, pipelines: int
) -> Iterator[str]:
    ways = (_ways(problem, stage) for stage in stages)
    if any(way.forward_time is None for chosen in ways for way in chosen):
        yield "a third of the time of a stage is taken for its forward pass: configurations have one time for both"
    if any(stage.tensor_parallel > 1 for stage in stages):
        yield "a device of the schedule is a group of tensor-parallel devices; memory is that of one of them"
    if options.recompute:
        yield "the network's own input is not counted among what is kept: nothing says how large it is"
    if pipelines > 1:
        yield (
            f"replicas form {pipelines} alike pipelines, which share the micro-batches; the schedule is that of one of "
            "them, and memory that of one device"
        )
