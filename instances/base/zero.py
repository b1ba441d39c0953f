"""ZeRO: which of a parameter's states data-parallel replicas divide among them, for problems of every kind.

Stage 1 divides the optimizer's states, stage 2 the gradients as well, stage 3 also the weights. In stages 0 and 1
replicas scatter their gradients and gather weights once for all micro-batches between two updates; from stage 2 on
gradients are scattered in every backward pass, and in stage 3 weights are gathered in every pass.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from .amounts import Amount, as_written
from .errors import InputError, show

STAGES = (0, 1, 2, 3)
# Units of the network whose parameters a device holds whole in stage 3: the weights of the unit that runs and of the
# next one, and a gradient.
GATHERED_UNITS = 3
WITHOUT_REPLICAS = (
    "--zero divides what data-parallel replicas hold alike, and there are none here; add --data-parallel (stagings) or "
    "--replicas 8 (chains)."
)


@dataclass(frozen=True, slots=True)
class Bytes:
    """Bytes of one parameter: `whole` on every data-parallel rank, and `shared` divided among these ranks."""

    whole: float = 0
    shared: float = 0

    def on(self, shards: int) -> float:
        return self.whole + self.shared / shards


def copies_by(zero: int, copies: int) -> Bytes:
    """Copies of a parameter (weights, gradients, and the others for the optimizer), as a ZeRO stage divides them."""
    whole = {0: copies, 1: 2, 2: 1, 3: 0}[zero]
    return Bytes(whole, copies - whole)


def share_of(amount: Amount, shards: int) -> Fraction:
    """One of `shards` equal parts, filled up to whole bytes, as frameworks pad it, and never more than all."""
    exact = as_written(amount)
    return exact if shards == 1 else min(exact, Fraction(math.ceil(exact / shards)))


def check_zero(field: str, value: object) -> None:
    if isinstance(value, bool) or value not in STAGES:
        raise InputError(field, f"is {show(value)}", "give a ZeRO stage: 0, 1, 2 or 3")
