"""What a plan costs on a cluster with devices within devices, and what is wrong.

The load of a stage above level 1 is the *largest* of what its levels take, not their sum: per micro-batch, 1/d of its
transfers and weight synchronisation over the links of its own level, or 1/d of the slowest stage inside one of its
copies. On level 1 a stage takes the sum of compute and communication, as on a flat network. Weights are synchronised
once per d micro-batches.

Three variants say how much memory counts:

- `basic`: memory and the number of micro-batches in a batch are no matter;
- `crude`: a stage of level 1 with d copies holds ceil(K / d) micro-batches, K being all devices: more than it ever
  does, as d counts only the copies on its own level;
- `precise`: it holds ceil(s / D), D being the copies on all levels and s the sum of these over the stage and all later
  ones; and s of the first stage is at most the micro-batches in a batch.

Above level 1 tensor parallelism is out of sight: copies exchange the whole weights of a layer, and tensors cross
without redistribution.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ...base.amounts import as_written
from ...base.checks import NodeId
from ...base.errors import Violation, show
from ...base.fields import plain_fields
from ...base.quantities import several
from ..leveled_plan import LeveledPlan, LeveledStage
from ..plan import PlannedStage
from ..problem import Layer, StagingProblem, check_levels
from .stages import (
    COLLECTIVE,
    COLLECTIVES,
    TRIPS,
    NotAStagingError,
    Share,
    chosen,
    held_bytes,
    share_of,
    slots_of,
    too_many_bytes,
    ways_of,
)


@dataclass(frozen=True, slots=True)
class LeafCost(Share):
    """A stage of level 1: its own load per micro-batch that reaches its group, and the memory of one device."""

    load: float
    """The sum of computation, transfers and synchronisation."""
    memory_bytes: float
    suffix_sum: int
    """Copies on all levels of this and all later stages."""
    copies: int
    """Number of copies on all levels together."""
    in_flight: int
    """Micro-batches that one copy holds, as the variant counts them."""
    binds: tuple[str, ...]
    """The largest part of the load, and `memory` where that is nearly full."""


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


def evaluate_leveled(problem: StagingProblem, plan: LeveledPlan, variant: str = "precise") -> LeveledEvaluation:
    """Every cost of the plan, from the decisions alone."""
    check_levels(problem, variant)
    fault = next(_unreadable(problem, plan), None)
    if fault is not None:
        raise NotAStagingError(fault.message)
    copies = [n for stage in plan.stages for n in _copies(stage, 1)]
    leaves = tuple(
        _leaf(problem, leaf, n, sum(copies[i:]), variant)
        for i, (leaf, n) in enumerate(zip(plan.leaves(), copies, strict=True))
    )
    remaining = iter(leaves)
    stages = tuple(_cost(problem, stage, len(problem.levels), remaining) for stage in plan.stages)
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


def _cost(problem: StagingProblem, stage: LeveledStage, level: int, leaves: Iterator[LeafCost]) -> LevelCost:
    if level == 1:
        leaf = next(leaves)
        return LevelCost(level, leaf.load, None, None, leaf.binds)
    children = tuple(_cost(problem, child, level - 1, leaves) for child in stage.children)
    inside = max(child.load for child in children) / stage.data_parallel
    links = upper_load(problem, stage.nodes, stage.data_parallel, problem.levels[level - 1].bandwidth)
    binds = ("links" if links > inside else "inside",)
    return LevelCost(level, max(links, inside), links, inside, binds, children)


def _leaf(problem: StagingProblem, leaf: LeveledStage, copies: int, suffix: int, variant: str) -> LeafCost:
    d = leaf.data_parallel
    share, ways = share_of(problem, _planned(leaf), 1.0, d, problem.levels[0].bandwidth)
    in_flight = -(-problem.devices // d) if variant == "crude" else -(-suffix // copies)
    memory = float(held_bytes(problem, ways.values(), leaf.tensor_parallel, copies, in_flight))
    return LeafCost(
        **asdict(share),
        load=share.total,
        memory_bytes=memory,
        suffix_sum=suffix,
        copies=copies,
        in_flight=in_flight,
        binds=share.binding(memory, None if variant == "basic" else problem.memory_bytes),
    )


def _planned(leaf: LeveledStage) -> PlannedStage:
    return PlannedStage(leaf.nodes, leaf.data_parallel, leaf.tensor_parallel, leaf.configurations)


# ---- rules ---------------------------------------------------------------------------------------------


def verify_leveled(problem: StagingProblem, plan: LeveledPlan, variant: str = "precise") -> tuple[Violation, ...]:
    """Everything that is wrong with the plan, in words with numbers."""
    check_levels(problem, variant)
    violations = list(_unreadable(problem, plan))
    if not violations:
        violations += [*_devices(problem, plan.stages, len(problem.levels)), *_contiguity(problem, plan)]
        violations += _replication(problem, plan.stages, len(problem.levels))
        if variant != "basic":
            violations += _memory(problem, plan, variant)
        if variant == "precise":
            violations += _batches(problem, plan)
    return tuple(violations)


def _unreadable(problem: StagingProblem, plan: LeveledPlan) -> Iterator[Violation]:
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
        if node_id in problem.index and chosen(problem, _planned(stage), node_id) is None:
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


def _devices(problem: StagingProblem, stages: Sequence[LeveledStage], level: int) -> Iterator[Violation]:
    used, there = sum(s.data_parallel * s.tensor_parallel for s in stages), problem.levels[level - 1].devices
    if used > there:
        yield Violation(
            "devices",
            f"The stages from layer {show(stages[0].nodes[0])} on use {several(used, 'device')} of level {level}, "
            f"where only {there} are joined.",
        )
    for stage in stages:
        if stage.children:
            yield from _devices(problem, stage.children, level - 1)


def _replication(problem: StagingProblem, stages: Sequence[LeveledStage], level: int) -> Iterator[Violation]:
    for stage in stages:
        if stage.data_parallel > 1 and not problem.replication:
            what = f"{_called(stage, level)} has {several(stage.data_parallel, 'replica')}"
            yield Violation("replication", f"{what}; the problem allows none.")
        yield from _replication(problem, stage.children, level - 1)


def _contiguity(problem: StagingProblem, plan: LeveledPlan) -> Iterator[Violation]:
    place = {node_id: i for i, leaf in enumerate(plan.leaves()) for node_id in leaf.nodes}
    for edge in problem.edges:
        if place[edge.source] > place[edge.target]:
            yield Violation(
                "contiguity",
                f"Layer {show(edge.target)} needs the result of layer {show(edge.source)}, whose stage comes later.",
            )


def _batches(problem: StagingProblem, plan: LeveledPlan) -> Iterator[Violation]:
    degrees, batches = evaluate_leveled(problem, plan).degrees, problem.micro_batches
    if degrees > batches or (problem.exact_batches and degrees < batches):
        most = "exactly" if problem.exact_batches else "at most"
        yield Violation("batches", f"The copies of all stages sum to {degrees} and must sum to {most} {batches}.")


def _memory(problem: StagingProblem, plan: LeveledPlan, variant: str) -> Iterator[Violation]:
    limit = problem.memory_bytes
    if limit is None:
        return
    for leaf, cost in zip(plan.leaves(), evaluate_leveled(problem, plan, variant).leaves, strict=True):
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
