"""Amounts as they are written: what fits into a memory, decided exactly, in this one place.

A number in a file is the decimal that it prints as: 0.1 is a tenth, not the nearest binary fraction. Sums and
products of such numbers are exact fractions, and *fits* means sum <= limit, without any tolerance.

Loops that must be fast work on whole numbers instead (`whole_amounts`): after one common scaling every sum of them
is exact in floating point as well, in any order, so that they compare plainly and need no slack.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

# A number as it was read from a file, or derived by exact arithmetic from numbers that were.
Amount = int | float | Fraction

# Floats hold every whole number up to here.
MOST_EXACT = 2**53

# Relative distance from a limit within which a sum of floats decides nothing.
IN_DOUBT = 1e-12

# Floats below this have fewer digits.
LEAST_CLEAR = 1e-280


@lru_cache(maxsize=2**16)
def _decimal(value: float) -> Fraction:
    return Fraction(float.__repr__(value))  # numpy's floats print differently


def as_written(value: Amount) -> Fraction:
    """The exact value of an amount: of a float, the decimal number that it prints as."""
    if isinstance(value, float) and not (value.is_integer() and abs(value) <= MOST_EXACT):
        return _decimal(value)
    return Fraction(value)


def exact_sum(amounts: Iterable[Amount]) -> Fraction:
    return sum((as_written(amount) for amount in amounts), Fraction(0))


def common_unit(amounts: Iterable[Fraction]) -> Fraction:
    """The largest unit of which all are whole multiples; 0 where there is nothing but zeros."""
    nonzero = [amount for amount in amounts if amount]
    parts = math.lcm(*(amount.denominator for amount in nonzero))
    return Fraction(math.gcd(*(amount.numerator * (parts // amount.denominator) for amount in nonzero)), parts)


def fits(amounts: Iterable[Amount], limit: Amount | None) -> bool:
    """Is the exact sum at most the limit? No limit (None) takes everything.

    Where rounded sums leave no doubt they decide: a decimal is within one part in 10^15 of its float, unless it is
    one of the least numbers, and `fsum` rounds once.
    """
    if limit is None:
        return True
    amounts = list(amounts)
    total, most = math.fsum(amounts), float(limit)
    if max(total, most) > LEAST_CLEAR and abs(total - most) > IN_DOUBT * max(total, most):
        return total < most
    return exact_sum(amounts) <= as_written(limit)


def in_digits(value: Amount) -> str:
    """All digits of an amount, so that two amounts that differ never look alike in a message."""
    exact = as_written(value)
    if exact.denominator == 1:
        return str(exact.numerator)
    denominator, twos, fives = exact.denominator, 0, 0
    while denominator % 2 == 0:
        denominator, twos = denominator // 2, twos + 1
    while denominator % 5 == 0:
        denominator, fives = denominator // 5, fives + 1
    if denominator != 1:  # no decimal number
        return f"{exact.numerator}/{exact.denominator}"
    places = max(twos, fives)
    digits = str(abs(exact.numerator) * 10**places // exact.denominator).rjust(places + 1, "0")
    return f"{'-' if exact < 0 else ''}{digits[:-places]}.{digits[-places:]}"


@dataclass(frozen=True, slots=True)
class WholeAmounts:
    """Amounts and limits in one common unit, as whole numbers.

    `exact`: a sum of amounts fits a limit exactly where the whole numbers say so. Otherwise all amounts were rounded
    the same way. Down: what fits in truth fits here, too, and what fits here may exceed the limit by a hair (about one
    part in 10^12); bounds stay valid then, plans must be checked, as every plan is. Up: what fits here fits in truth.
    """

    amounts: tuple[int, ...]
    limits: tuple[int | None, ...]
    exact: bool


def whole_amounts(
    amounts: Sequence[Amount],
    limits: Sequence[Amount | None],
    most: float = MOST_EXACT,
    copies: int = 1,
    upwards: bool = False,
) -> WholeAmounts:
    """Amounts and limits as whole numbers whose sums stay below `most`, even if each amount comes `copies` times.

    With `most` infinite they are exact in any case, and too large for floats in some.

    An amount above all limits is cut to the largest limit and one unit: it fits nowhere either way.
    """
    numbers = _Numbers.of(amounts, limits)
    whole = numbers.in_units(numbers.common_unit(), copies, upwards)
    if copies * sum(whole.amounts) < most:
        return whole
    # Half of the room, since rounding up and the cut of large amounts add up to a unit for each.
    return numbers.in_units(copies * numbers.total() / (int(most) // 2 - copies * len(amounts)), copies, upwards)


@dataclass(frozen=True, slots=True)
class _Numbers:
    """Amounts as whole multiples of 1 / `parts`, since whole numbers are faster than fractions."""

    amounts: Sequence[int]
    parts: int
    limits: Sequence[Fraction | None]
    ceiling: Fraction | None
    """The largest limit; None: some device takes everything."""

    @classmethod
    def of(cls, amounts: Sequence[Amount], limits: Sequence[Amount | None]) -> _Numbers:
        written = [as_written(amount) for amount in amounts]
        parts = math.lcm(*{number.denominator for number in written})
        bounds = [None if limit is None else as_written(limit) for limit in limits]
        given = [bound for bound in bounds if bound is not None]
        ceiling = max(given) if given and len(given) == len(bounds) else None
        return cls([number.numerator * (parts // number.denominator) for number in written], parts, bounds, ceiling)

    def common_unit(self) -> Fraction:
        """The largest unit of which all are whole multiples."""
        return Fraction(math.gcd(*self.amounts) or 1, self.parts)

    def total(self) -> Fraction:
        """The sum of all amounts, each of them cut at the largest limit."""
        if self.ceiling is None:
            return Fraction(sum(self.amounts), self.parts)
        ceiling = math.ceil(self.ceiling * self.parts)
        return Fraction(sum(min(amount, ceiling) for amount in self.amounts), self.parts)

    def in_units(self, unit: Fraction, copies: int, upwards: bool) -> WholeAmounts:
        numerator, denominator = unit.denominator, unit.numerator * self.parts
        whole = [amount * numerator // denominator for amount in self.amounts]
        left = [amount * numerator % denominator for amount in self.amounts]
        if upwards:
            whole = [number + bool(rest) for number, rest in zip(whole, left, strict=True)]
        # Sums are whole, so that rounding a limit down changes nothing.
        if self.ceiling is not None:
            ceiling = self.ceiling // unit + 1
            whole = [min(number, ceiling) for number in whole]
        most = copies * sum(whole)
        limits = tuple(None if limit is None else min(limit // unit, most) for limit in self.limits)
        return WholeAmounts(tuple(whole), limits, not any(left))


# How problems are told apart: a digest of the facts that can change a plan's value.


def canonical(amount: float) -> float:
    """Equal amounts are written alike: 1 as 1.0, -0.0 as 0.0."""
    return float(amount) + 0.0


def canonical_or_none(amount: float | None) -> float | None:
    return None if amount is None else canonical(amount)


def digest(facts: Any) -> str:
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:16]
