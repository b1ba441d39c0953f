"""Amounts and names as words."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

from ..instances.base.cluster import SECONDS
from ..instances.base.quantities import BYTE_NAMES, in_thousands
from ..instances.base.quantities import several as several
from ..instances.base.quantities import singular as singular

# Units of a thousand each, as bandwidths and data sheets have them.
BYTES = ("B", "kB", "MB", "GB", "TB")
# Units of 1024 each, as allocators and drivers report memory.
BINARY = ("B", "KiB", "MiB", "GiB", "TiB")
# Larger numbers are written with a power of ten.
LONGEST_WHOLE = 1e10
# Shares below this are what rounded numbers leave over.
NOISE = 1e-9
# How the unit `us`, as files and options spell it, is written for readers.
MICROSECOND = "µs"


def size(count: float, units: Sequence[str] = BYTES) -> str:
    """A number of bytes in the multiple that suits it."""
    step = _step(units)
    for unit in units[:-1]:
        if count < 999.5:
            return f"{count:.3g} {unit}"
        count /= step
    return f"{count:.3g} {units[-1]}" if count < 999.5 else f"{count:.0f} {units[-1]}"


def _step(units: Sequence[str]) -> float:
    return 1024.0 if units == BINARY else 1000.0


def rate(amount: float, time_unit: str | None) -> str:
    """Bytes per time unit of a problem: in a second, where the unit is known."""
    if time_unit not in SECONDS:
        return f"{size(amount)}/{time_unit or 'time unit'}"
    return f"{size(amount / float(SECONDS[time_unit]))}/s"


@dataclass(frozen=True, slots=True)
class MemoryUnit:
    """The unit of amounts of memory. Bytes are written in the multiple that suits them, other units as they are."""

    name: str | None = None
    """Name of the unit; None: bytes; empty: the source does not say."""
    units: tuple[str, ...] = BINARY
    """The multiples of bytes."""

    def text(self, count: float) -> str:
        """An amount with its unit."""
        return size(count, self.units) if self.name is None else amount(count, self.name)

    def scale(self, largest: float) -> tuple[float, str]:
        """Divisor for amounts that are compared, chosen for the largest of them, and the unit of the result."""
        if self.name is not None:
            return 1.0, self.name
        step = _step(self.units)
        power = max((power for power in range(len(self.units)) if largest >= step**power), default=0)
        return step**power, self.units[power]

    def like(self, limits: Iterable[float | None]) -> MemoryUnit:
        """Bytes in multiples of a thousand where somebody has written a limit so, as 80GB."""
        return replace(self, units=BYTES) if any(limit and in_thousands(limit) for limit in limits) else self


IN_BYTES = MemoryUnit()


def memory_unit(name: str | None) -> MemoryUnit:
    """The unit that a file gives by this name."""
    return IN_BYTES if name in BYTE_NAMES else MemoryUnit(name or "")


def with_memory(memory_bytes: float | None) -> str:
    """The memory of devices in words that follow their number."""
    if memory_bytes is None:
        return "without a memory limit"
    return f"with memory {IN_BYTES.like([memory_bytes]).text(memory_bytes)}"


def time_scale(largest: float, unit: str | None) -> tuple[float, str | None]:
    """The unit in which a time is between 1 and 1000: what to multiply times by, and what the result is in."""
    unit = "us" if unit == MICROSECOND else unit
    if unit not in SECONDS:
        return 1.0, unit
    names = sorted(SECONDS, key=SECONDS.__getitem__, reverse=True)
    large_enough = (name for name in names if abs(largest) * float(SECONDS[unit] / SECONDS[name]) >= 1)
    name = next(large_enough, names[-1]) if largest else unit
    return float(SECONDS[unit] / SECONDS[name]), MICROSECOND if name == "us" else name


@dataclass(frozen=True, slots=True)
class Times:
    """Times that are compared, all in the unit that suits the largest of them."""

    factor: float
    """Factor that turns times into this unit."""
    unit: str | None

    @classmethod
    def of(cls, values: Iterable[float | None], unit: str | None) -> Times:
        """The unit that suits the largest of the times; None is ignored."""
        return cls(*time_scale(max((abs(value) for value in values if value is not None), default=0.0), unit))

    def text(self, value: float | None, missing: str = "-", digits: int = 7) -> str:
        """The time without its unit, which stands in the heading."""
        return missing if value is None else f"{value * self.factor:.{digits}g}"

    @property
    def inside(self) -> str:
        """The unit as the end of a heading: ` in ms`; empty where there is none."""
        return f" in {self.unit}" if self.unit else ""


def amount(value: float, unit: str | None, digits: int = 7) -> str:
    """A value with its unit, if any; seven digits are what an eye compares. A time is in the unit that suits it."""
    factor, unit = time_scale(value, unit)
    value *= factor
    text = f"{value:.{digits}g}"
    if "e+" in text and abs(value) < LONGEST_WHOLE:
        text = f"{value:.0f}"
    return f"{text} {unit or ''}".rstrip()


def amount_or(value: float | None, unit: str | None, missing: str = "-", digits: int = 7) -> str:
    """The amount, or a word for an absent one."""
    return missing if value is None else amount(value, unit, digits)


def is_visible(char: str) -> bool:
    """False for control characters, halves of characters, marks of direction, line breaks and what is not assigned."""
    return unicodedata.category(char) not in ("Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp")


def measured(what: str, unit: str | None) -> str:
    """What an axis shows, and in which unit where there is one."""
    return f"{what} ({unit})" if unit else what


def plain(value: float, digits: int = 5) -> str:
    """A value with so many digits, and all its zeros instead of a power of ten: for columns that are compared."""
    return f"{Decimal(f'{value:.{digits}g}'):f}"


def percent(share: float) -> str:
    """0.1234 as `12.3 %`; what sums of rounded numbers leave over is nothing."""
    return f"{plain(0.0 if is_noise(share) else 100 * share, 3)} %"


def is_noise(share: float) -> bool:
    """Is the share of a whole so small that only rounding makes it differ from nothing?"""
    return abs(share) < NOISE
