"""Plausible mistakes on the command line: what somebody types, and what the answer has to propose.

They stand in `mistaken_commands.toml`. Words in braces are files that the test makes.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple


class Mistake(NamedTuple):
    """`wrong` is the word that is mistaken; `right` what the answer has to propose in its place, empty: no word."""

    words: str
    wrong: str
    right: str
    place: str = ""
    """What the answer has to name; empty: the mistaken word."""


def misspelt(beginning: str, words: Mapping[str, str]) -> list[Mistake]:
    """A wrong word at the end of a command line."""
    return [Mistake(f"{beginning} {wrong}".strip(), wrong, right) for wrong, right in words.items()]


DATA = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
COMMANDS: Mapping[str, str] = DATA["commands"]
OPTIONS: Mapping[str, str] = DATA["options"]
MICRO_BATCHES = ("--microbatches", "--micro_batches", "--num-microbatches", "--micro-batchs", "--chunks")
MISTAKES = (
    *misspelt("", COMMANDS),
    *misspelt("solve tiny-chain", OPTIONS),
    *misspelt("schedule tiny-stages {plan}", dict.fromkeys(MICRO_BATCHES, "--micro-batches")),
    *(mistake for beginning, names in DATA["names"].items() for mistake in misspelt(beginning, names)),
    *(
        Mistake(f"configure llama-3-8b --devices {wrong} --sequence 8192 --batch 64", wrong, right, wrong[2:])
        for wrong, right in DATA["gpus"].items()
    ),
    *(
        Mistake(f"solve tiny-chain {flag} {wrong}", wrong, right, flag)
        for flag, texts in DATA["quantities"].items()
        for wrong, right in texts.items()
    ),
    *(Mistake(*row) for row in DATA["elsewhere"]),
)
