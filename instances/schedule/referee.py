"""The referee of schedules: what breaks a rule, one sentence each, and what a schedule costs, from its starts alone."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import islice
from typing import Any

from ..base.amounts import as_written, in_digits
from ..base.errors import InputError, UsageError, Violation, refuse_broken, show
from ..base.kind import Rules, chosen
from ..base.quantities import BYTE_NAMES, of_limit, several
from ..registry import SCHEDULE
from .plan import AnySchedule, PeriodicSchedulePlan, SchedulePlan, written
from .problem import MAX_STARTS, ScheduleProblem

# ---- starts in whole steps ---------------------------------------------------------------------------
# The starts of a plan as whole numbers of steps, micro-batch by micro-batch, with the faults of its shape.

# At most so many violations of one rule are told.
MOST_TOLD = 20


@dataclass(frozen=True)
class Unrolled:
    """Micro-batches from the first one on: all of them, or in a periodic schedule as many as show one whole period."""

    problem: ScheduleProblem
    steps: int
    """Steps per time unit; every start and every time is a whole number of steps."""
    starts: tuple[tuple[int, ...], ...]
    """Starts of each block, one for each micro-batch, in steps."""
    times: tuple[int, ...]
    """Times of the blocks, in steps."""
    lags: tuple[int, ...]
    period: int | None = None

    @property
    def micro_batches(self) -> int:
        return len(self.starts[0])

    def in_units(self, steps: int) -> Fraction:
        return Fraction(steps, self.steps)

    def text(self, steps: int) -> str:
        """All digits of a time, with the unit where the problem has one."""
        return " ".join(filter(None, (in_digits(self.in_units(steps)), self.problem.time_unit)))


def shape_faults(problem: ScheduleProblem, plan: AnySchedule) -> Iterator[str]:
    """The reasons why the plan cannot be laid out, each in a sentence."""
    for block in problem.blocks:
        if block.id not in plan.starts:
            yield f"Block {show(block.id)} has no start."
    for name in plan.starts:
        if name not in problem.block_index:
            yield f"There is no block {show(name)} in the problem, but the plan has starts of it."
    faults = _periodic_faults(problem, plan) if isinstance(plan, PeriodicSchedulePlan) else _faults(problem, plan)
    yield from faults


def _faults(problem: ScheduleProblem, plan: SchedulePlan) -> Iterator[str]:
    if problem.micro_batches is None:
        yield "The problem has no number of micro-batches, so only a periodic schedule can solve it."
        return
    for name, starts in plan.starts.items():
        if len(starts) != problem.micro_batches:
            yield f"Block {show(name)} has {len(starts)} starts for {several(problem.micro_batches, 'micro-batch')}."
        elif starts and min(starts) < 0:
            yield f"Block {show(name)} starts at {in_digits(min(starts))}, before 0."


def _periodic_faults(problem: ScheduleProblem, plan: PeriodicSchedulePlan) -> Iterator[str]:
    if plan.period < 0 or (not plan.period and any(problem.loads)):
        yield f"The period is {in_digits(plan.period)}; it must be above 0."
        return
    early = next((name for name, start in plan.starts.items() if start < 0), None)
    if early is not None:
        yield f"Block {show(early)} starts at {in_digits(plan.starts[early])}, before 0."
    elif plan.period and _spanned(problem, plan) * len(problem.blocks) > MAX_STARTS:
        yield "The schedule of one micro-batch spans too many periods to be unrolled."


def _spanned(problem: ScheduleProblem, plan: PeriodicSchedulePlan) -> int:
    """Number of micro-batches to lay out: one more than begin before the first one ends, so that a whole period shows
    the steady state."""
    ends = (
        plan.starts.get(block.id, Fraction(0)) + time
        for block, time in zip(problem.blocks, problem.times, strict=True)
    )
    return int(max(ends) // plan.period) + 2 if plan.period else 2


def unroll(problem: ScheduleProblem, plan: AnySchedule) -> Unrolled:
    """The starts of a plan without faults of its shape, in whole steps."""
    period = plan.period if isinstance(plan, PeriodicSchedulePlan) else None
    if isinstance(plan, PeriodicSchedulePlan):
        batches = range(_spanned(problem, plan))
        rows = [[plan.starts[block.id] + n * plan.period for n in batches] for block in problem.blocks]
    else:
        rows = [list(plan.starts[block.id]) for block in problem.blocks]
    numbers = [*problem.times, *problem.lags, *(start for row in rows for start in row), period or Fraction(0)]
    steps = math.lcm(*{number.denominator for number in numbers})
    return Unrolled(
        problem,
        steps,
        tuple(tuple(int(start * steps) for start in row) for row in rows),
        tuple(int(time * steps) for time in problem.times),
        tuple(int(lag * steps) for lag in problem.lags),
        None if period is None else int(period * steps),
    )


# ---- memory ------------------------------------------------------------------------------------------
# What a device holds after each change, and when it holds most and least.
#
# Blocks of one device do not overlap, and nothing else changes its memory. At one instant a device first ends its
# blocks of positive time, then runs those of time 0 (by micro-batch, topological position and order in the file;
# each takes and gives in turn), then starts blocks.

# The order of what happens on a device at one instant.
ENDS, AT_ONCE, STARTS = range(3)


@dataclass(frozen=True, slots=True)
class Held:
    """What the device holds from one change of its memory to the next."""

    time: int
    """The instant, in steps."""
    block: int
    """Position of the block that changes what is held; -1: the device runs none."""
    micro_batch: int
    changes: Fraction
    """Memory taken and not yet given back; negative where more was given back than taken."""
    workspace: Fraction
    """Workspace of the block that runs."""

    @property
    def amount(self) -> Fraction:
        return self.changes + self.workspace


# Of a device that runs no block.
NOTHING = Held(0, -1, 0, Fraction(0), Fraction(0))


def held_over_time(unrolled: Unrolled, device: int) -> Iterator[Held]:
    """What the device holds beside its standing memory, in the order of time."""
    problem = unrolled.problem
    name, none = problem.devices[device].name, Fraction(0)
    change, workspace = {}, {}
    for b in problem.on_device[device]:
        block = problem.blocks[b]
        change[b] = as_written(block.memory.get(name, 0))
        workspace[b] = as_written(block.workspace.get(name, 0))
    changes = none
    for time, phase, n, _, b in sorted(_events(unrolled, device)):
        takes, gives = max(change[b], none), min(change[b], none)
        if phase != ENDS:
            changes += takes
            yield Held(time, b, n, changes, workspace[b])
        if phase != STARTS:
            changes += gives
            yield Held(time, b, n, changes, none)


def _events(unrolled: Unrolled, device: int) -> Iterator[tuple[int, int, int, int, int]]:
    """(time, phase, micro-batch, topological position, position in the file)."""
    depths = unrolled.problem.depths
    for b in unrolled.problem.on_device[device]:
        length = unrolled.times[b]
        for n, start in enumerate(unrolled.starts[b]):
            if length:
                yield start, STARTS, n, depths[b], b
                yield start + length, ENDS, n, depths[b], b
            else:
                yield start, AT_ONCE, n, depths[b], b


def fullest(unrolled: Unrolled, device: int) -> Held:
    """The first instant at which the device holds most; without blocks it holds nothing at time 0."""
    return max(held_over_time(unrolled, device), key=lambda held: held.amount, default=NOTHING)


def emptiest(unrolled: Unrolled, device: int) -> Held:
    """The first instant at which the device holds least, workspaces left out."""
    return min(held_over_time(unrolled, device), key=lambda held: held.changes, default=NOTHING)


# ---- rules -------------------------------------------------------------------------------------------


def verify_schedule(problem: ScheduleProblem, plan: AnySchedule) -> tuple[Violation, ...]:
    """Every broken rule (shape, precedence, exclusive, memory); an empty tuple is a valid plan.

    A periodic schedule is judged from its first micro-batch on until everything repeats, and as it drains.
    """
    faults = tuple(Violation("shape", fault) for fault in islice(shape_faults(problem, plan), MOST_TOLD))
    if faults:
        return faults
    unrolled = unroll(problem, plan)
    violations = [*islice(_precedence(unrolled), MOST_TOLD), *islice(_exclusive(unrolled), MOST_TOLD)]
    return (*violations, *_memory(unrolled))


def _precedence(unrolled: Unrolled) -> Iterator[Violation]:
    """Every broken edge once, by the first micro-batch that breaks it."""
    problem = unrolled.problem
    for edge, (i, j), lag in zip(problem.edges, problem.ends, unrolled.lags, strict=True):
        for n in range(unrolled.micro_batches - edge.offset):
            ready = unrolled.starts[i][n] + unrolled.times[i] + lag
            start = unrolled.starts[j][n + edge.offset]
            if start < ready:
                after = f" and a lag of {unrolled.text(lag)} has passed" if lag else ""
                yield Violation(
                    "precedence",
                    f"Block {_named(unrolled, j, n + edge.offset)} starts at {unrolled.text(start)}, "
                    f"{unrolled.text(ready - start)} before block {_named(unrolled, i, n)} has ended{after}.",
                )
                break
        if unrolled.period is not None and edge.offset >= unrolled.micro_batches:
            yield from _far_precedence(unrolled, edge.offset, i, j, lag)


def _far_precedence(unrolled: Unrolled, offset: int, i: int, j: int, lag: int) -> Iterator[Violation]:
    """A violation where a run of a periodic schedule waits for a micro-batch that is too far away to be laid out."""
    assert unrolled.period is not None
    ready = unrolled.starts[i][0] + unrolled.times[i] + lag
    start = unrolled.starts[j][0] + offset * unrolled.period
    if start < ready:
        names = _named(unrolled, j, offset), _named(unrolled, i, 0)
        yield Violation("precedence", f"Block {names[0]} starts before block {names[1]} has ended.")


def _named(unrolled: Unrolled, block: int, micro_batch: int) -> str:
    return f"{show(unrolled.problem.blocks[block].id)} of micro-batch {micro_batch}"


def _exclusive(unrolled: Unrolled) -> Iterator[Violation]:
    """Two blocks of one device do not overlap, and what takes no time does not happen inside of another block."""
    for device, blocks in enumerate(unrolled.problem.on_device):
        told: set[tuple[int, int]] = set()
        running: tuple[int, int, int] | None = None
        """(end, block, micro-batch) of what ends last so far."""
        runs = ((start, unrolled.times[b], n, b) for b in blocks for n, start in enumerate(unrolled.starts[b]))
        for start, length, n, b in sorted(runs):  # at one instant what takes no time comes first
            if (
                running is not None
                and start < running[0]
                and (length or start > unrolled.starts[running[1]][running[2]])
            ):
                pair = (running[1], b)
                if pair not in told:
                    told.add(pair)
                    yield _overlap(unrolled, device, running, (start, b, n))
            if length and (running is None or start + length > running[0]):
                running = (start + length, b, n)


def _overlap(
    unrolled: Unrolled, device: int, running: tuple[int, int, int], other: tuple[int, int, int]
) -> Violation:
    end, first, n = running
    start, second, k = other
    return Violation(
        "exclusive",
        f"On {show(unrolled.problem.devices[device].name)} block {_named(unrolled, second, k)} starts at "
        f"{unrolled.text(start)}, {unrolled.text(end - start)} before block {_named(unrolled, first, n)} ends.",
    )


def _memory(unrolled: Unrolled) -> Iterator[Violation]:
    """No device holds more than its memory, and none gives back more than it has."""
    problem = unrolled.problem
    for d, device in enumerate(problem.devices):
        standing, most, least = as_written(device.standing), fullest(unrolled, d), emptiest(unrolled, d)
        amount = standing + most.amount
        if device.memory is not None and amount > as_written(device.memory):
            in_bytes = problem.memory_unit in BYTE_NAMES
            multiples = of_limit(float(amount), float(device.memory)) if in_bytes else ""
            yield Violation(
                "memory",
                f"{show(device.name)} holds {problem.in_memory_unit(amount)} at {unrolled.text(most.time)}, when block "
                f"{_named(unrolled, most.block, most.micro_batch)} starts: "
                f"{in_digits(amount - as_written(device.memory))} more than its memory of "
                f"{problem.in_memory_unit(device.memory)}{multiples}.",
            )
        if standing + least.changes < 0:
            yield Violation(
                "memory",
                f"{show(device.name)} has given back {problem.in_memory_unit(-standing - least.changes)} more than it "
                f"ever held at {unrolled.text(least.time)}, when block "
                f"{_named(unrolled, least.block, least.micro_batch)} ends.",
            )


# ---- costs -------------------------------------------------------------------------------------------
# What a schedule costs: period, makespan and span, how long devices idle, and what they hold at most.


@dataclass(frozen=True, slots=True)
class DeviceUse:
    """What one device does. Times are in the problem's time unit, of all micro-batches or of one period."""

    name: str
    busy: Fraction
    span: Fraction
    """Time from the device's first start to its last end; in a periodic schedule it is the period."""
    peak: Fraction
    """The most memory that the device holds, with what it holds all the time."""
    standing: Fraction
    limit: Fraction | None
    peak_time: Fraction
    peak_block: str | None
    """The block that starts, or ends, at the peak; None where the device runs none."""
    peak_micro_batch: int

    @property
    def bubble(self) -> Fraction | None:
        """The share of the span in which the device idles; None where there is no span."""
        return 1 - self.busy / self.span if self.span else None


@dataclass(frozen=True, slots=True)
class ScheduleEvaluation:
    """Values of a schedule; None where it has no such value: a schedule of given micro-batches has no period."""

    period: Fraction | None
    makespan: Fraction | None
    """Time from the first start to the last end."""
    span: Fraction | None
    """The longest time over devices from its first start to its last end."""
    bubble: Fraction | None
    """The share of their time in which the devices that run passes idle, all of them together."""
    in_flight: int
    """The most micro-batches that have begun and not ended at one instant."""
    devices: tuple[DeviceUse, ...]
    computing: tuple[int, ...]
    """Positions of the devices that run passes."""

    def objective(self, name: str) -> Fraction | None:
        value: Fraction | None = getattr(self, name)
        return value

    def idle_share(self, length: Fraction) -> Fraction:
        """The share of so much time in which the devices that run passes idle, all of them together."""
        busy = sum((self.devices[d].busy for d in self.computing), Fraction(0))
        return 1 - busy / (len(self.computing) * length) if length else Fraction(0)

    def to_json(self) -> dict[str, Any]:
        whole = _told(self, "period", "makespan", "span", "bubble", "in_flight")
        peak = ("peak", "standing", "limit", "peak_time", "peak_block", "peak_micro_batch")
        return {**whole, "devices": [_told(use, "name", "busy", "bubble", *peak) for use in self.devices]}


def _told(value: DeviceUse | ScheduleEvaluation, *names: str) -> dict[str, Any]:
    """These members as JSON data: shares as floats, other amounts without loss."""
    members = ((name, getattr(value, name)) for name in names)
    return {
        name: member if not isinstance(member, Fraction) else float(member) if name == "bubble" else written(member)
        for name, member in members
    }


def evaluate_schedule(problem: ScheduleProblem, plan: AnySchedule) -> ScheduleEvaluation:
    """What a plan with a start for every block costs; whether it breaks a rule, `verify_schedule` judges."""
    unrolled = unroll(problem, plan)
    period = plan.period if isinstance(plan, PeriodicSchedulePlan) else None
    first, last = _ends(problem, plan)
    batches = 1 if period is not None else problem.micro_batches or 1
    uses = []
    for d, device in enumerate(problem.devices):
        most, standing = fullest(unrolled, d), as_written(device.standing)
        uses.append(
            DeviceUse(
                name=device.name,
                busy=problem.loads[d] * batches,
                span=last[d] - first[d] if period is None else period,
                peak=standing + most.amount,
                standing=standing,
                limit=None if device.memory is None else as_written(device.memory),
                peak_time=unrolled.in_units(most.time),
                peak_block=None if most.block < 0 else problem.blocks[most.block].id,
                peak_micro_batch=most.micro_batch,
            )
        )
    busy = sum((uses[d].busy for d in problem.computing), Fraction(0))
    ended = problem.micro_batches is not None
    span = max((b - a for a, b in zip(first, last, strict=True)), default=Fraction(0)) if ended else None
    whole = len(problem.computing) * (period if period is not None else span or Fraction(0))
    return ScheduleEvaluation(
        period=period,
        makespan=max(last) - min(a for d, a in enumerate(first) if problem.on_device[d]) if ended else None,
        span=span,
        bubble=1 - busy / whole if whole else None,
        in_flight=_in_flight(unrolled.starts, unrolled.times),
        devices=tuple(uses),
        computing=problem.computing,
    )


def _ends(problem: ScheduleProblem, plan: AnySchedule) -> tuple[list[Fraction], list[Fraction]]:
    """The first start and the last end on each device, of all micro-batches that the problem has."""
    first, last = [], []
    for blocks in problem.on_device:
        spans = [_span(problem, plan, b) for b in blocks] or [(Fraction(0), Fraction(0))]
        first.append(min(begin for begin, _ in spans))
        last.append(max(end for _, end in spans))
    return first, last


def _span(problem: ScheduleProblem, plan: AnySchedule, b: int) -> tuple[Fraction, Fraction]:
    """From the first start to the last end of a block, over all micro-batches that the problem has."""
    name, time = problem.blocks[b].id, problem.times[b]
    if isinstance(plan, PeriodicSchedulePlan):
        begin = plan.starts[name]
        return begin, begin + ((problem.micro_batches or 1) - 1) * plan.period + time
    return min(plan.starts[name]), max(plan.starts[name]) + time


def _in_flight(starts: tuple[tuple[int, ...], ...], times: tuple[int, ...]) -> int:
    """The most micro-batches that are between their first start and their last end at one instant."""
    changes = []
    for n in range(len(starts[0])):
        changes.append((min(row[n] for row in starts), 1))
        changes.append((max(row[n] + time for row, time in zip(starts, times, strict=True)), -1))
    most = live = 0
    for _, change in sorted(changes):
        live += change
        most = max(most, live)
    return most


# ---- by which rules: the steady state, or all micro-batches from the first start to the last end -------

PERIOD = "period"


@dataclass(frozen=True, slots=True)
class _ScheduleRules:
    objective: str

    def violations(self, problem: ScheduleProblem, plan: AnySchedule) -> tuple[Violation, ...]:
        return verify_schedule(problem, plan)

    def value(self, problem: ScheduleProblem, plan: AnySchedule) -> float:
        value = evaluate_schedule(problem, plan).objective(self.objective)
        if value is None:
            raise UsageError(f"A plan of the kind {plan.kind} has no {self.objective}; choose another --objective.")
        return float(value)

    def evaluation(self, problem: ScheduleProblem, plan: AnySchedule) -> ScheduleEvaluation:
        refuse_broken((Violation("shape", fault) for fault in shape_faults(problem, plan)), "evaluated")
        return evaluate_schedule(problem, plan)

    def to_options(self) -> dict[str, Any]:
        return {"objective": self.objective}


@dataclass(frozen=True, slots=True)
class FiniteRules(_ScheduleRules):
    """Makespan or span of the problem's micro-batches."""

    objective: str = "makespan"
    plan_type = SchedulePlan


@dataclass(frozen=True, slots=True)
class PeriodicRules(_ScheduleRules):
    """The period of a schedule that repeats."""

    objective: str = PERIOD
    plan_type = PeriodicSchedulePlan


def rules_of(problem: ScheduleProblem, options: Mapping[str, Any]) -> Rules:
    """The rules of the objective; a problem without a number of micro-batches is judged by its period alone."""
    if options.get("objective") == PERIOD or problem.micro_batches is None:
        if not any(problem.times):
            raise InputError(
                "blocks",
                "take no time, so that no period is the shortest",
                "give one of them a time, or micro_batches",
            )
        return PeriodicRules()
    return FiniteRules(chosen(options, "objective", SCHEDULE.choices["objective"]))
