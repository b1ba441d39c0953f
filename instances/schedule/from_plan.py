"""From the parts of a plan to a schedule problem: its blocks, what they hold and who waits for whom."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction

from ..base.amounts import Amount, as_written, in_digits
from ..timeline.model import Pipeline
from .lowering_options import ScheduleOptions
from .plan import written
from .planned_work import Holder, Part, PlannedWork
from .problem import Block, BlockEdge, BlockKind, ScheduleDevice, ScheduleProblem

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
        passes = [time for part in work.parts for time in (part.forward, part.backward) if time is not None]
        lags = [lag for joint in work.joints for lag in (joint.forward, joint.backward) if lag is not None]
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
        forward = Fraction(0) if part.forward is None else self.times.nearest(part.forward)
        if part.forward is not None:
            yield "F", forward, kept, self.memory.down(part.forward_workspace)
        if part.backward is None:
            return
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
        turns = self.work.turns
        for a, b in turns if turns is not None else [(number, number) for number in range(len(parts))]:
            for turn, before in self._covering(parts[b].passes, parts[a].passes):
                yield BlockEdge(self._id("F", a, before), self._id(self._back, b, turn))
        for joint in self.work.joints:
            if joint.forward is not None:
                yield from self._joined("F", joint.source, joint.target, joint.forward)
            if joint.backward is not None:
                yield from self._joined(self._back, joint.target, joint.source, joint.backward)

    def _within(self, number: int, part: Part) -> Iterator[BlockEdge]:
        """Edges within a part: from its backward pass for inputs to that for weights, and between passes that follow
        each other."""
        present = [kind for kind, time in (("F", part.forward), (self._back, part.backward)) if time is not None]
        for turn in range(part.passes):
            if self._back == "I" and part.backward is not None:
                yield BlockEdge(self._id("I", number, turn), self._id("W", number, turn))
            if turn:
                for kind in present:
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
