"""What a staged plan costs, from the definitions, and what is wrong with it.

Two semantics: `paper` synchronises the weights once per d micro-batches of a stage with d replicas; `reference`, the
published program, once per batch of N micro-batches, and asks that d divides N. With ZeRO from stage 2 on, part of
that or all of it happens in every pass instead. Plans on devices within devices have a part of their own below.

To change what a stage costs on a flat network, change `tests/oracles/staging.py` as well, which shares nothing with
this file; on levels, the sums by hand in `tests/instances/staging/test_referee.py`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any

from ..base.amounts import as_written, in_digits
from ..base.checks import NodeId, check_known
from ..base.errors import PipeplanError, Violation, assignment_faults, show
from ..base.fields import plain_fields
from ..base.kind import Rules, chosen
from ..base.quantities import of_limit, several
from ..physics.optimizers import GATHERED_UNITS
from ..registry import STAGING
from .plan import LeveledPlan, LeveledStage, PlannedStage, StagedPlan
from .problem import FLUSH, Configuration, DeviceType, Layer, StagingProblem, check_levels

# ---- memory ------------------------------------------------------------------------------------------
#
# What a device of a stage holds, exactly, and the words for too much of it.


def held_bytes(
    problem: StagingProblem, ways: Iterable[Configuration], tensor_parallel: int, copies: int, in_flight: int
) -> Fraction:
    """What a device of a stage in so many copies holds, exactly."""
    held = sum((way.memory_bytes(in_flight, copies) for way in ways), Fraction(0))
    return held + gathered_bytes(problem, tensor_parallel, copies)


def gathered_bytes(problem: StagingProblem, tensor_parallel: int, copies: int) -> Fraction:
    """Room for weights that the copies divide and gather to run a layer: as much as the model's largest layer needs."""
    if problem.zero < 3 or copies == 1:
        return Fraction(0)
    ways = [way for layer in problem.layers for way in layer.configurations.get(tensor_parallel, ())]
    return GATHERED_UNITS * max((as_written(way.weight_bytes) for way in ways), default=Fraction(0))


def too_many_bytes(where: str, held: Fraction, in_flight: int, limit: float) -> Violation:
    """A violation that names the bytes in all digits: a byte too much is too much."""
    more = held - as_written(limit)
    return Violation(
        "memory",
        f"A device of {where} holds {in_digits(held)} bytes with {several(in_flight, 'micro-batch')} in flight, "
        f"{in_digits(more)} more than its memory of {in_digits(limit)} bytes{of_limit(float(held), limit)}.",
    )


# ---- stages ------------------------------------------------------------------------------------------

SEMANTICS = ("paper", "reference")
# A tensor crosses an edge forward, its gradient backward.
TRIPS = 2.0

# One scatter of gradients or gather of weights among copies: in and out.
COLLECTIVE = 2.0
# Collectives by ZeRO stage: once for all micro-batches that share an update, in each forward and each backward
# pass.
COLLECTIVES = {0: (2, 0, 0), 1: (2, 0, 0), 2: (1, 0, 1), 3: (0, 1, 2)}

# Memory binds where more than this share of it is taken.
FULL = 0.95


class NotAStagingError(PipeplanError, ValueError):
    """The plan does not put every layer into one stage with a configuration that exists, so it has no cost."""


@dataclass(frozen=True, slots=True)
class Share:
    """Parts of a stage's load per micro-batch, where d copies take turns, in the problem's time unit."""

    compute: float
    transfers: float
    """Activations and gradients between stages, with the redistribution among tensor-parallel devices."""
    synchronisation: float

    @property
    def total(self) -> float:
        return math.fsum((self.compute, self.transfers, self.synchronisation))

    def binding(self, memory: float, limit: float | None) -> tuple[str, ...]:
        """The largest part, and `memory` where it is nearly full."""
        parts = {"computation": self.compute, "transfers": self.transfers, "synchronisation": self.synchronisation}
        largest = max(parts, key=lambda name: parts[name])
        return (largest, "memory") if limit is not None and memory > FULL * limit else (largest,)


@dataclass(frozen=True, slots=True)
class CopyCost(Share):
    """One of the copies of a stage: its shares, and memory of one device in bytes."""

    load: float
    """The sum of computation, transfers and synchronisation."""
    memory_bytes: float
    suffix_sum: int
    """Copies of this and all later stages: micro-batches that have started and not come back."""
    in_flight: int
    """Micro-batches that one copy holds at most."""
    binds: tuple[str, ...]
    """What holds the stage where it is: the largest part of its load, and `memory` where that is nearly full."""


@dataclass(frozen=True, slots=True)
class StageCost(CopyCost):
    """One stage, and its devices with those of all replicas."""

    devices: int


@dataclass(frozen=True, slots=True)
class StagedEvaluation:
    """`time_per_micro_batch` is the largest load: what a pipeline in steady state takes for one more micro-batch."""

    stages: tuple[StageCost, ...]
    time_per_micro_batch: float
    bottleneck: int
    """Position of the first stage with the largest load."""
    devices: int
    degrees: int
    """Sum of the data-parallel degrees."""
    slots: int
    """Slots of the bottleneck that a batch of N micro-batches takes with a flush behind it (`slots_of`)."""
    flushed_time_per_micro_batch: float
    """The largest load, times slots, divided by N: filling and draining the pipeline is part of it."""

    def to_json(self) -> dict[str, Any]:
        return plain_fields(self)


def evaluate_stages(problem: StagingProblem, plan: StagedPlan, semantics: str = "paper") -> StagedEvaluation:
    """Every cost of the plan, from the decisions alone."""
    check_known("semantics", semantics, SEMANTICS)
    fault = next(_unreadable(problem, plan), None)
    if fault is not None:
        raise NotAStagingError(fault.message)
    suffix = _suffix_sums(plan)
    stages = tuple(_cost(problem, stage, s, semantics) for stage, s in zip(plan.stages, suffix, strict=True))
    bottleneck = max(range(len(stages)), key=lambda i: stages[i].load)
    largest, batches = stages[bottleneck].load, problem.micro_batches
    slots = slots_of(batches, [stage.data_parallel for stage in plan.stages])
    return StagedEvaluation(
        stages,
        largest,
        bottleneck,
        sum(stage.devices for stage in stages),
        suffix[0],
        slots,
        largest * slots / batches,
    )


def slots_of(batches: int, copies: Sequence[int]) -> int:
    """Slots, each as long as the largest load, that a batch takes until the pipeline of these stages is empty again.

    A micro-batch takes as many slots in a stage as the stage has copies, and only one stage is busy with the whole
    batch: at best the one with the fewest copies.
    """
    return batches + sum(copies) - min(copies)


def _suffix_sums(plan: StagedPlan) -> list[int]:
    degrees = [stage.data_parallel for stage in plan.stages]
    return [sum(degrees[i:]) for i in range(len(degrees))]


def type_of(problem: StagingProblem, stage: PlannedStage) -> DeviceType | None:
    """The type of devices that a stage is on; None where the problem has no such type."""
    if not problem.device_types:
        return problem.types[0] if stage.device_type is None else None
    return next((kind for kind in problem.device_types if kind.name == stage.device_type), None)


def configuration_of(problem: StagingProblem, stage: PlannedStage, node_id: NodeId) -> Configuration | None:
    """The configuration of a layer in its stage; None where there is no such one."""
    layer = problem.layers[problem.index[node_id]]
    ways = layer.configurations.get(stage.tensor_parallel, ())
    return next((way for way in ways if way.id == stage.configurations.get(node_id)), None)


def ways_of(problem: StagingProblem, stage: PlannedStage) -> dict[NodeId, Configuration]:
    """The configurations of a stage's layers; layers whose configuration does not exist are left out."""
    return {
        node_id: way for node_id in stage.nodes if (way := configuration_of(problem, stage, node_id)) is not None
    }


def exchanged_bytes(zero: int, copies: int, weight_bytes: float, samples: int) -> float:
    """Bytes in and out of a device per micro-batch of a stage whose copies take turns and update once for `samples`."""
    update, forward, backward = COLLECTIVES[zero]
    each = COLLECTIVE * (copies - 1) / copies * weight_bytes
    return update * each / samples + (forward + backward) * each / copies


def share_of(
    problem: StagingProblem, stage: PlannedStage, speed: float, samples: int, bandwidth: float
) -> tuple[Share, dict[NodeId, Configuration]]:
    """What a stage takes whose weights are synchronised once for `samples` micro-batches, and its configurations."""
    d = stage.data_parallel
    ways = ways_of(problem, stage)
    moved = []
    for edge in problem.edges:
        if edge.target in ways and edge.source not in ways:
            moved.append(edge.bytes + ways[edge.target].gather_in.get(edge.source, 0.0))
        elif edge.source in ways and edge.target not in ways:
            moved.append(edge.bytes + ways[edge.source].gather_out.get(edge.target, 0.0))
    weights = math.fsum(way.weight_bytes for way in ways.values())
    share = Share(
        compute=math.fsum(way.time for way in ways.values()) / speed / d,
        transfers=TRIPS * math.fsum(moved) / d / bandwidth,
        synchronisation=exchanged_bytes(problem.zero, d, weights, samples) / bandwidth,
    )
    return share, ways


def _cost(problem: StagingProblem, stage: PlannedStage, suffix: int, semantics: str) -> StageCost:
    d = stage.data_parallel
    kind = type_of(problem, stage)
    assert kind is not None, "plans with other types are refused before"
    samples = d if semantics == "paper" else problem.micro_batches
    share, ways = share_of(problem, stage, kind.speed, samples, problem.bandwidth)
    of_copy = _of_copy(problem, share, ways, stage.tensor_parallel, d, suffix, kind.memory_bytes)
    return StageCost(**of_copy, devices=d * stage.tensor_parallel)


def _of_copy(
    problem: StagingProblem,
    share: Share,
    ways: Mapping[NodeId, Configuration],
    degree: int,
    copies: int,
    suffix: int,
    limit: float | None,
) -> dict[str, Any]:
    """The fields of `CopyCost`, where this and all later stages have `suffix` copies and a device has the limit."""
    in_flight = -(-suffix // copies)
    memory = float(held_bytes(problem, ways.values(), degree, copies, in_flight))
    held = {"memory_bytes": memory, "suffix_sum": suffix, "in_flight": in_flight}
    return {**asdict(share), "load": share.total, **held, "binds": share.binding(memory, limit)}


# ---- broken rules --------------------------------------------------------------------------------------


def verify_stages(problem: StagingProblem, plan: StagedPlan, semantics: str = "paper") -> tuple[Violation, ...]:
    """Everything that is wrong with the plan, in words with numbers."""
    check_known("semantics", semantics, SEMANTICS)
    violations = [*_unreadable(problem, plan), *_devices(problem, plan), *_batches(problem, plan)]
    violations += [*_replication(problem, plan), *_contiguity(problem, plan)]
    if semantics == "reference":
        violations += _divides(problem, plan)
    if not any(violation.rule in ("assignment", "configuration") for violation in violations):
        violations += _memory(problem, plan)
    return tuple(violations)


def _unreadable(problem: StagingProblem, plan: StagedPlan) -> Iterator[Violation]:
    """What makes costs impossible to say: layers that are missing, repeated or unknown, ways that do not exist."""
    yield from assignment_faults([stage.nodes for stage in plan.stages], problem.index, "layer")
    for number, stage in enumerate(plan.stages):
        if stage.data_parallel < 1 or stage.tensor_parallel < 1:
            yield Violation("configuration", f"Stage {number} has a degree below 1.")
        if type_of(problem, stage) is None:
            named = f"is on devices of type {show(stage.device_type)}, which the problem does not have"
            text = "does not say on which type of devices it is" if stage.device_type is None else named
            yield Violation("configuration", f"Stage {number} {text}.")
        for node_id in stage.nodes:
            if node_id in problem.index and configuration_of(problem, stage, node_id) is None:
                way = stage.configurations.get(node_id)
                yield Violation(
                    "configuration",
                    f"Layer {show(node_id)} in stage {number} has no configuration {show(way)} of degree "
                    f"{stage.tensor_parallel}.",
                )


def _devices(problem: StagingProblem, plan: StagedPlan) -> Iterator[Violation]:
    used = sum(stage.data_parallel * stage.tensor_parallel for stage in plan.stages)
    if used > problem.devices:
        yield Violation("devices", f"The plan uses {several(used, 'device')}, the problem has {problem.devices}.")
    for kind in problem.device_types:
        used = sum(s.data_parallel * s.tensor_parallel for s in plan.stages if s.device_type == kind.name)
        if used > kind.devices:
            yield Violation(
                "devices",
                f"The plan uses {several(used, 'device')} of type {show(kind.name)}, the problem has {kind.devices}.",
            )


def _batches(problem: StagingProblem, plan: StagedPlan) -> Iterator[Violation]:
    degrees, batches = sum(stage.data_parallel for stage in plan.stages), problem.micro_batches
    if degrees > batches:
        yield Violation(
            "batches", f"The data-parallel degrees sum to {degrees}, a batch has {several(batches, 'micro-batch')}."
        )


def _replication(problem: StagingProblem, plan: StagedPlan) -> Iterator[Violation]:
    for number, stage in enumerate(plan.stages):
        if stage.data_parallel > 1 and not problem.replication:
            yield Violation(
                "replication",
                f"Stage {number} has {several(stage.data_parallel, 'replica')}; the problem allows none.",
            )


def _divides(problem: StagingProblem, plan: StagedPlan) -> Iterator[Violation]:
    for number, stage in enumerate(plan.stages):
        if stage.data_parallel >= 1 and problem.micro_batches % stage.data_parallel:
            yield Violation(
                "divides",
                f"The degree {stage.data_parallel} of stage {number} does not divide the {problem.micro_batches} "
                "micro-batches.",
            )


def _contiguity(problem: StagingProblem, plan: StagedPlan) -> Iterator[Violation]:
    stage_of = {node_id: number for number, stage in enumerate(plan.stages) for node_id in stage.nodes}
    for edge in problem.edges:
        u, v = stage_of.get(edge.source), stage_of.get(edge.target)
        if u is not None and v is not None and u > v:
            yield Violation(
                "contiguity",
                f"Stage {v} needs the result of stage {u}, which comes later (edge {show(edge.source)} -> "
                f"{show(edge.target)}).",
            )


def _memory(problem: StagingProblem, plan: StagedPlan) -> Iterator[Violation]:
    for number, (stage, suffix) in enumerate(zip(plan.stages, _suffix_sums(plan), strict=True)):
        kind = type_of(problem, stage)
        limit = None if kind is None else kind.memory_bytes
        if limit is not None:
            in_flight = -(-suffix // stage.data_parallel)
            ways, t, d = ways_of(problem, stage).values(), stage.tensor_parallel, stage.data_parallel
            bytes_held = held_bytes(problem, ways, t, d, in_flight)
            if bytes_held > as_written(limit):
                yield too_many_bytes(f"stage {number}", bytes_held, in_flight, limit)


# ---- devices within devices ---------------------------------------------------------------------------
#
# What a plan costs on a cluster with devices within devices, and what is wrong.
#
# The load of a stage above level 1 is the *largest* of what its levels take, not their sum: per micro-batch, 1/d of its
# transfers and weight synchronisation over the links of its own level, or 1/d of the slowest stage inside one of its
# copies. On level 1 a stage takes the sum of compute and communication, as on a flat network. Weights are synchronised
# once per d micro-batches.
#
# A stage of level 1 holds ceil(s / D) micro-batches, D being its copies on all levels and s their sum over the stage
# and all later ones; s of the first stage is at most the micro-batches in a batch.
#
# Above level 1 tensor parallelism is out of sight: copies exchange the whole weights of a layer, and tensors cross
# without redistribution.


@dataclass(frozen=True, slots=True)
class LeafCost(CopyCost):
    """A stage of level 1: its own load per micro-batch that reaches its group, and copies on all levels."""

    copies: int


@dataclass(frozen=True, slots=True)
class LevelCost:
    """A stage of any level: its load is the larger of the two parts, not their sum."""

    level: int
    load: float
    links: float | None
    """Transfers and synchronisation over the links of its own level; None on level 1, where they are in the load."""
    inside: float | None
    """The largest load inside a copy, divided by the copies; None on level 1."""
    binds: tuple[str, ...]
    """`links`, or `inside`, or what binds on level 1."""
    children: tuple[LevelCost, ...] = ()


@dataclass(frozen=True, slots=True)
class LeveledEvaluation:
    """`time_per_micro_batch` is the largest load over stages and levels."""

    time_per_micro_batch: float
    stages: tuple[LevelCost, ...]
    """Costs of the stages of the highest level."""
    leaves: tuple[LeafCost, ...]
    degrees: int
    """Copies on all levels, summed over the stages of level 1."""
    slots: int
    """Slots that a batch of N micro-batches takes with a flush behind it (`slots_of`)."""
    flushed_time_per_micro_batch: float
    """The largest load, times slots, divided by N: filling and draining the pipeline is part of it."""

    @property
    def loads(self) -> tuple[float, ...]:
        """Loads of the stages of the highest level."""
        return tuple(stage.load for stage in self.stages)

    def to_json(self) -> dict[str, Any]:
        return plain_fields(self)


def full_weight(layer: Layer) -> float:
    """Bytes of a layer's weights: on the smallest degree that it offers, over all devices of that degree."""
    t = min(t for t, ways in layer.configurations.items() if ways)
    return t * max(way.weight_bytes for way in layer.configurations[t])


def upper_load(problem: StagingProblem, nodes: Sequence[NodeId], copies: int, bandwidth: float) -> float:
    """What the links of a level above the first take for a stage on `copies` of its devices, per micro-batch."""
    inside = set(nodes)
    crossing = math.fsum(e.bytes for e in problem.edges if (e.source in inside) != (e.target in inside))
    weights = math.fsum(full_weight(problem.layers[problem.index[node_id]]) for node_id in nodes)
    exchanged = sum(COLLECTIVES[problem.zero]) * COLLECTIVE * weights * (copies - 1) / copies
    return (exchanged + TRIPS * crossing) / copies / bandwidth


def evaluate_leveled(problem: StagingProblem, plan: LeveledPlan) -> LeveledEvaluation:
    """Every cost of the plan, from the decisions alone."""
    check_levels(problem)
    fault = next(_unreadable_levels(problem, plan), None)
    if fault is not None:
        raise NotAStagingError(fault.message)
    copies = [n for stage in plan.stages for n in _copies(stage, 1)]
    leaves = tuple(
        _leaf(problem, leaf, n, sum(copies[i:]))
        for i, (leaf, n) in enumerate(zip(plan.leaves(), copies, strict=True))
    )
    remaining = iter(leaves)
    stages = tuple(_level_cost(problem, stage, len(problem.levels), remaining) for stage in plan.stages)
    largest, slots = max(stage.load for stage in stages), slots_of(problem.micro_batches, copies)
    flushed = largest * slots / problem.micro_batches
    return LeveledEvaluation(largest, stages, leaves, sum(copies), slots, flushed)


def _copies(stage: LeveledStage, above: int) -> Iterator[int]:
    """Numbers of copies of the stages of level 1 inside this stage, over all levels."""
    here = above * stage.data_parallel
    if not stage.children:
        yield here
    for child in stage.children:
        yield from _copies(child, here)


def _level_cost(problem: StagingProblem, stage: LeveledStage, level: int, leaves: Iterator[LeafCost]) -> LevelCost:
    if level == 1:
        leaf = next(leaves)
        return LevelCost(level, leaf.load, None, None, leaf.binds)
    children = tuple(_level_cost(problem, child, level - 1, leaves) for child in stage.children)
    inside = max(child.load for child in children) / stage.data_parallel
    links = upper_load(problem, stage.nodes, stage.data_parallel, problem.levels[level - 1].bandwidth)
    binds = ("links" if links > inside else "inside",)
    return LevelCost(level, max(links, inside), links, inside, binds, children)


def _leaf(problem: StagingProblem, leaf: LeveledStage, copies: int, suffix: int) -> LeafCost:
    d = leaf.data_parallel
    share, ways = share_of(problem, _planned(leaf), 1.0, d, problem.levels[0].bandwidth)
    of_copy = _of_copy(problem, share, ways, leaf.tensor_parallel, copies, suffix, problem.memory_bytes)
    return LeafCost(**of_copy, copies=copies)


def _planned(leaf: LeveledStage) -> PlannedStage:
    return PlannedStage(leaf.nodes, leaf.data_parallel, leaf.tensor_parallel, leaf.configurations)


# ---- broken rules on levels ----------------------------------------------------------------------------


def verify_leveled(problem: StagingProblem, plan: LeveledPlan) -> tuple[Violation, ...]:
    """Everything that is wrong with the plan, in words with numbers."""
    check_levels(problem)
    violations = list(_unreadable_levels(problem, plan))
    if not violations:
        violations += [
            *_level_devices(problem, plan.stages, len(problem.levels)),
            *_level_contiguity(problem, plan),
        ]
        violations += _level_replication(problem, plan.stages, len(problem.levels))
        violations += _level_memory(problem, plan)
        violations += _level_batches(problem, plan)
    return tuple(violations)


def _unreadable_levels(problem: StagingProblem, plan: LeveledPlan) -> Iterator[Violation]:
    """What makes it impossible to say what the plan costs."""
    wanted = {layer.id for layer in problem.layers}
    yield from _divided(f"The plan on level {len(problem.levels)}", wanted, plan.stages)
    for stage in plan.stages:
        yield from _readable(problem, stage, len(problem.levels))


def _readable(problem: StagingProblem, stage: LeveledStage, level: int) -> Iterator[Violation]:
    if stage.data_parallel < 1 or stage.tensor_parallel < 1:
        yield Violation("configuration", f"{_called(stage, level)} has a degree below 1.")
    if level > 1:
        if not stage.children or stage.configurations or stage.tensor_parallel != 1:
            yield Violation(
                "levels", f"{_called(stage, level)} must be divided further: configurations are chosen on level 1."
            )
        else:
            yield from _divided(_called(stage, level), set(stage.nodes), stage.children)
            for child in stage.children:
                yield from _readable(problem, child, level - 1)
        return
    if stage.children:
        yield Violation("levels", f"{_called(stage, level)} is divided further, but there is no level below.")
        return
    for node_id in stage.nodes:
        if node_id in problem.index and configuration_of(problem, _planned(stage), node_id) is None:
            yield Violation(
                "configuration",
                f"Layer {show(node_id)} has no configuration {show(stage.configurations.get(node_id))} of degree "
                f"{stage.tensor_parallel}.",
            )


def _called(stage: LeveledStage, level: int) -> str:
    first = show(stage.nodes[0]) if stage.nodes else "nothing"
    return f"The stage of level {level} that begins with {first}"


def _divided(where: str, wanted: set[NodeId], stages: Sequence[LeveledStage]) -> Iterator[Violation]:
    """Violations where the stages do not hold each wanted layer once, and nothing else."""
    seen: set[NodeId] = set()
    for stage in stages:
        if not stage.nodes:
            yield Violation("assignment", f"{where} has an empty stage.")
        for node_id in stage.nodes:
            if node_id not in wanted:
                yield Violation("assignment", f"{where} has no layer {show(node_id)} to divide.")
            elif node_id in seen:
                yield Violation("assignment", f"{where} puts layer {show(node_id)} in two places.")
            seen.add(node_id)
    missing = sorted(map(show, wanted - seen))
    if missing:
        yield Violation("assignment", f"{where} leaves out layer {', '.join(missing[:5])}.")


def _level_devices(problem: StagingProblem, stages: Sequence[LeveledStage], level: int) -> Iterator[Violation]:
    used, there = sum(s.data_parallel * s.tensor_parallel for s in stages), problem.levels[level - 1].devices
    if used > there:
        yield Violation(
            "devices",
            f"The stages from layer {show(stages[0].nodes[0])} on use {several(used, 'device')} of level {level}, "
            f"where only {there} are joined.",
        )
    for stage in stages:
        if stage.children:
            yield from _level_devices(problem, stage.children, level - 1)


def _level_replication(problem: StagingProblem, stages: Sequence[LeveledStage], level: int) -> Iterator[Violation]:
    for stage in stages:
        if stage.data_parallel > 1 and not problem.replication:
            what = f"{_called(stage, level)} has {several(stage.data_parallel, 'replica')}"
            yield Violation("replication", f"{what}; the problem allows none.")
        yield from _level_replication(problem, stage.children, level - 1)


def _level_contiguity(problem: StagingProblem, plan: LeveledPlan) -> Iterator[Violation]:
    place = {node_id: i for i, leaf in enumerate(plan.leaves()) for node_id in leaf.nodes}
    for edge in problem.edges:
        if place[edge.source] > place[edge.target]:
            yield Violation(
                "contiguity",
                f"Layer {show(edge.target)} needs the result of layer {show(edge.source)}, whose stage comes later.",
            )


def _level_batches(problem: StagingProblem, plan: LeveledPlan) -> Iterator[Violation]:
    degrees, batches = evaluate_leveled(problem, plan).degrees, problem.micro_batches
    if degrees > batches:
        yield Violation("batches", f"The copies of all stages sum to {degrees} and must sum to at most {batches}.")


def _level_memory(problem: StagingProblem, plan: LeveledPlan) -> Iterator[Violation]:
    limit = problem.memory_bytes
    if limit is None:
        return
    for leaf, cost in zip(plan.leaves(), evaluate_leveled(problem, plan).leaves, strict=True):
        ways = ways_of(problem, _planned(leaf)).values()
        bytes_held = held_bytes(problem, ways, leaf.tensor_parallel, cost.copies, cost.in_flight)
        if bytes_held > as_written(limit):
            yield too_many_bytes(
                f"the stage that begins with layer {show(leaf.nodes[0])}", bytes_held, cost.in_flight, limit
            )


# A plan on devices within devices as rows, one per stage of each level: what tables and pictures of it show.


@dataclass(frozen=True, slots=True)
class LeveledRow:
    """A stage of some level with what it costs."""

    path: tuple[int, ...]
    """Its number on its own level, behind those of the stages that it is inside of."""
    stage: LeveledStage
    cost: LevelCost
    leaf: LeafCost | None
    """The cost of a stage of level 1; None higher up."""
    share: float
    """The share of all micro-batches that reaches one copy of the stage around it."""

    @property
    def name(self) -> str:
        """The path as a name: 0.1 is stage 1 inside of stage 0."""
        return ".".join(map(str, self.path))

    @property
    def load(self) -> float:
        """The load per micro-batch of the whole plan, so that rows of all levels can be compared."""
        return self.cost.load * self.share


def leveled_rows(plan: LeveledPlan, evaluation: LeveledEvaluation) -> Iterator[LeveledRow]:
    """The rows of a plan, depth first: a stage, then the stages inside of it."""
    return _rows(plan.stages, evaluation.stages, iter(evaluation.leaves), (), 1.0)


def _rows(
    stages: tuple[LeveledStage, ...],
    costs: tuple[LevelCost, ...],
    leaves: Iterator[LeafCost],
    above: tuple[int, ...],
    share: float,
) -> Iterator[LeveledRow]:
    for number, (stage, cost) in enumerate(zip(stages, costs, strict=True)):
        path = (*above, number)
        yield LeveledRow(path, stage, cost, next(leaves) if cost.level == 1 else None, share)
        yield from _rows(stage.children, cost.children, leaves, path, share / stage.data_parallel)


# ---- how plans are judged -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class StageRules:
    """Time per micro-batch, with or without the flush behind each batch, on a flat network or on levels."""

    objective: str
    semantics: str | None
    """When weights are synchronised; None: the problem has levels, and there is one way."""

    @property
    def plan_type(self) -> type[StagedPlan] | type[LeveledPlan]:
        return LeveledPlan if self.semantics is None else StagedPlan

    def violations(self, problem: StagingProblem, plan: Any) -> tuple[Violation, ...]:
        if self.semantics is None:
            return verify_leveled(problem, plan)
        return verify_stages(problem, plan, self.semantics)

    def value(self, problem: StagingProblem, plan: Any) -> float:
        evaluation = self.evaluation(problem, plan)
        flushed = self.objective == FLUSH
        return evaluation.flushed_time_per_micro_batch if flushed else evaluation.time_per_micro_batch

    def evaluation(self, problem: StagingProblem, plan: Any) -> StagedEvaluation | LeveledEvaluation:
        if self.semantics is None:
            return evaluate_leveled(problem, plan)
        return evaluate_stages(problem, plan, self.semantics)

    def to_options(self) -> dict[str, Any]:
        options = {"semantics": self.semantics, "objective": self.objective if self.objective == FLUSH else None}
        return {name: value for name, value in options.items() if value is not None}


def rules_of(problem: StagingProblem, options: Mapping[str, Any]) -> Rules:
    """The rules in these options; the published program's semantics have no levels."""
    objective = chosen(options, "objective", STAGING.choices["objective"])
    semantics = None if problem.levels else chosen(options, "semantics", STAGING.choices["semantics"])
    return StageRules(objective, semantics)
