"""Layouts as people write them today: Megatron's language, its two older options, and lists of layer counts.

A layout is read as text alone; how many layers a model has is known to the profile that it is put on.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from ..base.checks import MAX_DEVICES
from ..base.errors import InputError, show

LETTERS = {
    "E": "the embedding",
    "t": "a transformer layer",
    "m": "a layer that predicts several tokens",
    "L": "the head",
}
MAX_LETTERS = 1_000_000
SIZE, LAYOUT = "--pipeline-model-parallel-size", "--pipeline-model-parallel-layout"
FIRST, LAST = "--decoder-first-pipeline-num-layers", "--decoder-last-pipeline-num-layers"
REMEDY = 'give a text like "Et*8|t*9|t*9|t*6,L", or 8,9,9,6'

_LIST = re.compile(
    r"(?:(?:export )?(?:VLLM|SGLANG)_PP_LAYER_PARTITION=|pp_partition:)?\s*\[?\s*\d+(?:\s*,\s*\d+)*\s*\]?"
)
_REPEATED_GROUP = re.compile(r"\(([^()]+)\)\*(\d+)")
_REPEATED_LETTER = re.compile(r"([^\d*()])\*(\d+)")


@dataclass(frozen=True, slots=True)
class Layout:
    """What each stage holds, in letters; stage i is on rank i mod the number of ranks."""

    stages: tuple[str, ...]
    ranks: int | None = None
    """The number of ranks; None: the text does not say."""


def read_layout(text: str, layers: int, predictors: int = 0) -> Layout:
    """The layout in a text, of a model with so many transformer layers."""
    text = text.strip()
    if _LIST.fullmatch(text):
        counts = [_count(digits) for digits in re.findall(r"\d+", text)]
        return _checked(_of_counts(counts, predictors), layers, predictors, len(counts))
    if "--" not in text:
        return _checked(expanded(text), layers, predictors, None)
    options = _options(text)
    ranks = _whole(SIZE, options[SIZE]) if SIZE in options else None
    if LAYOUT in options:
        return _checked(expanded(options[LAYOUT]), layers, predictors, ranks)
    if ranks is None:
        raise InputError("layout", f"has neither {LAYOUT} nor {SIZE}", REMEDY)
    return _checked(_of_counts(_uneven_ends(options, ranks, layers), predictors), layers, predictors, ranks)


def expanded(text: str) -> tuple[str, ...]:
    """The letters of each stage; commas mean nothing, `(...)*n` and `x*n` repeat."""
    if not text.strip():
        raise InputError("layout", "is empty", REMEDY)
    found = text.strip().replace(",", "")
    for pattern in (_REPEATED_GROUP, _REPEATED_LETTER):
        found = pattern.sub(_repeated, found)
        _refuse_long(len(found))
    for letter in found:
        if letter not in LETTERS and letter != "|":
            known = ", ".join(f"{known} ({what})" for known, what in LETTERS.items())
            remedy = f"give {known}, | between stages, t*8 and (tt|)*4 to repeat"
            raise InputError("layout", f"holds {show(letter)}", remedy)
    return tuple(found.split("|"))


def _repeated(found: re.Match[str]) -> str:
    count = _count(found[2])
    _refuse_long(len(found[1]) * count)
    return found[1] * count


def _count(digits: str) -> int:
    """More digits than Python reads, or zeros before them, are nothing that a layout needs."""
    significant = digits.lstrip("0")
    return MAX_LETTERS + 1 if len(significant) > len(str(MAX_LETTERS)) else int(significant or "0")


def _refuse_long(letters: int) -> None:
    if letters > MAX_LETTERS:
        raise InputError("layout", f"has more than {MAX_LETTERS} letters", "give fewer layers")


def _of_counts(counts: Sequence[int], predictors: int) -> tuple[str, ...]:
    """Embedding with the first layers, head with the last."""
    _refuse_long(sum(counts))
    stages = ["t" * count for count in counts]
    stages[0] = "E" + stages[0]
    stages[-1] += "m" * predictors + "L"
    return tuple(stages)


def _options(text: str) -> dict[str, str]:
    """Options with their values, as a shell reads them; others of Megatron's are no concern of ours."""
    try:
        words = [word for part in shlex.split(text) for word in ([part] if " " in part else part.split("=", 1))]
    except ValueError as error:
        raise InputError(
            "layout", f"cannot be read as options ({str(error).lower()})", "close every quote"
        ) from None
    return {word: value for word, value in pairwise(words) if word.startswith("--")}


def _whole(option: str, text: str) -> int:
    if not (text.isascii() and text.isdecimal()) or not 1 <= int(text[:12]) <= MAX_DEVICES:
        raise InputError(f"layout: {option}", f"is {show(text)}", f"give a whole number from 1 to {MAX_DEVICES}")
    return int(text)


def _uneven_ends(options: Mapping[str, str], ranks: int, layers: int) -> list[int]:
    """Counts by the two options of versions without layouts: the layers that are left are divided evenly."""
    first = _whole(FIRST, options[FIRST]) if FIRST in options else None
    last = _whole(LAST, options[LAST]) if LAST in options else None
    left = layers - (first or 0) - (last or 0)
    middle = ranks - (first is not None) - (last is not None)
    if left < 0 or middle < 0 or (left % middle if middle else left):
        raise InputError(
            "layout",
            f"leaves {left} of {layers} transformer layers for {middle} ranks, which does not divide",
            f"give other numbers, or {LAYOUT}",
        )
    share = left // middle if middle else 0
    ends = [first if first is not None else share, last if last is not None else share]
    return [share] * ranks if ranks == 1 else [ends[0], *[share] * (ranks - 2), ends[1]]


def _checked(stages: tuple[str, ...], layers: int, predictors: int, ranks: int | None) -> Layout:
    """Megatron's own rules, and that the model is this one."""
    letters = "".join(stages)
    for letter, where in (("E", "begin"), ("L", "end")):
        if letters.count(letter) != 1:
            raise InputError(
                "layout",
                f"holds {letter} ({LETTERS[letter]}) {letters.count(letter)} times",
                f"{where} with it, and give it once",
            )
    if not (letters.startswith("E") and letters.endswith("L")):
        raise InputError("layout", "does not begin with E and end with L", REMEDY)
    if "t" in letters[letters.find("m") :] and "m" in letters:
        raise InputError("layout", "holds t behind m", "put all m behind the last t")
    for letter, known in (("t", layers), ("m", predictors)):
        if letters.count(letter) != known:
            raise InputError(
                "layout",
                f"holds {letters.count(letter)} times {letter} ({LETTERS[letter]}), and the profile has {known}",
                "give the layout of this model, or the profile of the other",
            )
    if ranks is not None and len(stages) % ranks:
        raise InputError(
            "layout", f"has {len(stages)} stages for {ranks} ranks", "give each rank equally many stages"
        )
    return Layout(stages, ranks)
