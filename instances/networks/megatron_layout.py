"""Layouts as people write them today: Megatron's language, its two older options, and lists of layer counts.

A layout is read as text alone; the caller says how many layers the model has.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from ..base.checks import MAX_DEVICES
from ..base.errors import InputError, show
from ..base.quantities import whole_number

# What each letter of a layout stands for.
LETTERS = {
    "E": "the embedding",
    "t": "a transformer layer",
    "m": "a layer that predicts several tokens",
    "L": "the head",
}
# Longer layouts are refused before they fill the memory: a few letters with factors unfold to any length.
MAX_LETTERS = 1_000_000
SIZE, LAYOUT = "--pipeline-model-parallel-size", "--pipeline-model-parallel-layout"
FIRST, LAST = "--decoder-first-pipeline-num-layers", "--decoder-last-pipeline-num-layers"
REMEDY = 'give a text like "Et*8|t*9|t*9|t*6,L", or 8,9,9,6'

# Layer counts such as "8,9,9,6", bare, in brackets, or as other programs name them.
_LIST = re.compile(
    r"(?:(?:export )?(?:VLLM|SGLANG)_PP_LAYER_PARTITION=|pp_partition:)?\s*\[?\s*\d+(?:\s*,\s*\d+)*\s*\]?"
)
_REPEATED_GROUP = re.compile(r"\(([^()]+)\)\*([0-9]+)")
_REPEATED_LETTER = re.compile(r"([^0-9*()])\*([0-9]+)")


@dataclass(frozen=True, slots=True)
class Layout:
    """What each stage holds, in letters; stage i is on rank i mod the number of ranks."""

    stages: tuple[str, ...]
    ranks: int | None = None
    """The number of ranks; None: the text does not say."""


def read_layout(text: str, layers: int, predictors: int = 0) -> Layout:
    """The layout in a text, of a model with so many transformer layers and layers that predict several tokens."""
    text = text.strip()
    if _LIST.fullmatch(text):
        counts = [_count(digits) for digits in re.findall(r"[0-9]+", text)]
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
    """The letters of each stage; commas mean nothing, `(...)*n` and `x*n` repeat.

    Trainings read `layout=` and Megatron's flags by it as well. Its rules are Megatron's own.
    """
    if not text.strip():
        raise InputError("layout", "is empty", REMEDY)
    letters = text.strip().replace(",", "")
    for pattern in (_REPEATED_GROUP, _REPEATED_LETTER):
        # Before anything is repeated: many repetitions that are short enough alone may be too long in all.
        _refuse_long(sum(len(match[1]) * _count(match[2]) for match in pattern.finditer(letters)))
        letters = pattern.sub(lambda match: match[1] * _count(match[2]), letters)
        _refuse_long(len(letters))
    for letter in letters:
        if letter not in LETTERS and letter != "|":
            listed = ", ".join(f"{name} ({what})" for name, what in LETTERS.items())
            remedy = f"give {listed}, | between stages, t*8 and (tt|)*4 to repeat"
            raise InputError("layout", f"holds {show(letter)}", remedy)
    return tuple(letters.split("|"))


def _count(digits: str) -> int:
    """The number in digits; one with too many of them counts as one above `MAX_LETTERS`, which `expanded` refuses."""
    number = whole_number(digits)
    return MAX_LETTERS + 1 if number is None else number


def _refuse_long(letters: int) -> None:
    if letters > MAX_LETTERS:
        raise InputError("layout", f"has more than {MAX_LETTERS} letters", "give fewer layers")


def _of_counts(counts: Sequence[int], predictors: int) -> tuple[str, ...]:
    """Letters of stages with so many layers; the embedding is in the first stage, the head in the last."""
    _refuse_long(sum(counts))
    stages = ["t" * count for count in counts]
    stages[0] = "E" + stages[0]
    stages[-1] += "m" * predictors + "L"
    return tuple(stages)


def _options(text: str) -> dict[str, str]:
    """All options with their values, as a shell reads them; those that say nothing of a layout are never looked at."""
    try:
        words = [word for part in shlex.split(text) for word in ([part] if " " in part else part.split("=", 1))]
    except ValueError as error:
        raise InputError(
            "layout", f"cannot be read as options ({str(error).lower()})", "close every quote"
        ) from None
    return {word: value for word, value in pairwise(words) if word.startswith("--")}


def _whole(option: str, text: str) -> int:
    number = whole_number(text)
    if number is None or not 1 <= number <= MAX_DEVICES:
        raise InputError(f"layout: {option}", f"is {show(text)}", f"give a whole number from 1 to {MAX_DEVICES}")
    return number


def _uneven_ends(options: Mapping[str, str], ranks: int, layers: int) -> list[int]:
    """Layers of each rank by Megatron's two older options: ranks whose layers are not given share the rest evenly."""
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
    return [layers] if ranks == 1 else [ends[0], *[share] * (ranks - 2), ends[1]]


def _checked(stages: tuple[str, ...], layers: int, predictors: int, ranks: int | None) -> Layout:
    """The layout, if it obeys Megatron's rules and holds the model's own numbers of layers."""
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
    for letter, count in (("t", layers), ("m", predictors)):
        if letters.count(letter) != count:
            raise InputError(
                "layout",
                f"holds {letters.count(letter)} times {letter} ({LETTERS[letter]}), and the profile has {count}",
                "give the layout of this model, or the profile of the other",
            )
    if ranks is not None and len(stages) % ranks:
        raise InputError(
            "layout", f"has {len(stages)} stages for {ranks} ranks", "give each rank equally many stages"
        )
    return Layout(stages, ranks)
