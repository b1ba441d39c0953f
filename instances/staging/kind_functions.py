"""Functions of the kind `staging`: how its problems are read, changed, described, simulated and held in memory."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any

from ..base.checks import NodeId
from ..base.cluster import SECONDS, Cluster, per_unit, refuse_others
from ..base.errors import InputError, UsageError, refuse_broken, show, unknown_choice
from ..base.fields import (
    as_entries,
    as_object,
    each,
    facts_of,
    join,
    read_entries,
    read_pairs,
    read_problem,
    read_record,
    require,
    require_list,
    to_record,
    write_problem,
)
from ..base.quantities import several, whole_number
from ..registry import STAGING
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
from ..timeline.model import Dependency, Pipeline, Stage, check_tasks, replica_orders
from .plan import LeveledPlan, LeveledStage, PlannedStage, StagedPlan
from .problem import Configuration, DeviceType, Edge, Layer, StagingLevel, StagingProblem
from .referee import (
    COLLECTIVE,
    COLLECTIVES,
    evaluate_leveled,
    evaluate_stages,
    full_weight,
    gathered_bytes,
    held_bytes,
    type_of,
    verify_leveled,
    verify_stages,
    ways_of,
)

# ---- simulated, and scheduled ---------------------------------------------------------------------------------
# A staged plan (Piper) as the simulator's input: its stages in their order, replicas that take turns.
#
# Where a configuration has one time for both passes, a third of it counts as forward, as for layers of matrix products.
# Weights are synchronised once, at the end, or as far as ZeRO wants it in every pass, whose time grows by that. A
# sample of the simulator is a micro-batch.
#
# On devices within devices the stages are those of level 1, and the copies of all levels take turns: micro-batch after
# micro-batch goes to the next device of the highest level, and inside it to the next one below. A tensor crosses the
# links of the highest level that lies between its two stages; what tensor-parallel devices redistribute stays on
# level 1. Weights are synchronised level by level, the innermost first. Links are never shared: transfers do not wait
# for each other, and neither do synchronisations.


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


# ---- the kind ------------------------------------------------------------


# ---- files -----------------------------------------------------------------------------------------------
# Staging problems as files: our own ``pipeplan.staging/1`` and the JSON that was published with Piper.

STAGING_SCHEMA = "pipeplan.staging/1"

# Fields that are written even where they equal their defaults.
ALWAYS = (
    "name", "time_unit", "devices", "memory_bytes", "bandwidth", "micro_batches", "levels",
)  # fmt: skip


def staging_to_json(problem: StagingProblem) -> dict[str, Any]:
    """The problem as JSON data; what equals its default is left out of configurations."""
    edges = [[edge.source, edge.target, edge.bytes] for edge in problem.edges]
    layers = [_layer_to_json(layer) for layer in problem.layers]
    return write_problem(problem, STAGING_SCHEMA, ALWAYS, layers=layers, edges=edges)


def _layer_to_json(layer: Layer) -> dict[str, Any]:
    ways = {str(t): [_way_to_json(way) for way in ways] for t, ways in layer.configurations.items()}
    return to_record(layer, configurations=ways)


def _way_to_json(way: Configuration) -> dict[str, Any]:
    """Pairs for what is gathered, since keys of JSON objects could not tell the ids 1 and "1" apart."""
    return to_record(
        way, gather_in=list(map(list, way.gather_in.items())), gather_out=list(map(list, way.gather_out.items()))
    )


def staging_from_json(data: object) -> StagingProblem:
    """The problem in JSON data, or an `InputError` that names the field. `exact_batches` once was a field that every
    file had."""
    if isinstance(data, Mapping) and data.get("exact_batches") is False:
        data = {name: value for name, value in data.items() if name != "exact_batches"}
    return read_problem(
        StagingProblem,
        STAGING_SCHEMA,
        data,
        layers=each(_layer_from_json),
        edges=each(_edge_from_json),
        levels=each(partial(read_record, StagingLevel)),
        device_types=each(partial(read_record, DeviceType)),
    )


def _layer_from_json(where: str, value: object) -> Layer:
    example = '{"id": ..., "configurations": {"1": [...]}}'
    return read_record(Layer, where, value, example, configurations=partial(_by_degree, read=_way_from_json))


def _by_degree(
    where: str, value: object, read: Callable[[str, Any], Configuration]
) -> dict[int, tuple[Configuration, ...]]:
    lists = as_object(where, value)
    return {_degree(where, t): read_entries(where, lists, t, read) for t in lists}


def _degree(where: str, text: str) -> int:
    degree = whole_number(text)
    if degree is None or text != str(degree):  # without leading zeros, so that no two keys are the same degree
        raise InputError(where, f"has the key {show(text)}", "give tensor-parallel degrees as keys: whole numbers")
    return degree


def _way_from_json(where: str, value: object) -> Configuration:
    example = '{"id": ..., "time": ...}'
    return read_record(Configuration, where, value, example, gather_in=_pairs, gather_out=_pairs)


def _pairs(where: str, value: object) -> dict[NodeId, float]:
    """Bytes by neighbour; the problem checks that they are amounts of neighbours."""
    return read_pairs(where, value, "[layer, bytes]", lambda place, amount: None)


def _edge_from_json(where: str, value: object) -> Edge:
    return Edge(*as_entries(where, value, 3, "give three: [source, target, bytes]"))


# ---- the published format --------------------------------------------------------------------------------


def staging_from_published(data: object, name: str = "staging") -> StagingProblem:
    """The problem in Piper's JSON. Units are the file's own: it does not say whether times are seconds.

    `syncTimeFw` is keyed by the tail of an incoming edge, `syncTimeBw` by the head of an outgoing one.
    """
    top = as_object("", data, '{"maxDevices": ..., "nodes": [...], "edges": [...]}')
    batches = top.get("mbsInBatch", top.get("maxBatchSize"))
    if batches is None:
        raise InputError("mbsInBatch", "is missing", 'add the key "mbsInBatch": micro-batches in a batch')
    nodes = require_list("", top, "nodes")
    ids = {str(node["id"]): node["id"] for node in nodes if isinstance(node, Mapping) and "id" in node}
    facts: dict[str, Any] = {
        "layers": read_entries("", top, "nodes", partial(_published_layer, ids)),
        "edges": read_entries("", top, "edges", _published_edge),
        "devices": require("", top, "maxDevices"),
        "bandwidth": require("", top, "bandwidth"),
        "micro_batches": int(batches) if isinstance(batches, float) and batches.is_integer() else batches,
        "memory_bytes": require("", top, "maxMemoryPerDevice"),
        "name": name,
        "time_unit": None,
    }
    try:
        return StagingProblem(**facts)
    except InputError as error:
        place = re.sub("[a-z_]+", lambda word: _PUBLISHED_NAMES.get(word[0], word[0]), error.field)
        raise InputError(place, error.problem, error.remedy) from None


# Our names of fields and the published ones: a message names a field as it stands in the file.
_PUBLISHED_NAMES = {
    "layers": "nodes",
    "configurations": "TMPCs",
    "time": "timePerSample",
    "weight_bytes": "parameterSize",
    "memory_per_batch": "memoryUsageA",
    "memory_fixed": "memoryUsageB",
    "gather_in": "syncTimeFw",
    "gather_out": "syncTimeBw",
    "source": "sourceId",
    "target": "destId",
    "bytes": "communicationCost",
    "devices": "maxDevices",
    "memory_bytes": "maxMemoryPerDevice",
    "micro_batches": "mbsInBatch",
}


def _published_layer(ids: Mapping[str, NodeId], where: str, value: object) -> Layer:
    data = as_object(where, value, '{"id": ..., "TMPCs": {"1": [...]}}')
    ways = _by_degree(join(where, "TMPCs"), require(where, data, "TMPCs"), partial(_published_way, ids))
    return Layer(require(where, data, "id"), ways, data.get("name"))


def _published_way(ids: Mapping[str, NodeId], where: str, value: object) -> Configuration:
    data = as_object(where, value, '{"id": ..., "timePerSample": ...}')
    sides = [
        {ids.get(key, key): amount for key, amount in as_object(f"{where}.{side}", data.get(side, {})).items()}
        for side in ("syncTimeFw", "syncTimeBw")
    ]
    amounts = [
        require(where, data, key) for key in ("timePerSample", "parameterSize", "memoryUsageA", "memoryUsageB")
    ]
    return Configuration(require(where, data, "id"), *amounts, *sides)


def _published_edge(where: str, value: object) -> Edge:
    data = as_object(where, value, '{"sourceId": ..., "destId": ..., "communicationCost": ...}')
    return Edge(*(require(where, data, key) for key in ("sourceId", "destId", "communicationCost")))


# ---- what every problem type is asked -----------------------------------------------------------------


def read(data: Mapping[str, Any], cluster: Cluster, name: str) -> StagingProblem:
    return adjusted(staging_from_json(data), cluster)


def read_published(data: Mapping[str, Any], cluster: Cluster, name: str) -> StagingProblem:
    return adjusted(staging_from_published(data, name), cluster)


def adjusted(problem: StagingProblem, cluster: Cluster) -> StagingProblem:
    """The problem on the caller's cluster; rates per second become rates per time unit of the problem."""
    refuse_others(STAGING, cluster)
    if cluster.time_unit is not None:
        problem = _in_unit(problem, cluster.time_unit)
    changes: dict[str, Any] = {}
    if cluster.memory_bytes is not None:
        changes["memory_bytes"] = None if cluster.memory_bytes == math.inf else cluster.memory_bytes
    counts = {"devices": cluster.devices, "micro_batches": cluster.batch}
    changes |= {field: value for field, value in counts.items() if value is not None}
    if cluster.levels is not None:
        changes |= _levels(problem, cluster)
    elif cluster.bandwidth is not None and problem.levels:
        raise UsageError("--bandwidth is for flat networks and this problem has levels; give --levels.")
    if cluster.bandwidth is not None:
        changes["bandwidth"] = _per_unit(problem, cluster.bandwidth, "--bandwidth")
    return problem.replace(**changes) if changes else problem


def _levels(problem: StagingProblem, cluster: Cluster) -> dict[str, Any]:
    assert cluster.levels is not None
    if cluster.bandwidth is not None and cluster.levels:
        raise UsageError(
            "--bandwidth is for flat networks and --levels have bandwidths of their own; drop one of them."
        )
    levels = tuple(StagingLevel(count, _per_unit(problem, rate, "--levels")) for count, rate in cluster.levels)
    devices = math.prod(level.devices for level in levels)
    if levels and cluster.devices not in (None, devices):
        raise InputError(
            "levels", f"make {several(devices, 'device')}, not {cluster.devices}", _fitting_levels(cluster)
        )
    return {"levels": levels, **({"devices": devices} if levels and cluster.devices is None else {})}


def _in_unit(problem: StagingProblem, unit: str) -> StagingProblem:
    """The problem in a unit of time that its file does not name; the bandwidth of such a file is per second."""
    if problem.time_unit is not None and problem.time_unit != unit:
        raise UsageError(
            f"--option time-unit is for files that name no unit of time, and this problem is in {problem.time_unit}; "
            "drop --option time-unit."
        )
    if unit not in SECONDS:
        raise unknown_choice("--option time-unit", unit, SECONDS)
    if problem.time_unit is not None:
        return problem
    return problem.replace(time_unit=unit, bandwidth=per_unit(problem.bandwidth, unit))


def _fitting_levels(cluster: Cluster) -> str:
    """The remedy, with the number of devices on the outermost level that would fit where it is a whole one."""
    assert cluster.levels is not None
    assert cluster.devices is not None
    *inner, (_, rate) = cluster.levels
    outermost, rest = divmod(cluster.devices, math.prod(count for count, _ in inner))
    remedy = "let the numbers of all levels multiply to --devices"
    if rest or not outermost:
        return remedy
    return f"{remedy}: --levels {replace(cluster, levels=[*inner, (outermost, rate)]).to_json()['levels']}"


def _per_unit(problem: StagingProblem, rate: float, option: str) -> float:
    """A rate in bytes per time unit of the problem; where that is not named, the rate is taken to be in it already."""
    if problem.time_unit is None:
        return rate
    if problem.time_unit not in SECONDS:
        raise UsageError(
            f"{option} is in bytes per second, but the problem's times are in {show(problem.time_unit)}; write the "
            "bandwidth into the file."
        )
    return per_unit(rate, problem.time_unit)


def facts(problem: StagingProblem) -> dict[str, Any]:
    told = ("devices", "memory_bytes", "bandwidth", "micro_batches")
    return facts_of(problem, ("layers", "edges"), told, ("levels", "device_types"))


def size(problem: StagingProblem) -> str:
    return f"{several(len(problem.layers), 'layer')}, {several(len(problem.edges), 'edge')}"


def pipeline(
    problem: StagingProblem, plan: StagedPlan | LeveledPlan, micro_batches: int | None, schedule: str
) -> Pipeline:
    """The pipeline of a plan, with as many micro-batches as the problem says, unless a number is given."""
    count = problem.micro_batches if micro_batches is None else micro_batches
    if isinstance(plan, LeveledPlan):
        refuse_broken(verify_leveled(problem, plan))
        check_tasks([count] * len(list(plan.leaves())))
        return leveled_pipeline(problem, plan, micro_batches, schedule)
    refuse_broken(verify_stages(problem, plan))
    check_tasks([count] * len(plan.stages))
    return staged_pipeline(problem, plan, micro_batches, schedule)


# ---- memory of each device ----------------------------------------------------------------------------


def with_memory(problem: StagingProblem, memory_bytes: float | None) -> StagingProblem:
    """The problem with so much memory on devices of every type."""
    if not problem.device_types:
        return problem.replace(memory_bytes=memory_bytes)
    return problem.replace(
        device_types=tuple(replace(kind, memory_bytes=memory_bytes) for kind in problem.device_types)
    )


def held(problem: StagingProblem, plan: StagedPlan | LeveledPlan, options: Mapping[str, Any]) -> Fraction:
    """What a device of the fullest stage holds, in bytes."""
    if isinstance(plan, StagedPlan):
        costs = evaluate_stages(problem, plan).stages
        counts = [(stage.data_parallel, cost.in_flight) for stage, cost in zip(plan.stages, costs, strict=True)]
        return _largest(problem, plan.stages, counts)
    leaves = evaluate_leveled(problem, plan).leaves
    stages = [PlannedStage(x.nodes, x.data_parallel, x.tensor_parallel, x.configurations) for x in plan.leaves()]
    return _largest(problem, stages, [(leaf.copies, leaf.in_flight) for leaf in leaves])


def _largest(
    problem: StagingProblem, stages: Sequence[PlannedStage], counts: Sequence[tuple[int, int]]
) -> Fraction:
    """The most bytes of a device; `counts`: copies of each stage, and micro-batches that each copy holds."""
    return max(
        held_bytes(problem, ways_of(problem, stage).values(), stage.tensor_parallel, copies, count)
        for stage, (copies, count) in zip(stages, counts, strict=True)
    )
