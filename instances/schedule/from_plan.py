"""From the parts of a plan to a schedule problem: its blocks, what they hold and who waits for whom."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import pairwise
from typing import TypeVar

from ..base.amounts import Amount, as_written, in_digits
from ..base.checks import check_flag, check_whole
from ..base.errors import InputError, UsageError, show
from ..base.quantities import several
from ..physics.schedules import LOOP, V_SHAPE
from ..timeline.model import Dependency, Pipeline
from .generators import device_of
from .plan import written
from .problem import MAX_MICRO_BATCHES, Block, BlockEdge, BlockKind, ScheduleDevice, ScheduleProblem

# ---- options -----------------------------------------------------------------------------------------
# How the passes of a plan's stages become blocks of a schedule problem, as a caller says it.

SHAPES = (V_SHAPE,)
MAX_CHUNKS = 64


@dataclass(frozen=True)
class ScheduleOptions:
    """How the passes of a plan's stages become blocks; None: not given."""

    micro_batches: int | None = None
    """The number of micro-batches; None: the steady state alone."""
    split_backward: float | tuple[float, ...] | None = None
    """The share of each backward pass that is for its inputs, of all stages or of each; None: one block."""
    weight_stash: float | None = None
    """The share of its activations that a stage keeps until its backward pass for weights ends; a half if not given."""
    virtual: int | None = None
    """Chunks on each device; None: one, or two in a V."""
    shape: str | None = None
    """`v`: two chunks on each device, down the devices and back up; None: chunk by chunk down the devices."""
    recompute: bool = False
    """Forward passes keep their inputs alone, and backward passes run the forward pass again."""

    def __post_init__(self) -> None:
        _check(self)

    @property
    def chunks(self) -> int:
        """Number of chunks on each device."""
        return self.virtual or (2 if self.shape == V_SHAPE else 1)

    def device_of(self, chunk: int, devices: int) -> int:
        """The device that runs a chunk, by the chunk's place in the network."""
        return device_of(chunk, devices, self.shape or LOOP)

    def share_of(self, stage: int, stages: int) -> Fraction | None:
        """The share of a stage's backward pass that is for its inputs; None: the pass is one block."""
        if not isinstance(self.split_backward, tuple):
            return None if self.split_backward is None else as_written(self.split_backward)
        if len(self.split_backward) != stages:
            count = len(self.split_backward)
            raise InputError(
                "split_backward", f"has {count} shares for {several(stages, 'stage')}", "give one, or one for each"
            )
        return as_written(self.split_backward[stage])


def _check(options: ScheduleOptions) -> None:
    if options.micro_batches is not None:
        check_whole("micro_batches", options.micro_batches, MAX_MICRO_BATCHES)
    shares = options.split_backward
    for share in shares if isinstance(shares, tuple) else (shares,):
        _check_share("split_backward", share)
    _check_share("weight_stash", options.weight_stash)
    check_flag("recompute", options.recompute)
    if options.weight_stash is not None and shares is None:
        raise UsageError("weight_stash says what a backward pass for weights keeps; give split_backward as well.")
    if options.virtual is not None:
        check_whole("virtual", options.virtual, MAX_CHUNKS)
    if options.shape is not None and options.shape not in SHAPES:
        raise InputError("shape", f"is {show(options.shape)}", f"give one of {', '.join(SHAPES)}, or none")
    if options.shape == V_SHAPE and options.virtual not in (None, 2):
        raise UsageError(f"The shape v has two chunks on each device, not {options.virtual}; drop virtual.")


def _check_share(field: str, value: object) -> None:
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 1:
        raise InputError(field, f"is {show(value)}", "give a share from 0 to 1, such as 0.5")


# ---- planned work ------------------------------------------------------------------------------------
# The form that plans of all kinds take before they become schedule problems: parts with passes, on devices.


@dataclass(frozen=True, slots=True)
class Holder:
    """A device, or all devices that run one stage together; bytes are those of one of them."""

    name: str
    memory: Amount | None = None
    standing: Amount = 0


@dataclass(frozen=True, slots=True)
class Part:
    """A stage, or a chunk of one: its passes over one micro-batch."""

    device: int
    forward: Amount
    backward: Amount
    stash: Amount = 0
    """Bytes that one forward pass keeps until its backward pass."""
    inputs: Amount = 0
    """Bytes that a pass keeps where activations are computed again: what it reads."""
    passes: int = 1
    """Number of passes in a row, each over an equal share of the micro-batch."""
    forward_workspace: Amount = 0
    backward_workspace: Amount = 0


@dataclass(frozen=True)
class PlannedWork:
    """The parts of a plan on its devices, in the order of the network."""

    devices: tuple[Holder, ...]
    parts: tuple[Part, ...]
    joints: tuple[Dependency, ...]
    name: str
    time_unit: str | None
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


def evenly(members: Sequence[T], chunks: int, stage: str, counted: Collection[T]) -> Iterator[tuple[T, ...]]:
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
            f"{stage} has {several(len(members), 'layer')}, too few for {chunks} chunks; "
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


def joints_of(pipeline: Pipeline, devices: Sequence[int]) -> tuple[Dependency, ...]:
    """The simulator's dependencies; between two parts of one device nothing travels."""
    return tuple(
        Dependency(joint.source, joint.target) if devices[joint.source] == devices[joint.target] else joint
        for joint in pipeline.dependencies
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


def work_of(
    pipeline: Pipeline,
    options: ScheduleOptions,
    notes: Iterable[str],
    *,
    names: Sequence[str] | None = None,
    inputs: Sequence[Amount] | None = None,
    once: Amount = 0,
) -> PlannedWork:
    """The work of the simulator's stages, chunk after chunk down the devices.

    `names` of the devices, None: d0, d1, ...; `inputs` as for `parts_of`; `once` is what each device holds whatever
    runs there, which every stage's fixed bytes include.
    """
    devices = spread(len(pipeline.stages), options)
    count = len(devices) // options.chunks
    fixed = (as_written(stage.fixed_bytes) - as_written(once) for stage in pipeline.stages)
    held = together(zip(devices, fixed, strict=True), count)
    names = [f"d{number}" for number in range(count)] if names is None else names
    return PlannedWork(
        tuple(
            Holder(name, stage.limit_bytes, total + as_written(once))
            for name, stage, total in zip(names, pipeline.stages[:count], held, strict=True)
        ),
        parts_of(pipeline, devices, inputs),
        joints_of(pipeline, devices),
        pipeline.name,
        pipeline.time_unit,
        notes=(*notes, *notes_on(pipeline)),
    )


def check_alike(shapes: Iterable[Hashable], hint: str = "") -> None:
    """Refuse chunks of stages that run on unlike devices; `hint`: how to plan with stages that are alike."""
    if len(set(shapes)) > 1:
        raise UsageError(
            "The stages run on different devices, on different numbers of them or with different samples, so that "
            f"chunks cannot change places; drop --virtual and --shape, or plan with stages that are alike{hint}."
        )


# ---- the schedule problem ----------------------------------------------------------------------------

HALF = Fraction(1, 2)
# Digits that are kept of times and of amounts, counted from the largest one: what lies below is rounded, so that
# solvers can count in whole steps.
TIME_DIGITS, MEMORY_DIGITS = 6, 12


# Function from a number of micro-batches to the passes of all stages, in the order that the plan was made for.
OwnSchedule = Callable[[int], Pipeline]


@dataclass(frozen=True, slots=True)
class LoweredSchedule:
    """A schedule problem that a plan became, with sentences on what it loses."""

    problem: ScheduleProblem
    notes: tuple[str, ...] = ()
    own: OwnSchedule | None = field(default=None, repr=False, compare=False)
    """What the simulator runs of this very plan; None where it runs no such plan, or the plan was cut into chunks."""
    pipelines: int = 1
    """Number of alike pipelines side by side, of which the problem is one, with its share of the micro-batches."""
    samples: int = 1
    """Samples in a micro-batch, where the plan's problem counts its batch in samples; else 1."""


def schedule_of(
    work: PlannedWork, options: ScheduleOptions, own: OwnSchedule | None = None, pipelines: int = 1
) -> LoweredSchedule:
    """The schedule problem of planned work.

    `own` gives the schedule of the plan before it was cut into chunks; so many `pipelines` share the micro-batches.
    """
    count = None if options.micro_batches is None else -(-options.micro_batches // pipelines)
    builder = _Builder(work, options)
    blocks = tuple(block for number in range(len(work.parts)) for block in builder.blocks(number))
    devices = tuple(builder.device(holder) for holder in work.devices)
    problem = ScheduleProblem(
        devices, blocks, tuple(builder.edges()), count, False, work.name, work.time_unit, "bytes"
    )
    notes = (*work.notes, *builder.notes())
    return LoweredSchedule(problem, notes, own if options.chunks == 1 else None, pipelines)


class _Grid:
    """Amounts as whole multiples of a power of ten."""

    def __init__(self, amounts: Iterable[Amount], digits: int) -> None:
        self.step = _power_below(max(map(as_written, amounts), default=Fraction(0)), digits)
        self.rounded = False

    def nearest(self, amount: Amount | Fraction) -> Fraction:
        exact = as_written(amount)
        return self._told(exact, self.step * math.floor(exact / self.step + HALF))

    def down(self, amount: Amount | Fraction) -> Fraction:
        """The amount rounded down to the grid: what fits in truth fits here."""
        exact = as_written(amount)
        return self._told(exact, self.step * math.floor(exact / self.step))

    def _told(self, exact: Fraction, rounded: Fraction) -> Fraction:
        self.rounded = self.rounded or exact != rounded
        return rounded


def _power_below(largest: Fraction, digits: int) -> Fraction:
    """The power of ten by which the largest amount is to be divided to have so many digits before its point."""
    if not largest:
        return Fraction(1)
    places = len(str(int(largest))) if largest >= 1 else -_zeros(largest)
    return Fraction(10) ** (places - digits)


def _zeros(amount: Fraction) -> int:
    """Number of zeros between the point of an amount below 1 and its first digit."""
    count = 0
    while amount * 10 < 1:
        amount, count = amount * 10, count + 1
    return count


class _Builder:
    """Makes devices, blocks and edges from the exact amounts of the parts."""

    def __init__(self, work: PlannedWork, options: ScheduleOptions) -> None:
        self.work, self.options = work, options
        passes = [time for part in work.parts for time in (part.forward, part.backward)]
        lags = [lag for joint in work.joints for lag in (joint.forward_delay, joint.backward_delay)]
        self.times = _Grid([*passes, *lags], TIME_DIGITS)
        amounts = [part.stash for part in work.parts] + [holder.standing for holder in work.devices]
        self.memory = _Grid(amounts, MEMORY_DIGITS)
        # Where no part makes several passes, "F0" says enough.
        self.several = any(part.passes > 1 for part in work.parts)

    def notes(self) -> Iterator[str]:
        unit = "" if self.work.time_unit is None else f" {self.work.time_unit}"
        if self.times.rounded:
            yield f"times are rounded to {in_digits(self.times.step)}{unit}"
        if self.options.recompute and not any(part.stash for part in self.work.parts):
            yield "nothing says what activations take, so computing them again costs time and saves no memory"

    def device(self, holder: Holder) -> ScheduleDevice:
        limit = None if holder.memory is None else _number(as_written(holder.memory))
        return ScheduleDevice(holder.name, limit, _number(self.memory.down(holder.standing)))

    def blocks(self, number: int) -> Iterator[Block]:
        part = self.work.parts[number]
        for turn in range(part.passes):
            for kind, time, change, workspace in self._passes(number, part):
                device = self.work.devices[part.device].name
                yield Block(
                    self._id(kind, number, turn),
                    kind,
                    (device,),
                    _number(time),
                    number,
                    {device: _number(change)} if change else {},
                    {device: _number(workspace)} if workspace else {},
                )

    def _passes(self, number: int, part: Part) -> Iterator[tuple[BlockKind, Fraction, Fraction, Fraction]]:
        """Kind, time, change of memory and workspace of each block.

        Activations that are computed again are there from the start of the backward pass on, beside the inputs that
        were kept. What of them stays for the pass for weights is a change of memory; the rest is workspace of the pass.
        """
        stash = self.memory.down(part.stash)
        kept = min(stash, self.memory.down(part.inputs)) if self.options.recompute else stash
        forward = self.times.nearest(part.forward)
        yield "F", forward, kept, self.memory.down(part.forward_workspace)
        backward = self.times.nearest(part.backward)
        again = forward if self.options.recompute else Fraction(0)
        space = self.memory.down(part.backward_workspace)
        share = self.options.share_of(number, len(self.work.parts))
        if share is None:
            yield "B", backward + again, -kept, space + stash - kept
            return
        stays = self.memory.down(_or_half(self.options.weight_stash) * stash)
        change, inputs = stays - kept, self.times.nearest(share * backward)
        yield "I", inputs + again, change, space + stash - kept - max(change, Fraction(0))
        yield "W", backward - inputs, -stays, Fraction(0)

    def edges(self) -> Iterator[BlockEdge]:
        """Edges within the parts, from forward to backward passes, and along the joints in both directions."""
        parts = self.work.parts
        for number, part in enumerate(parts):
            yield from self._within(number, part)
        for number, part in enumerate(parts):
            for turn in range(part.passes):
                yield BlockEdge(self._id("F", number, turn), self._id(self._back, number, turn))
        for joint in self.work.joints:
            yield from self._joined("F", joint.source, joint.target, joint.forward_delay)
            yield from self._joined(self._back, joint.target, joint.source, joint.backward_delay)

    def _within(self, number: int, part: Part) -> Iterator[BlockEdge]:
        """Edges within a part: from its backward pass for inputs to that for weights, and between passes that follow
        each other."""
        for turn in range(part.passes):
            if self._back == "I":
                yield BlockEdge(self._id("I", number, turn), self._id("W", number, turn))
            if turn:
                for kind in ("F", self._back):
                    yield BlockEdge(self._id(kind, number, turn - 1), self._id(kind, number, turn))

    def _joined(self, kind: str, source: int, target: int, lag: Amount) -> Iterator[BlockEdge]:
        parts = self.work.parts
        for turn, before in self._covering(parts[target].passes, parts[source].passes):
            ends = self._id(kind, source, before), self._id(kind, target, turn)
            yield BlockEdge(*ends, _number(self.times.nearest(lag)))

    @staticmethod
    def _covering(passes: int, sources: int) -> Iterator[tuple[int, int]]:
        """Each pass with the first of the other side's passes by which all of its samples have gone through."""
        for turn in range(passes):
            yield turn, -(-(turn + 1) * sources // passes) - 1

    @property
    def _back(self) -> BlockKind:
        return "B" if self.options.split_backward is None else "I"

    def _id(self, kind: str, number: int, turn: int) -> str:
        return f"{kind}{number}.{turn}" if self.several else f"{kind}{number}"


def _or_half(share: float | None) -> Fraction:
    return HALF if share is None else as_written(share)


def _number(amount: Fraction) -> float:
    """The amount as a problem holds it: an int where it is whole, else the float that prints as this very decimal."""
    value = written(amount)
    assert not isinstance(value, str), "amounts lie on a grid of few decimals"
    return value
