"""Documents of several lengths that are packed into sequences: what attention has to do, and how unevenly.

A sequence is filled with documents one after the other, and a token attends to those before it in its own document. So
attention does not grow with L^2, the sequence's length squared, but with the sum of the squares of the documents in it:
on average with the share E[l^2] / (L E[l]) of L^2. All else depends on tokens, of which each sequence has as many.

The sums differ from sequence to sequence, and an iteration ends with its slowest data-parallel rank. A sequence holds
about L / E[l] documents, and by the theorem of renewal rewards the variance of its sum of squares is that of l^2 - r l
times as many, with r = E[l^2] / E[l]. The largest of D sums that are nearly normal lies sqrt(2 ln D) deviations above
the mean: an estimate, which is said and not counted in the seconds.
"""

from __future__ import annotations

import math
import os
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..base.errors import InputError, show
from ..base.json_file import read_text
from ..base.quantities import whole_number

MOST = 10_000
REMEDY = 'give lengths with their shares, as in "4096x0.9,32768x0.1", or a file with one length a line'
_SHARE = re.compile(r"(\d{1,9})x(\d{0,9}\.?\d{1,9})", re.ASCII)


@dataclass(frozen=True, slots=True)
class Length:
    """Documents of one length."""

    tokens: int
    share: float
    """Of all documents, by their number; shares need not add up to 1."""


def check_lengths(lengths: Sequence[Length], sequence: int) -> None:
    if len(lengths) > MOST:
        raise InputError("lengths", f"are {len(lengths)}", f"give at most {MOST}")
    for i, own in enumerate(lengths):
        if not isinstance(own.tokens, int) or not 0 < own.tokens <= sequence:
            raise InputError(f"lengths[{i}]", f"is {own.tokens}", f"give 1 to {sequence}, the tokens of a sequence")
        if not 0 < own.share < math.inf:
            raise InputError(f"lengths[{i}].share", f"is {own.share:g}", "give a number above 0")


def read_lengths(text: str) -> tuple[Length, ...]:
    """Lengths with their shares, or the name of a file with one length a line, whose first line may be a title."""
    if os.path.isfile(text):
        words = [line.split(",")[0].strip() for line in read_text(text).splitlines() if line.strip()]
        numbers = [whole_number(word) for word in words]
        counts = Counter(number for number in numbers[numbers[:1] == [None] :] if number is not None)
        if not counts or sum(counts.values()) < len(words) - 1:
            raise InputError("lengths", "holds a line that is no whole number", REMEDY, text)
        return tuple(Length(tokens, float(count)) for tokens, count in sorted(counts.items()))
    matches = [_SHARE.fullmatch(part.strip()) for part in text.split(",")]
    if None in matches:
        raise InputError("lengths", f"are {show(text)}", REMEDY)
    return tuple(Length(int(match[1]), float(match[2])) for match in matches if match is not None)


def mean_over_tokens(lengths: Sequence[Length], sequence: int, of: Callable[[int], float]) -> float:
    """The mean over all tokens of a function of their document's length; without lengths, of the sequence's."""
    tokens = math.fsum(own.share * own.tokens for own in lengths)
    return (
        math.fsum(own.share * own.tokens * of(own.tokens) for own in lengths) / tokens if lengths else of(sequence)
    )


def spread(lengths: Sequence[Length], sequence: int) -> float:
    """The standard deviation of what attention does for a sequence, as a share of its mean."""
    total = math.fsum(own.share for own in lengths)
    first, second = (math.fsum(own.share * own.tokens**power for own in lengths) / total for power in (1, 2))
    ratio = second / first
    variance = math.fsum(own.share * (own.tokens**2 - ratio * own.tokens) ** 2 for own in lengths) / total
    return math.sqrt(variance * sequence / first) / (ratio * sequence)


def slowest(deviations: float, ranks: int) -> float:
    """How far the largest of so many sums is expected above their mean, by the deviation of one."""
    return deviations * math.sqrt(2 * math.log(ranks)) if ranks > 1 else 0.0
