"""The `plan` command as tests call it, and what a refusal is."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NamedTuple


class Said(NamedTuple):
    """What a command answered."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Plan = Callable[..., Said]


def in_one_line(text: str) -> str:
    """What a terminal broke into lines."""
    return " ".join(text.split())


def refused(said: Said, *words: str) -> None:
    """Exit code 2 and one sentence on stderr, which has these words; notes may stand beside it, and no output."""
    errors = [line for line in said.err.splitlines() if not line.startswith("Note: ")]
    assert (said.code, said.out, len(errors)) == (2, "", 1), said
    assert errors[0].startswith("Error: "), said
    assert errors[0].endswith("."), said
    for part in words:
        assert part in errors[0], said


def done(said: Said) -> Said:
    """The answer of a command that succeeded."""
    assert said.code == 0, said
    return said


def has(text: str, *parts: str) -> None:
    """The text has all of these parts."""
    missing = [part for part in parts if part not in text]
    assert not missing, text
