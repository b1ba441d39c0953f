"""What a rank runs one after the other: forward passes, and backward passes, whole or in two parts."""

from __future__ import annotations

from typing import NamedTuple

# Parts of a backward pass, by the letters of a schedule's file.
WHOLE, INPUTS, WEIGHTS = "", "I", "W"


class RunPass(NamedTuple):
    """One pass of one stage."""

    stage: int
    micro_batch: int
    """Number of the micro-batch from 1, with a sign: + for its forward pass, - for its backward pass."""
    part: str = WHOLE
    """Part of a backward pass: the gradients of the stage's inputs alone, later those of its weights, or both at
    once."""

    @property
    def kind(self) -> str:
        """The letter of the pass in a schedule's file."""
        return "F" if self.micro_batch > 0 else self.part or "B"
