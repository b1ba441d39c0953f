"""Amounts and names as words."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from ..instances.cluster import SECONDS
from ..instances.quantities import BYTE_NAMES

BYTES = ("B", "kB", "MB", "GB", "TB")
"""Of a thousand each, as bandwidths and data sheets have them; what is typed may be in GiB."""


def size(count: float) -> str:
    """Bytes for eyes."""
    for unit in BYTES[:-1]:
        if count < 999.5:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} {BYTES[-1]}"


def rate(amount: float, time_unit: str | None) -> str:
    """Bytes per time unit of a problem: in a second, where the unit is known."""
    if time_unit not in SECONDS:
        return f"{size(amount)}/{time_unit or 'time unit'}"
    return f"{size(amount / float(SECONDS[time_unit]))}/s"


def byte_scale(largest: float) -> tuple[float, str]:
    """One unit for sizes that are compared: what to divide bytes by, and what the result is in."""
    power = max((power for power in range(len(BYTES)) if largest >= 1000.0**power), default=0)
    return 1000.0**power, BYTES[power]


@dataclass(frozen=True, slots=True)
class MemoryUnit:
    """What amounts of memory are counted in. Bytes are told in the multiple that suits them, all else as it is."""

    name: str | None = None
    """None: bytes; empty: the source does not say."""

    def text(self, count: float) -> str:
        """For eyes."""
        return size(count) if self.name is None else amount(count, self.name)

    def scale(self, largest: float) -> tuple[float, str]:
        """For amounts that are compared: what to divide them by, and what the result is in."""
        return byte_scale(largest) if self.name is None else (1.0, self.name)


IN_BYTES = MemoryUnit()


def memory_unit(name: str | None) -> MemoryUnit:
    """By the name that a file gives it."""
    return IN_BYTES if name in BYTE_NAMES else MemoryUnit(name or "")


def with_memory(memory_bytes: float | None) -> str:
    """What devices have, behind their number."""
    return "without a memory limit" if memory_bytes is None else f"with memory {size(memory_bytes)}"


def time_scale(largest: float, unit: str | None) -> tuple[float, str | None]:
    """The unit in which a time is between 1 and 1000: what to multiply times by, and what the result is in."""
    if unit not in SECONDS or not largest:
        return 1.0, unit
    names = sorted(SECONDS, key=SECONDS.__getitem__, reverse=True)
    known = (name for name in names if abs(largest) * float(SECONDS[unit] / SECONDS[name]) >= 1)
    name = next(known, names[-1])
    return float(SECONDS[unit] / SECONDS[name]), name


def amount(value: float, unit: str | None, digits: int = 7) -> str:
    """Seven digits are what an eye compares; and the unit where there is one, of times one that suits them."""
    factor, unit = time_scale(value, unit)
    value *= factor
    return f"{value:.{digits}g} {unit or ''}".rstrip()


def measured(what: str, unit: str | None) -> str:
    """What an axis shows, and in which unit where there is one."""
    return f"{what} ({unit})" if unit else what


def several(count: int, what: str) -> str:
    """1 layer, 2 layers."""
    return f"{count} {what}{'' if count == 1 else 's'}"


def plain(value: float, digits: int = 5) -> str:
    """Rounded to so many digits, with all its zeros instead of a power of ten: for columns that are compared."""
    return f"{Decimal(f'{value:.{digits}g}'):f}"


def percent(share: float) -> str:
    """0.1234 as `12.3 %`."""
    return f"{plain(100 * share, 3)} %"
