"""The checks that every amount, count, text and id passes at the door, whatever it belongs to."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence, Sized

from .errors import InputError, show
from .quantities import several, unit_like

# Ids are whole numbers and texts; 1 and "1" are two ids.
NodeId = int | str

# Units in which the times of a problem may be.
TIME_UNITS = ("s", "ms", "us", "µs", "ns", "min", "h", "d")
MAX_DEVICES = 100_000
MAX_ID_CHARACTERS = 10_000
MAX_WHOLE_ID = 2**63 - 1
# Amounts are at most this, so that their sums, and their products with small factors, stay finite.
MAX_AMOUNT = 1e100


def check_count(field: str, value: object) -> None:
    """Raise an InputError unless the value is a whole number of devices from 0 to `MAX_DEVICES`."""
    remedy = f"give a whole number from 0 to {MAX_DEVICES}"
    if isinstance(value, bool) or not isinstance(value, int):
        raise InputError(field, f"is {show(value)}, not a whole number", remedy)
    if not 0 <= value <= MAX_DEVICES:
        what = f"is negative ({show(value)})" if value < 0 else f"is {show(value)}, too many"
        raise InputError(field, what, remedy)


def check_whole(field: str, value: object, most: int, least: int = 1) -> None:
    """A whole number from `least` to `most`."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise InputError(field, f"is {show(value)}", f"give a whole number from {least} to {most}")


def check_amount(field: str, value: object) -> None:
    """A finite number >= 0, or an error that says which field is not."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise InputError(field, f"is {show(value)}, not a number", "give a finite number >= 0")
    # Comparisons, unlike math.isnan and math.isinf, take whole numbers of any length.
    if 0 <= value <= MAX_AMOUNT:
        return
    if value > MAX_AMOUNT and value != math.inf:
        raise InputError(field, f"is too large ({show(value)})", f"give a number of at most {MAX_AMOUNT:g}")
    infinite = "is infinite" if value in (math.inf, -math.inf) else f"is negative ({show(value)})"
    raise InputError(field, "is NaN" if value != value else infinite, "give a finite number >= 0")


def check_limit(field: str, value: object) -> None:
    """An amount, or None, which is the caller's: no limit of memory, or a type of device that cannot run the node."""
    if value is not None:
        check_amount(field, value)


def check_positive(field: str, value: object, remedy: str = "give a finite number > 0") -> None:
    """A finite number above 0."""
    check_amount(field, value)
    if not value:
        raise InputError(field, "is 0", remedy)


def check_devices(field: str, value: object) -> None:
    """A number of devices, above 0."""
    check_count(field, value)
    if not value:
        raise InputError(field, "is 0", "give at least one device")


def check_flag(field: str, value: object) -> None:
    if not isinstance(value, bool):
        raise InputError(field, f"is {show(value)}, not a truth value", "give true or false")


def check_known(what: str, value: object, known: Collection[str]) -> None:
    """Raise a ValueError for a word that is not known; users do not write such words, only programs."""
    if value not in known:
        raise ValueError(f"unknown {what} {show(value)}; known: {', '.join(known)}")


def check_size(field: str, entries: Sized, most: int) -> None:
    """Refuse too many entries."""
    if len(entries) > most:
        raise InputError(field, f"has {several(len(entries), 'entry')}", f"give at most {most}")


def check_labels(name: object, time_unit: object) -> None:
    """The texts of every problem: what it is called, and in which unit its times are, where that is known."""
    check_text("name", name)
    if time_unit is not None and time_unit not in TIME_UNITS:
        check_text("time_unit", time_unit)
        meant = unit_like(str(time_unit), TIME_UNITS)
        remedy = f"write {meant}" if meant else f"give one of {', '.join(TIME_UNITS)}, or null where it is unknown"
        raise InputError("time_unit", f"is {show(time_unit)}, which is no unit of time", remedy)


def check_text(field: str, value: object, longest: int = MAX_ID_CHARACTERS) -> None:
    """A text of bounded length that can be written to a file."""
    if not isinstance(value, str):
        raise InputError(field, f"is {show(value)}, not a text", "give a text")
    if len(value) > longest:
        raise InputError(field, f"is a text of {len(value)} characters", f"give at most {longest}")
    if not value.isascii() and any("\ud800" <= character <= "\udfff" for character in value):
        raise InputError(field, f"is {show(value)}, which holds half a character", "give valid Unicode text")


def check_id(field: str, value: object) -> None:
    """A whole number of 64 bits or a text of bounded length."""
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        raise InputError(field, f"is {show(value)}, not an id", "give a whole number or a text")
    if isinstance(value, str):
        check_text(field, value)
    elif abs(value) > MAX_WHOLE_ID:
        raise InputError(field, f"is {show(value)}", "give a whole number of at most 64 bits or a text")


def check_distinct(field: str, what: str, ids: Sequence[NodeId], key: str = "id") -> None:
    """Raise an InputError where two entries of the list `field` have the same `key`, which is an id or a name."""
    first: dict[NodeId, int] = {}
    for i, node_id in enumerate(ids):
        if node_id in first:
            raise InputError(
                f"{field}[{i}].{key}",
                f"repeats {show(node_id)} of {field}[{first[node_id]}]",
                f"give every {what} {'an id' if key == 'id' else 'a name'} of its own",
            )
        first[node_id] = i
