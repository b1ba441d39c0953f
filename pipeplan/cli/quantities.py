"""Quantities on the command line: what cannot be read is a usage error of the option."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import wraps
from typing import TypeVar

import typer

from ..instances.base import quantities
from ..instances.base.errors import UsageError, in_digits, show

T = TypeVar("T")


def _option(read: Callable[[str], T]) -> Callable[[str], T]:
    """The reader as a parser of typer, for which a text that cannot be read is a mistake in the option."""

    @wraps(read)
    def parser(text: str) -> T:
        try:
            return read(text)
        except ValueError as error:
            raise typer.BadParameter(str(error)) from None

    return parser


def _whole_size(text: str) -> int:
    from ..instances.base.cluster import MEMORY

    amount = quantities.size(text)
    if 0 < amount < MEMORY.least:
        raise ValueError(
            f"{text!r} means {amount:g} bytes, in which no process runs; write {amount:g}GB if that is meant."
        )
    return math.ceil(amount)


duration = _option(quantities.duration)
size = _option(quantities.size)
whole_size = _option(_whole_size)
rate = _option(quantities.rate)
size_or_none = _option(quantities.size_or_none)
levels = _option(quantities.levels)
share = _option(quantities.share)
time_gap = _option(quantities.time_gap)
short_time = _option(quantities.short_time)


def number(flag: str, text: str, wanted: Callable[[str], float]) -> float:
    """The number that was typed for an option; `wanted` is int or float."""
    try:
        return wanted(text)
    except ValueError:
        kind = "a whole number" if wanted is int else "a number"
        remedy = in_digits(text) or f"; give {kind}, as in {4 if wanted is int else 0.5}"
        raise UsageError(f"{flag} is {show(text)}, not {kind}{remedy}.") from None


def in_bytes(amount: float) -> str:
    """The amount in the unit in which its text is shortest."""
    units = (
        (unit, factor) for unit, factor in quantities.BYTES.items() if unit and (amount >= factor or unit == "B")
    )
    return min((f"{amount / factor:g} {unit}" for unit, factor in units), key=len)
