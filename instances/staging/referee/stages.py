"""What a staged plan costs, from the definitions, and what is wrong with it.

Two semantics: `paper` synchronises the weights once per d micro-batches of a stage with d replicas; `reference`, the
published program, once per batch of N micro-batches, and asks that d divides N. With ZeRO from stage 2 on, part of
that or all of it happens in every pass instead.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any

from ...base.amounts import as_written, in_digits
from ...base.checks import NodeId, check_known
from ...base.errors import PipeplanError, Violation, assignment_faults, show
from ...base.fields import plain_fields
from ...base.quantities import of_limit, several
from ...physics.optimizers import GATHERED_UNITS
from ..plan import PlannedStage, StagedPlan
from ..problem import Configuration, DeviceType, StagingProblem

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
class StageCost(Share):
    """One stage: its shares, and memory of one device in bytes."""

    load: float
    """The sum of computation, transfers and synchronisation."""
    memory_bytes: float
    suffix_sum: int
    """Data-parallel degrees of this and all later stages: micro-batches that have started and not come back."""
    in_flight: int
    """Micro-batches that one replica holds at most."""
    devices: int
    binds: tuple[str, ...]
    """What holds the stage where it is: the largest part of its load, and `memory` where that is nearly full."""


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


def chosen(problem: StagingProblem, stage: PlannedStage, node_id: NodeId) -> Configuration | None:
    """The configuration of a layer in its stage; None where there is no such one."""
    layer = problem.layers[problem.index[node_id]]
    ways = layer.configurations.get(stage.tensor_parallel, ())
    return next((way for way in ways if way.id == stage.configurations.get(node_id)), None)


def ways_of(problem: StagingProblem, stage: PlannedStage) -> dict[NodeId, Configuration]:
    """The configurations of a stage's layers; layers whose configuration does not exist are left out."""
    return {node_id: way for node_id in stage.nodes if (way := chosen(problem, stage, node_id)) is not None}


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
    in_flight = -(-suffix // d)
    memory = float(held_bytes(problem, ways.values(), stage.tensor_parallel, d, in_flight))
    return StageCost(
        **asdict(share),
        load=share.total,
        memory_bytes=memory,
        suffix_sum=suffix,
        in_flight=in_flight,
        devices=d * stage.tensor_parallel,
        binds=share.binding(memory, kind.memory_bytes),
    )


# ---- rules ---------------------------------------------------------------------------------------------


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
            if node_id in problem.index and chosen(problem, stage, node_id) is None:
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
    elif problem.exact_batches and degrees < batches:
        yield Violation("batches", f"The data-parallel degrees sum to {degrees} and must sum to exactly {batches}.")


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
