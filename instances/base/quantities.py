"""Quantities with units, as people write them: 30s, 5min, 8GiB, 25GiB/s."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence

_NUMBER = r"(?P<number>[0-9]+(?:\.[0-9]*)?(?:[eE][-+]?[0-9]+)?|\.[0-9]+(?:[eE][-+]?[0-9]+)?)"
_QUANTITY = re.compile(_NUMBER + r"\s*(?P<unit>[A-Za-zµ/]*)")

MIB, GIB = 2**20, 2**30

# No number of layers, devices or sequences has more digits.
MOST_DIGITS = 12

# Units of durations in seconds.
SECONDS = {"": 1.0, "ms": 1e-3, "s": 1.0, "sec": 1.0, "min": 60.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
# Units of the times of problems; where a problem has a unit, a number without one is in that.
TIMES = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, **SECONDS}
BYTES = {
    "": 1.0,
    "B": 1.0,
    **{f"{prefix}B": 1000.0**power for power, prefix in enumerate("kMGT", start=1)},
    **{f"{prefix}iB": 1024.0**power for power, prefix in enumerate("KMGT", start=1)},
}
# Names that a file may have for the unit of its sizes, where that is bytes.
BYTE_NAMES = ("B", "byte", "bytes")
BYTES_PER_SECOND = {"": 1.0} | {f"{unit}/s": factor for unit, factor in BYTES.items() if unit}
FLOPS_PER_SECOND = {"": 1.0} | {f"{prefix}FLOP/s": 1000.0**power for power, prefix in enumerate("GTP", start=3)}


def whole_number(text: str) -> int | None:
    """The whole number that a text of ASCII digits writes; None where it is another text or has too many digits.

    `int` also reads underscores, blanks and the digits of all scripts, and fails on thousands of digits; `str.isdigit`
    is true of superscripts, on which `int` fails.
    """
    digits = text.lstrip("0")
    if not (text.isascii() and text.isdecimal()) or len(digits) > MOST_DIGITS:
        return None
    return int(digits or "0")


def whole_numbers(text: str) -> tuple[int, ...] | None:
    """The whole numbers of a list like 1,2,4, with or without blanks; None where any part is none."""
    numbers = [whole_number(part.strip()) for part in text.split(",")]
    known = tuple(number for number in numbers if number is not None)
    return known if len(known) == len(numbers) else None


def parse_quantity(text: str, units: Mapping[str, float], example: str) -> float:
    """The amount in the base unit, or a `ValueError` that says how to write it."""
    match = _QUANTITY.fullmatch(text.strip())
    if match is None or match["unit"] not in units:
        names = ", ".join(filter(None, units))
        meant = "" if match is None else _meant(match["number"], match["unit"], units)
        raise ValueError(f"{text!r} is not a quantity like {example}{meant}; units: {names}.")
    amount = float(match["number"]) * units[match["unit"]]
    if not math.isfinite(amount):
        raise ValueError(f"{text!r} is too large; give a finite amount like {example}.")
    return amount


_BITS = re.compile(r"(?P<prefix>[kMGT])(?:b/s|bps|bits?/s)")


def _meant(number: str, unit: str, units: Mapping[str, float]) -> str:
    """The quantity that somebody may have meant, in brackets: bits are eighths of bytes, and capitals matter."""
    bits = _BITS.fullmatch(unit)
    if bits is not None and f"{bits['prefix']}B/s" in units:
        return f" ({number}{unit} are {float(number) / 8:g}{bits['prefix']}B/s)"
    similar = unit_like(unit, units)
    return "" if similar is None else f" (did you mean {number}{similar}?)"


# Units by other names for them: without the B for bytes, with the French o for octets, and written out.
OTHER_UNITS = {
    **{f"{prefix}{rest}": f"{prefix}B" for prefix in "kmgt" for rest in ("", "o", "byte", "bytes")},
    **{f"{prefix}i{rest}": f"{prefix}iB" for prefix in "kmgt" for rest in ("", "o")},
    **dict.fromkeys(("seconds", "second", "secs", "sec"), "s"),
    **dict.fromkeys(("minutes", "minute", "mins"), "min"),
    **dict.fromkeys(("hours", "hour", "hr", "hrs"), "h"),
    **dict.fromkeys(("days", "day"), "d"),
    **dict.fromkeys(("milliseconds", "millisecond", "msec"), "ms"),
    **dict.fromkeys(("microseconds", "microsecond", "usec"), "us"),
    **dict.fromkeys(("nanoseconds", "nanosecond", "nsec"), "ns"),
    **{f"{prefix}flops": f"{prefix}flop/s" for prefix in "gtp"},
    "byte": "B",
    "bytes": "B",
}


def unit_like(unit: str, units: Iterable[str]) -> str | None:
    """The unit that is spelt like this but for capitals, or that somebody else calls so."""
    names = [known for known in units if known]
    head, slash, rest = unit.lower().partition("/")
    for word in (unit.lower(), OTHER_UNITS.get(head, head).lower() + slash + rest):
        for known in names:
            if known.lower() == word:
                return known
    return None


def duration(text: str) -> float:
    """Seconds of a written duration such as 30s or 5min."""
    return parse_quantity(text, SECONDS, "30s or 5min")


def short_time(text: str) -> float:
    """Seconds of a written short time such as 5us."""
    return parse_quantity(text, TIMES, "5us")


def tokens(text: str) -> int:
    """The number of tokens in 8192 or 8k: a k is 1,024 of them, as in names of models with long contexts."""
    number = whole_number(text.strip().lower().removesuffix("k"))
    if number is None:
        raise ValueError(f"{text!r} is not a number of tokens; give a whole number, as in 8192 or 8k.")
    return number * (1024 if text.strip().lower().endswith("k") else 1)


def size(text: str) -> float:
    """Bytes of a written size such as 8GiB."""
    return parse_quantity(text, BYTES, "8GiB")


def rate(text: str) -> float:
    """Bytes per second of a written rate such as 25GiB/s."""
    return parse_quantity(text, BYTES_PER_SECOND, "25GiB/s")


def size_or_none(text: str) -> float:
    """Bytes of a written size; the word none (no limit) is infinity here, at the door only."""
    return math.inf if text.strip().lower() == "none" else size(text)


def written_bytes(amount: float) -> str:
    """The amount as `size` reads it, to the last digit, in the unit in which it is shortest."""
    texts = [f"{_short(amount / factor)}{unit}" for unit, factor in BYTES.items() if unit and amount >= factor]
    exact = [text for text in texts if size(text) == amount]
    return min(exact, key=len, default=f"{_short(amount)}B")


def in_thousands(amount: float) -> bool:
    """Has somebody written this number of bytes in multiples of a thousand, as 80GB?"""
    return amount % 10**6 == 0 and amount % 2**20 != 0


def byte_unit(amount: float) -> str:
    """The largest unit of which the amount has at least one: of a thousand where it was written so."""
    units = ("TB", "GB", "MB", "kB") if in_thousands(amount) else ("TiB", "GiB", "MiB", "KiB")
    return next((unit for unit in units if amount >= BYTES[unit]), "B")


def of_limit(held: float, limit: float) -> str:
    """Both numbers of bytes in a larger unit that suits the limit, in brackets; empty where that says nothing new."""
    unit = byte_unit(limit)
    both = [f"{amount / BYTES[unit]:.4g}" for amount in (held, limit)]
    return "" if unit == "B" or both[0] == both[1] else f" ({both[0]} of {both[1]} {unit})"


def with_unit(value: float | None, unit: str | None, digits: int | None = None) -> str:
    """A number with its unit, if it has one: rounded to `digits`, or in full, so that no two numbers look alike."""
    if value is None:
        return "none"
    number = repr(value) if digits is None else f"{value:.{digits}g}"
    return f"{number} {unit or ''}".rstrip()


def several(count: float, noun: str, style: str = "") -> str:
    """1 layer, 2 layers; 1 micro-batch, 2 micro-batches; 1 entry, 2 entries. The style "," sets thousands apart."""
    return f"{count:{style}} {noun if count == 1 else plural(noun)}"


def listed(names: Sequence[str], last: str = "and") -> str:
    """a; a and b; a, b and c."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} {last} {names[-1]}"


def plural(noun: str) -> str:
    if noun.endswith(("ch", "sh", "s", "x")):
        return f"{noun}es"
    return f"{noun[:-1]}ies" if noun[-1] == "y" and noun[-2] not in "aeiou" else f"{noun}s"


def singular(nouns: str) -> str:
    """The noun whose `plural` this is."""
    for end, one in (("ies", "y"), ("ches", "ch"), ("shes", "sh"), ("sses", "ss"), ("xes", "x"), ("s", "")):
        if nouns.endswith(end):
            return nouns.removesuffix(end) + one
    return nouns


def _short(number: float) -> str:
    return str(int(number)) if number == int(number) and number < 1e15 else repr(number)


def share(text: str) -> float:
    """The part of a whole that is written as a number or in percent."""
    try:
        return float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        raise ValueError(f"{text!r} is not a share like 0.01 or 1%.") from None


def levels(text: str) -> tuple[tuple[int, float], ...]:
    """Devices and bytes per second of each level, the innermost first; the word none stands for a flat network."""
    if text.strip().lower() == "none":
        return ()
    entries = []
    for part in text.split(","):
        count, cross, speed = part.partition("x")
        devices = whole_number(count.strip())
        if not cross or devices is None:
            raise ValueError(
                f"{part!r} is not a level like 8x300GB/s; separate levels by commas, the innermost first."
            )
        entries.append((devices, rate(speed)))
    return tuple(entries)
