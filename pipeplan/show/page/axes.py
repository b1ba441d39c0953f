"""Axes of charts: from values to places, and the round values that are written beside them."""

from __future__ import annotations

import math
from dataclasses import dataclass

# The most steps of an axis: on a phone, and on a wide page.
FEW, MANY = 4, 10
# With more decimals than this, a value is written with an exponent.
MOST_DECIMALS = 9
# Larger numbers are written with an exponent.
LONGEST_WHOLE = 1e10
DIGITS = 4


@dataclass(frozen=True, slots=True)
class Scale:
    """Maps values to positions on one axis."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        span = self.high - self.low
        return self.start + (self.end - self.start) * ((value - self.low) / span if span else 0.5)


def number(value: float) -> str:
    """A value with four digits; a large one is rounded to a whole, because 27137 is read more easily than 2.714e+04."""
    return f"{value:.0f}" if 10**DIGITS <= abs(value) < LONGEST_WHOLE else f"{value:.{DIGITS}g}"


def round_step(span: float, most: int) -> float:
    """The smallest of ..., 1, 2, 5, 10, 20, ... that goes into the span at most `most` times."""
    power = 10.0 ** math.floor(math.log10(span / most))
    return power * next(factor for factor in (1, 2, 5, 10) if factor * power * most >= span * (1 - 1e-9))


def ticks(low: float, high: float, most: int) -> list[tuple[float, str]]:
    """Round values from `low` to `high`, each with its text, in the decimals of the step, so that no two look alike."""
    if high <= low:
        return [(low, number(low))]
    step = round_step(high - low, most)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [(i * step, _written(i * step, step)) for i in range(first, last + 1)]


def _written(value: float, step: float) -> str:
    if not value:
        return "0"
    decimals = max(0, -math.floor(math.log10(step) + 1e-9))
    if decimals > MOST_DECIMALS or abs(value) >= LONGEST_WHOLE:
        return f"{value:.{DIGITS}g}"
    return f"{value:.{decimals}f}"


def round_ends(low: float, high: float, most: int) -> tuple[float, float]:
    """The next round values around two values, where an axis begins and ends."""
    if high <= low:
        low, high = min(0.0, low), max(0.0, high)
    if high <= low:
        return 0.0, 1.0
    step = round_step(high - low, most)
    return step * math.floor(low / step + 1e-9), step * math.ceil(high / step - 1e-9)


def from_zero(low: float, high: float) -> float:
    """Where an axis of these values begins: at 0, unless they lie so close together that they would look the same."""
    return 0.0 if 0.0 <= low < 0.9 * high else low
