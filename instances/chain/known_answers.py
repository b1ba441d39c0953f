"""Chains whose best periods are known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

from .problem import ChainProblem

Variant = Literal["general", "contiguous", "unlimited", "two-batches", "fixed", "exclusive"]

# The variants, in order: any allocation; a run of layers on each GPU; no memory limit; two batches per period; the
# allocation that comes with the chain; slots that are never overrun.
VARIANTS: tuple[Variant, ...] = get_args(Variant)


@dataclass(frozen=True)
class KnownChain:
    """A chain, and the shortest period per batch of each variant where it is known; None: no pattern fits."""

    problem: ChainProblem
    answers: Mapping[Variant, float | None]
    source: str
    allocation: tuple[int, ...] | None = None
    """The GPU of each layer, for the variant `fixed`."""
    printed: float | None = None
    """The answer of the model as it was printed, where that is wrong."""

    @property
    def name(self) -> str:
        return self.problem.name
