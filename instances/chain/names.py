"""How reports name tasks of a chain, print its numbers and tell kinds of bytes apart. Computes no cost."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any

from .problem import ChainProblem


@dataclass(frozen=True, slots=True)
class Terms:
    """Bytes on a GPU at one instant, by kind."""

    weights: float = 0
    kept: float = 0
    current: float = 0
    direct: float = 0
    buffers: float = 0

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def task_name(problem: ChainProblem, task: int) -> str:
    """F3, B3: the direction and the layer from 1."""
    return f"{'F' if task < problem.layers else 'B'}{problem.layer_of[task] + 1}"


def plain(value: Fraction) -> float:
    """A whole number as such, another one as the nearest floating-point number."""
    return value.numerator if value.denominator == 1 else float(value)
