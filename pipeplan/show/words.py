"""Amounts and names as words: quantities with their units, and which layers a device or a stage holds, as ranges in the
order in which they run."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import groupby, takewhile
from typing import Any

from ..instances.base.cluster import SECONDS
from ..instances.base.graph import Graph
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


# ---- names of layers and nodes --------------------------------------------------------------------------------


# What stands for the part that is cut out of a name.
DOTS = ".."
# The fewest characters to which a name is shortened.
LEAST_NAME = 2 + len(DOTS)
# Characters that stand between the parts of a name.
SEPARATORS = "./_"
# A name that ends in a number.
NUMBERED = re.compile(r"(.*?)(\d+)", re.DOTALL)


def shortened(text: str, most: int) -> str:
    """The name in `most` characters, or `LEAST_NAME` if that is more. It is cut behind parts that end in a number, as
    `branch0.1`, or else in its middle: the beginning says what it is, and the end which one. A number is kept whole
    where there is room for it."""
    if len(text) <= most:
        return text
    kept = max(most, LEAST_NAME) - len(DOTS)
    whole = re.match(r".*\d(?=[./_])", text[: kept + 1])
    if whole:
        return whole[0] + DOTS
    end = len(text) - kept // 2
    number = re.search(r"\d+$", text[:end])
    if number and text[end : end + 1].isdigit() and len(text) - number.start() < kept:
        end = number.start()
    start = text[: kept - (len(text) - end)]
    if text[len(start)].isdigit():
        start = start.rstrip("0123456789") or start
    return (start.rstrip(SEPARATORS) or start) + DOTS + text[end:].lstrip(SEPARATORS)


@dataclass(frozen=True, slots=True)
class Range:
    """Names that follow each other, by the first and the last."""

    first: str
    last: str

    def text(self, most: int | None = None) -> str:
        """`0-9`, `layer 0-9`, `layer3-layer9`, or `layer3-9` where there is no room for that. Parts
        that the last name shares with the first are left out before anything is cut."""
        if self.first == self.last:
            return self.first if most is None else shortened(self.first, most)
        start, end = NUMBERED.fullmatch(self.first), NUMBERED.fullmatch(self.last)
        numbered = f"{self.first}-{end[2]}" if start and end and start[1] == end[1] else ""
        if numbered and start and (not start[1] or start[1].endswith(" ")):
            return numbered if most is None else shortened(numbered, most)
        between = " to " if "-" in self.first + self.last else "-"
        # The whole parts with which both begin tell neither from the other.
        pairs = takewhile(lambda pair: pair[0] == pair[1], zip(self.first, self.last, strict=False))
        common = "".join(char for char, _ in pairs)
        last = self.last[max(common.rfind(separator) for separator in SEPARATORS) + 1 :]
        for text in filter(None, (f"{self.first}{between}{self.last}", numbered, f"{self.first}{between}{last}")):
            if most is None or len(text) <= most:
                return text
        assert most is not None, "the first text is whole"
        return between.join(_both_shortened(self.first, last, most - len(between)))


def _both_shortened(first: str, last: str, most: int) -> tuple[str, str]:
    """Both names in half of the room each; a name that needs less leaves the rest to the other."""
    half = most // 2
    if len(first) <= half:
        return first, shortened(last, most - len(first))
    if len(last) <= half:
        return shortened(first, most - len(last)), last
    return shortened(first, most - half), shortened(last, half)


@dataclass(frozen=True, slots=True)
class Held:
    """The layers or nodes that a device or a stage holds."""

    ranges: tuple[Range, ...]
    count: int

    def text(self, most: int | None = None) -> str:
        """All ranges, or as many as fit in `most` characters, and how many more there are."""
        texts = [part.text(most) for part in self.ranges]
        if most is None or len(texts) < 2 or len(", ".join(texts)) <= most:
            return ", ".join(texts)
        for shown in range(len(texts) - 1, 0, -1):
            line = f"{', '.join(texts[:shown])}, +{len(texts) - shown}"
            if len(line) <= most:
                return line
        more = f", +{len(texts) - 1}"
        return self.ranges[0].text(most - len(more)) + more

    def named(self, what: str, most: int | None = None) -> str:
        """The ranges behind their noun, if there is room: `layer 3`, `layers 3-9`; `layer3-layer9` needs no noun."""
        if not self.ranges:
            return f"no {what}s"
        if self.ranges[0].first.startswith(what):
            return self.text(most)
        whole = f"{what if self.count == 1 else f'{what}s'} {self.text()}"
        return whole if most is None or len(whole) <= most else self.text(most)


class Order:
    """The names of all layers or nodes of a problem in the order in which they run."""

    def __init__(self, names: Mapping[Any, str]) -> None:
        self.names = tuple(names.values())
        self.place = {name: i for i, name in enumerate(names)}

    def fold(self, ids: Iterable[Hashable], implied: Collection[Hashable] = ()) -> Held:
        """The ids as ranges of neighbours in this order. Ids that the order lacks are left out; `implied` ones are
        counted and not named."""
        members = {name for name in ids if name in self.place}
        places = sorted(self.place[name] for name in members.difference(implied))
        # Neighbours are as far from their places in the row of all ids as in the row of these.
        runs = (list(run) for _, run in groupby(enumerate(places), key=lambda pair: pair[1] - pair[0]))
        ranges = tuple(Range(self.names[run[0][1]], self.names[run[-1][1]]) for run in runs)
        return Held(ranges, len(members))

    def first(self, ids: Iterable[Hashable]) -> int:
        """The place of the first of the ids; behind all places where the order has none of them."""
        return min((self.place[name] for name in ids if name in self.place), default=len(self.names))


def order_of(problem: Graph, parts: Sequence[object]) -> Order:
    """The order of the input where that leads along all edges, else a topological one. `parts` are the layers or nodes
    of the problem: they are called by their names where all have different ones, else by their ids."""
    names = [getattr(part, "name", None) for part in parts]
    is_named = None not in names and len(set(names)) == len(names)
    texts = [str(name) for name in (names if is_named else problem.ids)]
    is_sorted = all(u < v for u, v in problem.arcs)
    places = range(len(texts)) if is_sorted else problem.topological_order
    return Order({problem.ids[i]: texts[i] for i in places})
