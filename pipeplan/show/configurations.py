"""Training configurations in sentences: what they take, whether they fit, and what would make them fit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..instances.training.problem import GIB
from ..instances.training.words import words_of
from .words import amount, percent

if TYPE_CHECKING:
    from ..instances.training.referee.evaluate import ConfigurationEvaluation
    from ..studies.configure.judge import Judged

FITS = {"yes": "fits", "maybe": "may fit", "no": "does not fit"}
PART_WORDS = {"transient": "what is there for a moment", "reserve": "the reserve"}
SPENT = (
    "products",
    "attention",
    "memory",
    "measured",
    "recomputation",
    "tensor",
    "context",
    "expert",
    "pipeline",
    "data",
    "optimizer",
    "idle",
)
"""What a rank spends its time on, in the order of tables."""


def gib(amount_bytes: float) -> str:
    return f"{amount_bytes / GIB:.2f} GiB"


def told(judged: Judged) -> Iterator[str]:
    """The answer first, then every key, and what is to be changed."""
    own = judged.evaluation
    yield f"{judged.asked or 'the defaults'}: {FITS[judged.fits]}; {memory_in_words(own)}; {time_in_words(own)}."
    yield f"in full: {words_of(judged.plan)}"
    if judged.fits != "yes":
        yield change_in_words(judged)
    yield from (f"note: {note.rstrip('.')}." for note in judged.notes)


def memory_in_words(own: ConfigurationEvaluation) -> str:
    """Of the fullest rank."""
    full = own.fullest
    part = max(full.parts, key=lambda name: full.parts[name])
    share = percent(full.parts[part] / full.bytes)
    limit = "" if own.limit_bytes is None else f" of {own.limit_bytes / GIB:.2f}"
    return (
        f"its fullest rank, on stage {full.rank}, holds {full.bytes / GIB:.2f}{limit} GiB, "
        f"{share} of it {PART_WORDS.get(part, part)}"
    )


def time_in_words(own: ConfigurationEvaluation) -> str:
    """Of an iteration; what is not known is left out."""
    timing = own.timing
    mfu = "" if timing.mfu is None else f", MFU {percent(timing.mfu)}"
    return (
        f"an iteration takes {amount(timing.seconds, 's', 4)} "
        f"({timing.tokens_per_second_per_gpu:,.0f} tokens per second and GPU{mfu})"
    )


def change_in_words(judged: Judged) -> str:
    """By how much it misses, and the least change that was found."""
    full, limit = judged.evaluation.fullest, judged.evaluation.limit_bytes
    assert limit is not None, "without a limit everything fits"
    first = full.rank * judged.plan.degrees.stage_ranks
    over = full.bytes - limit
    error = percent(judged.memory_error)
    missed = (
        f"rank {first} is over by {gib(over)}"
        if over > 0
        else f"rank {first} has {gib(-over)} left, less than the {error} by which memory may be wrong"
    )
    change = judged.change
    if change is None:
        return f"{missed}; neither recomputation, sharding, another layout nor other degrees alone make it fit."
    return f"{missed}; {change.words} {FITS[change.fits]}, with {gib(change.bytes)} on its fullest rank."
