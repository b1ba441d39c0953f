"""Whether what a rank holds fits on a GPU, by one definition: for sure, perhaps, or not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ..base.amounts import as_written
from ..physics.efficiencies import USUAL_MEMORY_ERROR

Fit = Literal["yes", "maybe", "no"]


@dataclass(frozen=True, slots=True)
class Margin:
    """By which share more than predicted a rank may hold, and by which share less.

    They are two: a peak above its prediction is no reason to believe that anything holds less than predicted.
    """

    more: float = USUAL_MEMORY_ERROR
    less: float = USUAL_MEMORY_ERROR


def both_sides(error: float | Margin) -> Margin:
    """One share is meant to both sides."""
    return error if isinstance(error, Margin) else Margin(error, error)


def plain_margin(error: float | Margin) -> dict[str, float]:
    """The margin in JSON; what may be less stands there only where it differs from what may be more."""
    margin = both_sides(error)
    less = {} if margin.less == margin.more else {"memory_error_below": margin.less}
    return {"memory_error": margin.more, **less}


def fit_of(held_bytes: float, limit_bytes: float | None, error: float | Margin = USUAL_MEMORY_ERROR) -> Fit:
    """`yes` where it fits even if the share `more` is held on top, `no` where it does not even if `less` is not."""
    if limit_bytes is None:
        return "yes"
    margin = both_sides(error)
    held, limit = as_written(held_bytes), as_written(limit_bytes)
    if held * (1 + as_written(margin.more)) <= limit:
        return "yes"
    return "no" if held * (1 - as_written(margin.less)) > limit else "maybe"
