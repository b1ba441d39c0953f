"""Schedules as plans: when every block starts, once for each micro-batch or once for all of them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from ..base.amounts import as_written
from ..base.errors import InputError, show
from ..base.fields import by_key, each, join, read_plan
from ..base.kind import AnyPlan

EXAMPLE = '{"kind": "schedule", "starts": {"F0": [0, 5], ...}}'
PERIODIC_EXAMPLE = '{"kind": "periodic-schedule", "period": 15, "starts": {"F0": 0, ...}}'

# Later times are refused: times are exact but shown as floats, which end at 1.8e308.
LATEST = 10**300

_RATIO = re.compile(r"-?[0-9]{1,400}(/[0-9]{1,400})?")


@dataclass(frozen=True, repr=False)
class SchedulePlan(AnyPlan):
    """A start for every block of every micro-batch; exact, and judged by the referee alone."""

    starts: Mapping[str, tuple[Fraction, ...]]
    """Starts by the id of the block, one for each micro-batch."""

    kind = "schedule"

    def to_json(self) -> dict[str, Any]:
        starts = {block: [written(time) for time in times] for block, times in self.starts.items()}
        return {"kind": self.kind, "starts": starts}

    @classmethod
    def from_json(cls, data: object, where: str = "plan") -> SchedulePlan:
        """Read a plan object; shape and types are checked, merits are not."""
        if isinstance(data, Mapping) and "period" in data:  # which says nothing here, and is a time where it stands
            exact(join(where, "period"), data["period"])
        return read_plan(cls, cls.kind, where, data, EXAMPLE, starts=by_key(each(exact)))


@dataclass(frozen=True, repr=False)
class PeriodicSchedulePlan(AnyPlan):
    """Micro-batch n starts block b at `starts[b]` + n x `period`."""

    period: Fraction
    starts: Mapping[str, Fraction]

    kind = "periodic-schedule"

    def to_json(self) -> dict[str, Any]:
        starts = {block: written(time) for block, time in self.starts.items()}
        return {"kind": self.kind, "period": written(self.period), "starts": starts}

    @classmethod
    def from_json(cls, data: object, where: str = "plan") -> PeriodicSchedulePlan:
        """Read a plan object; shape and types are checked, merits are not."""
        return read_plan(cls, cls.kind, where, data, PERIODIC_EXAMPLE, period=exact, starts=by_key(exact))


AnySchedule = SchedulePlan | PeriodicSchedulePlan


def written(time: Fraction) -> int | float | str:
    """The time as JSON holds it without loss: a number where its decimals are exact, else a text like "37/3"."""
    if time.denominator == 1:
        return int(time)
    near = float(time)
    return near if as_written(near) == time else f"{time.numerator}/{time.denominator}"


def exact(where: str, value: object) -> Fraction:
    """The exact time in a number or text of a file."""
    remedy = 'give a finite number, or a text like "37/3"'
    if isinstance(value, str) and _RATIO.fullmatch(value):
        numerator, _, denominator = value.partition("/")
        if not int(denominator or 1):
            raise InputError(where, f"is {show(value)}, a division by 0", remedy)
        time = Fraction(int(numerator), int(denominator or 1))
        if abs(time) > LATEST:
            raise InputError(where, f"is {show(value)}, later than 1e300", "give an earlier time")
        return time
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise InputError(where, f"is {show(value)}, not a number", remedy)
    if value != value or value in (float("inf"), float("-inf")):
        raise InputError(where, f"is {show(value)}", remedy)
    return as_written(value)
