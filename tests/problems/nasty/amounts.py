"""Amounts, limits, edges and ids: the tables of what leads methods astray, and draws from them."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction

from pipeplan.instances.base.amounts import exact_sum

Arc = tuple[int, int]

SENTINELS = (1e9, 1e12, 1e16, 1e30)
"""What stands for "never do this" in files."""

TIMES: Mapping[str, tuple[float, ...]] = {
    "whole": (1.0, 2.0, 3.0, 5.0, 7.0),
    "ties": (1.0, 1.0, 1.0, 2.0),
    "tenths": (0.1, 0.2, 0.3, 0.7, 1.1, 2.3),
    "digits": (0.123456789, 1.000000001, 0.999999999, 2.718281828, 3.1, 4.412),
    "thirds": (0.3333333333333333, 0.6666666666666666, 1.0),
    "far apart": (1e-9, 3e-9, 1e6, 2e6),
    "spread": (1e-9, 3e-6, 2e-3, 1.0, 4e3, 7e6, 1e9, 2e12),
}
SIZES: Mapping[str, tuple[float, ...]] = {
    "whole": (1, 2, 3, 4),
    "ties": (1, 1, 2),
    "tenths": (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 1.1),
    "thirds": (1 / 3, 2 / 3, 1 / 9, 0.1111111111111111, 0.2, 0.7),
    "bytes": (2**33, 2**33 - 1, 2**33 + 1, 2**33 + 17, 2**33 + 1000, 2**32, 2**30, 1),
    "too many digits": (0.12345678901234567, 98765.43210987654, 1e-7, 33333.333333333336),
    "next to nothing": (0.1, 0.3, 1.3, 1e-9),
    "spread": (1e-9, 2e-3, 1.0, 4e3, 1e12),
}
"""Whole numbers that floats add up exactly cannot hold "too many digits"."""


class Numbers:
    """Amounts of one flavour: zeros often, and in one of four tables sentinels (one, or all of them) now and then."""

    def __init__(self, rng: random.Random, table: Mapping[str, Sequence[float]], zeros: float = 0.25) -> None:
        self.rng, self.zeros = rng, zeros
        self.values = table[rng.choice((*table,))]
        self.sentinels = rng.choice((SENTINELS, *((sentinel,) for sentinel in SENTINELS)))
        self.forbidden = rng.choice((0.15, 0.3)) if rng.random() < 0.25 else 0.0

    def __call__(self) -> float:
        if self.rng.random() < self.forbidden:
            return self.rng.choice(self.sentinels)
        return 0.0 if self.rng.random() < self.zeros else self.rng.choice(self.values)


def limit_at(rng: random.Random, sums: Iterable[Fraction]) -> float | None:
    """A memory that some of the sums meet exactly, or miss by a hair; at times no limit, or nothing at all."""
    candidates = sorted(set(sums) - {Fraction(0)})
    if not candidates or rng.random() < 0.15:
        return rng.choice((None, None, 0.0))
    chosen = rng.choice(candidates)
    way = rng.random()
    if way < 0.5:
        return float(chosen)
    if way < 0.75:
        return math.nextafter(float(chosen), rng.choice((0, math.inf)))
    return float(chosen * (1 + rng.choice((-1, 1)) * rng.choice((Fraction(1, 10**10), Fraction(1, 10**7)))))


def some_sums(rng: random.Random, amounts: Sequence[float], count: int = 8) -> Iterator[Fraction]:
    for _ in range(count):
        yield exact_sum(rng.sample(amounts, rng.randint(1, len(amounts))))


def arcs(rng: random.Random, count: int) -> list[Arc]:
    """From lower to higher positions: none, a row, several parts, a star, or any."""
    pairs = list(itertools.combinations(range(count), 2))
    shape = rng.choice(("none", "row", "parts", "star", "any", "any", "dense"))
    if shape == "none":
        return []
    if shape == "row":
        return [(u, u + 1) for u in range(count - 1)]
    if shape == "parts":
        return [(u, v) for u, v in pairs if u % 2 == v % 2 and rng.random() < 0.7]
    if shape == "star":
        return (
            [(0, v) for v in range(1, count)] if rng.random() < 0.5 else [(u, count - 1) for u in range(count - 1)]
        )
    return [pair for pair in pairs if rng.random() < (0.8 if shape == "dense" else 0.4)]


def ids(rng: random.Random, count: int) -> list[int | str]:
    """Whole numbers, texts, or both: 1 and "1" are two ids."""
    names: list[int | str] = [*range(count)]
    if rng.random() < 0.3:
        names = [name if rng.random() < 0.5 else f"{rng.choice(range(count))} {name}" for name in names]
    rng.shuffle(names)
    return names
