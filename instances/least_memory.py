"""What is known of the least memory with which a problem has a plan, and the sentences that say it.

Sentences round an amount that is enough up, and one that is too little down, so that both stay true.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from .base.amounts import Amount, as_written, in_digits
from .base.fields import to_record
from .base.quantities import in_thousands
from .base.result import Stop
from .registry import Plan

BYTES = "bytes"
# The reason where no single part of the problem proves the lower bound, but a search over all plans does.
SEARCHED = "a search with proofs"


@dataclass(frozen=True, slots=True)
class SmallestMemory:
    """With `memory_bytes` a plan exists (`plan` is one); with less than `lower_bytes` none does.

    Both are amounts of each device, whatever its type.
    """

    memory_bytes: float | None
    """An amount that is enough, in bytes; None: no amount is known to be enough."""
    lower_bytes: float
    proven: bool
    """Do the two meet? Without `memory_bytes`: is it known that no amount is enough?"""
    plan: Plan | None
    stop: Stop
    """Why the search ended."""
    reason: str
    """What proves that every plan needs at least `lower_bytes`, or why no amount is enough."""
    counted: str = field(default=BYTES, kw_only=True)
    """What memory is counted in: a schedule problem may count activations, say, in place of bytes."""

    def to_json(self) -> dict[str, Any]:
        return {key: value for key, value in to_record(self, plan=None).items() if key != "plan"}


def enough(amount: Fraction) -> float:
    """The least number that can be given as a memory and is not below the amount."""
    value = amount.numerator if amount.denominator == 1 else float(amount)
    while as_written(value) < amount:
        value = math.nextafter(value, math.inf)
    return value


def at_most(amount: Fraction) -> float:
    """The largest number that is not above the amount."""
    value = amount.numerator if amount.denominator == 1 else float(amount)
    while as_written(value) > amount:
        value = math.nextafter(value, 0.0)
    return value


# ---- in words -------------------------------------------------------------------------------------------

# Units for all other amounts.
BINARY = (("TiB", 2**40), ("GiB", 2**30), ("MiB", 2**20))
# Units for amounts that somebody has written in powers of ten.
DECIMAL = (("TB", 10**12), ("GB", 10**9), ("MB", 10**6))
# Digits of an amount in words; a whole part with more digits keeps them all.
DIGITS = 4
# Smaller amounts are given in bytes, without a larger unit.
MOST_PLAIN = 2**20


def at_least(amount: Amount, counted: str = BYTES) -> str:
    """An amount in words, rounded down."""
    return _said(amount, counted, math.floor)


def sufficient(amount: Amount, counted: str = BYTES) -> str:
    """An amount in words, rounded up."""
    return _said(amount, counted, math.ceil)


def _said(amount: Amount, counted: str, rounding: Callable[[Fraction], int]) -> str:
    exact = as_written(amount)
    if counted != BYTES:
        return f"{in_digits(exact)} {counted}"
    if exact < MOST_PLAIN:
        return f"{in_digits(exact)} {'byte' if exact == 1 else 'bytes'}"
    return " ".join(_in_a_unit(exact, rounding))


def in_one_unit(amounts: Iterable[Amount], counted: str = BYTES, rounding: Any = math.ceil) -> dict[Amount, str]:
    """Each amount in words, for a table: all in the unit that suits the smallest one."""
    exact = {amount: as_written(amount) for amount in amounts}
    least = min(exact.values(), default=Fraction(0))
    if counted != BYTES or least < MOST_PLAIN:
        return {amount: _said(amount, counted, rounding) for amount in exact}
    decimal = all(in_thousands(float(value)) for value in exact.values())
    unit = next(entry for entry in (DECIMAL if decimal else BINARY) if least >= entry[1])
    return {amount: " ".join(_in_a_unit(value, rounding, (unit,))) for amount, value in exact.items()}


def _in_a_unit(
    exact: Fraction, rounding: Callable[[Fraction], int], units: Sequence[tuple[str, int]] = ()
) -> tuple[str, str]:
    """Digits and unit of an amount; the whole part keeps all its digits, however many."""
    units = units or (DECIMAL if in_thousands(float(exact)) else BINARY)
    unit, factor = next(entry for entry in units if exact >= entry[1])
    value = exact / factor
    step = Fraction(1, 10 ** max(0, DIGITS - len(str(int(value)))))
    return in_digits(rounding(value / step) * step), unit


def option(amount: Amount, counted: str = BYTES) -> str:
    """The amount as the command line takes it: never less than needed, and in a unit that can be read."""
    exact = as_written(amount)
    if counted != BYTES:
        return f"--memory {in_digits(enough(exact))}"
    if exact < MOST_PLAIN:
        return f"--memory {math.ceil(exact)}"
    return f"--memory {''.join(_in_a_unit(exact, math.ceil))}"


def said(least: SmallestMemory) -> str:
    """What is known of the least memory, in one sentence without its full stop."""
    if least.memory_bytes is None:
        if least.proven:
            return f"no amount of memory is enough: {least.reason}"
        return f"no amount of memory is known to be enough; {_bound(least)}"
    if least.proven:
        why = "" if least.reason == SEARCHED else f" by {least.reason}"
        amount = sufficient(least.memory_bytes, least.counted)
        return f"{amount} of memory per device is the smallest amount with a plan (proven{why})"
    return f"{sufficient(least.memory_bytes, least.counted)} of memory per device is enough; {_bound(least)}"


def _bound(least: SmallestMemory) -> str:
    if least.lower_bytes <= 0:
        return "the minimum is not known"
    return f"at least {at_least(least.lower_bytes, least.counted)} is needed, by {least.reason}"
