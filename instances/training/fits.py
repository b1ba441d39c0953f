"""Whether what a rank holds fits on a GPU, by one definition: for sure, perhaps, or not."""

from __future__ import annotations

from typing import Literal

from ..base.amounts import as_written
from .efficiencies import USUAL_MEMORY_ERROR

Fit = Literal["yes", "maybe", "no"]


def fit_of(held_bytes: float, limit_bytes: float | None, error: float = USUAL_MEMORY_ERROR) -> Fit:
    """`yes` where it fits even if a share `error` more is held, `no` where it does not even if as much less is."""
    if limit_bytes is None:
        return "yes"
    held, limit, share = as_written(held_bytes), as_written(limit_bytes), as_written(error)
    if held * (1 + share) <= limit:
        return "yes"
    return "no" if held * (1 - share) > limit else "maybe"
