"""What a schedule costs: period, makespan and span, how long devices idle, and what they hold at most."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from ...base.amounts import as_written
from ..plan import AnySchedule, PeriodicSchedulePlan, written
from ..problem import ScheduleProblem
from .memory import Held, fullest
from .unrolled import unroll


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
        return {
            "period": _written(self.period),
            "makespan": _written(self.makespan),
            "span": _written(self.span),
            "bubble": None if self.bubble is None else float(self.bubble),
            "in_flight": self.in_flight,
            "devices": [
                {
                    "name": use.name,
                    "busy": written(use.busy),
                    "bubble": None if use.bubble is None else float(use.bubble),
                    "peak": written(use.peak),
                    "standing": written(use.standing),
                    "limit": _written(use.limit),
                    "peak_time": written(use.peak_time),
                    "peak_block": use.peak_block,
                    "peak_micro_batch": use.peak_micro_batch,
                }
                for use in self.devices
            ],
        }


def _written(value: Fraction | None) -> int | float | str | None:
    return None if value is None else written(value)


def evaluate_schedule(problem: ScheduleProblem, plan: AnySchedule) -> ScheduleEvaluation:
    """What a plan with a start for every block costs; whether it breaks a rule, `verify_schedule` judges."""
    unrolled = unroll(problem, plan)
    peaks = [fullest(unrolled, d) for d in range(len(problem.devices))]
    period = plan.period if isinstance(plan, PeriodicSchedulePlan) else None
    first, last = _ends(problem, plan)
    batches = 1 if period is not None else problem.micro_batches or 1
    uses = tuple(
        _use(problem, d, peaks[d], unrolled.in_units(peaks[d].time), batches, period, first[d], last[d])
        for d in range(len(problem.devices))
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
        devices=uses,
        computing=problem.computing,
    )


def _ends(problem: ScheduleProblem, plan: AnySchedule) -> tuple[list[Fraction], list[Fraction]]:
    """The first start and the last end on each device, of all micro-batches that the problem has."""
    first, last = [], []
    for blocks in problem.on_device:
        starts = [(problem.blocks[b].id, problem.times[b]) for b in blocks]
        first.append(min((_first(plan, name) for name, _ in starts), default=Fraction(0)))
        last.append(max((_last(problem, plan, name) + time for name, time in starts), default=Fraction(0)))
    return first, last


def _first(plan: AnySchedule, name: str) -> Fraction:
    return plan.starts[name] if isinstance(plan, PeriodicSchedulePlan) else min(plan.starts[name])


def _last(problem: ScheduleProblem, plan: AnySchedule, name: str) -> Fraction:
    if isinstance(plan, PeriodicSchedulePlan):
        return plan.starts[name] + ((problem.micro_batches or 1) - 1) * plan.period
    return max(plan.starts[name])


def _use(
    problem: ScheduleProblem,
    d: int,
    most: Held,
    when: Fraction,
    batches: int,
    period: Fraction | None,
    first: Fraction,
    last: Fraction,
) -> DeviceUse:
    device = problem.devices[d]
    standing = as_written(device.standing)
    return DeviceUse(
        name=device.name,
        busy=problem.loads[d] * batches,
        span=last - first if period is None else period,
        peak=standing + most.amount,
        standing=standing,
        limit=None if device.memory is None else as_written(device.memory),
        peak_time=when,
        peak_block=None if most.block < 0 else problem.blocks[most.block].id,
        peak_micro_batch=most.micro_batch,
    )


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
