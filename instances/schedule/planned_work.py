"""The form that plans of all kinds take before they become schedule problems: parts with passes, on devices."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise
from typing import TypeVar

from ..base.amounts import Amount, as_written
from ..base.errors import UsageError
from ..base.quantities import several, singular
from ..timeline.model import Pipeline
from .lowering_options import ScheduleOptions


@dataclass(frozen=True, slots=True)
class Holder:
    """A device, or all devices that run one stage together; bytes are those of one of them."""

    name: str
    memory: Amount | None = None
    standing: Amount = 0


@dataclass(frozen=True, slots=True)
class Part:
    """A convex piece of what a device holds: its passes over one micro-batch. None: it has no such pass."""

    device: int
    forward: Amount | None
    backward: Amount | None
    stash: Amount = 0
    """Bytes that one forward pass keeps until its backward pass."""
    inputs: Amount = 0
    """Bytes that a pass keeps where activations are computed again: what it reads."""
    passes: int = 1
    """Number of passes in a row, each over an equal share of the micro-batch."""
    forward_workspace: Amount = 0
    backward_workspace: Amount = 0


@dataclass(frozen=True, slots=True)
class Joint:
    """Part `source` runs forward before `target`, and backward after it; a delay of None: not in that direction."""

    source: int
    target: int
    forward: Amount | None = 0
    """Time from the end of a forward pass to where its result can be read."""
    backward: Amount | None = 0


@dataclass(frozen=True)
class PlannedWork:
    """The parts of a plan on its devices, in the order of the network."""

    devices: tuple[Holder, ...]
    parts: tuple[Part, ...]
    joints: tuple[Joint, ...]
    name: str
    time_unit: str | None
    turns: tuple[tuple[int, int], ...] | None = None
    """Parts (a, b) such that b may go backward when a has gone forward; None: each part itself."""
    notes: tuple[str, ...] = ()


# ---- what several kinds need ----------------------------------------------------------------------------


def spread(stages: int, options: ScheduleOptions) -> list[int]:
    """The device of each stage of a plan that was cut into chunks."""
    devices = stages // options.chunks
    return [options.device_of(number, devices) for number in range(stages)]


T = TypeVar("T")


def repeated(costs: Mapping[T, Hashable]) -> frozenset[T]:
    """The layers that a network repeats: those with the cost that more than half of all have; all, where none has."""
    cost, count = Counter(costs.values()).most_common(1)[0]
    alike = 2 * count > len(costs)
    return frozenset(member for member in costs if costs[member] == cost or not alike)


def evenly(
    members: Sequence[T], chunks: int, stage: str, counted: Collection[T], what: str = "layers"
) -> Iterator[tuple[T, ...]]:
    """Divide members into runs with equally many of those that are counted, the first runs with one more where they do
    not divide; a `UsageError` says why that is impossible.

    An embedding or a head stays with the layers beside it, as in Megatron's interleaving: it goes with the run before,
    and at the beginning with the first one.
    """
    places = [place for place, member in enumerate(members) if member in counted]
    if len(places) < chunks:
        places = list(range(len(members)))
    length, rest = divmod(len(places), chunks)
    if not length:
        raise UsageError(
            f"{stage} has {several(len(members), singular(what))}, too few for {chunks} chunks; "
            "choose another number of chunks, or another plan."
        )
    firsts = (places[number * length + min(number, rest)] for number in range(1, chunks))
    borders = [0, *firsts, len(members)]
    for begin, end in pairwise(borders):
        yield tuple(members[begin:end])


def in_micro_batches(sizes: Sequence[int]) -> list[int]:
    """How many passes each stage runs in a row for one micro-batch of the largest size."""
    most = max(sizes)
    odd = next((size for size in sizes if most % size), None)
    if odd is not None:
        raise UsageError(
            f"Micro-batches of {odd} samples do not divide those of {most}, so the plan has no common micro-batch; "
            "plan with sizes that divide each other."
        )
    return [most // size for size in sizes]


def together(amounts: Iterable[tuple[int, Amount]], devices: int) -> list[Fraction]:
    """The sum of the amounts of each device."""
    totals: defaultdict[int, Fraction] = defaultdict(Fraction)
    for device, amount in amounts:
        totals[device] += as_written(amount)
    return [totals[device] for device in range(devices)]


def one_of_alike(pipeline: Pipeline) -> tuple[Pipeline, int]:
    """One of the pipelines that stages with equally many replicas form side by side, and the number of these pipelines.

    Replica r of every stage runs the same micro-batches, so no pipeline waits for another. The first one has the most
    micro-batches.
    """
    counts = {stage.replicas for stage in pipeline.stages}
    if len(counts) > 1 or counts == {1}:
        return pipeline, 1
    count = counts.pop()
    stages = tuple(
        replace(
            stage,
            orders=(
                tuple(
                    (abs(j) - 1) // count * sign + sign for j in stage.orders[0] for sign in [1 if j > 0 else -1]
                ),
            ),
            devices=stage.devices // count,
        )
        for stage in pipeline.stages
    )
    return replace(pipeline, stages=stages, mini_batch=-(-pipeline.mini_batch // count)), count


def parts_of(
    pipeline: Pipeline, devices: Sequence[int], inputs: Sequence[Amount] | None = None
) -> tuple[Part, ...]:
    """The parts of the simulator's stages, on these devices; `inputs`: bytes of a sample that computing again keeps.

    Replicas take turns, so that one of d has d times as long for a micro-batch and holds every d-th.
    """
    stages = pipeline.stages
    passes = in_micro_batches([stage.micro_batch for stage in stages])
    return tuple(
        Part(
            device=devices[number],
            forward=as_written(stage.forward) / stage.replicas,
            backward=as_written(stage.backward) / stage.replicas,
            stash=as_written(stage.sample_bytes) * stage.micro_batch / stage.replicas,
            inputs=as_written(inputs[number] if inputs else 0) * stage.micro_batch / stage.replicas,
            passes=passes[number],
        )
        for number, stage in enumerate(stages)
    )


def joints_of(pipeline: Pipeline, devices: Sequence[int]) -> tuple[Joint, ...]:
    """The joints of the simulator's dependencies; between two parts of one device nothing travels."""
    return tuple(
        Joint(joint.source, joint.target, *((0, 0) if here else (joint.forward_delay, joint.backward_delay)))
        for joint in pipeline.dependencies
        for here in [devices[joint.source] == devices[joint.target]]
    )


def notes_on(pipeline: Pipeline) -> Iterator[str]:
    """What a schedule of blocks cannot say of the simulator's stages."""
    replicas = max(stage.replicas for stage in pipeline.stages)
    if replicas > 1:
        yield (
            f"replicas that take turns, up to {replicas} of a stage, count as one device that is so much faster and "
            "holds that share of the activations"
        )
    after = max(stage.synchronisation for stage in pipeline.stages)
    if after:
        unit = "" if pipeline.time_unit is None else f" {pipeline.time_unit}"
        yield f"the synchronisation of the weights after the last micro-batch, up to {after:.6g}{unit}, is left out"


def holders_of(
    pipeline: Pipeline,
    devices: Sequence[int],
    names: Sequence[str],
    limits: Sequence[Amount | None],
    once: Amount = 0,
) -> tuple[Holder, ...]:
    """The devices; `once` is what each holds whatever runs there, which every stage's fixed bytes include."""
    fixed = (as_written(stage.fixed_bytes) - as_written(once) for stage in pipeline.stages)
    sums = together(zip(devices, fixed, strict=True), len(names))
    return tuple(
        Holder(name, limit, total + as_written(once))
        for name, limit, total in zip(names, limits, sums, strict=True)
    )
