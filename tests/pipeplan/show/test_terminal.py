"""Output for narrow terminals, for files and for encodings with few characters: nothing is cut, nothing is garbled."""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Callable

import pytest

from pipeplan.cli import main

CONFIGURE = ("configure", "llama-3-8b", "--devices", "8xh100-80gb", "--sequence", "8192", "--batch", "128")
COMMANDS = [
    ("solve", "figure-4", "--planner", "contiguous"), ("show", "tiny-graph"), ("solve", "tiny-stages"),
    ("solve", "tiny-chain", "--planner", "dp"), ("show", "llama-3-8b-8xh100"), ("show", "resnet-50"),
    ("show", "tiny-levels"), ("memory", "tiny-stages"), (*CONFIGURE, "--judge", "tensor=2 pipeline=2 virtual=2"),
    ("instances",), ("planners",), ("planners", "dp"), ("formulations", "ip-tarnawski"), ("solvers",),
]  # fmt: skip
NUMBER = re.compile(r"\d+\.\d+")
Said = Callable[..., str]


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> Said:
    """What a command prints into a file of an encoding, which takes no other characters."""

    def said(words: tuple[str, ...], encoding: str = "utf-8", columns: int | None = None) -> str:
        file = io.TextIOWrapper(io.BytesIO(), encoding, errors="strict")
        monkeypatch.delenv("COLUMNS", raising=False)
        if columns is not None:
            monkeypatch.setenv("COLUMNS", str(columns))
        monkeypatch.setattr(sys, "stdout", file)
        assert main(list(words)) == 0
        file.flush()
        assert isinstance(file.buffer, io.BytesIO)
        return file.buffer.getvalue().decode(encoding)

    return said


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_few_characters_and_few_columns_garble_nothing(words: tuple[str, ...], said: Said) -> None:
    """A sign of a cut cell, a frame or a bar that ASCII lacks would end the command, or stand as an escape sequence."""
    assert "\\u" not in said(words, "ascii", 40)


@pytest.mark.parametrize("words", COMMANDS[:11], ids=" ".join)
def test_a_file_holds_whole_tables(words: tuple[str, ...], said: Said) -> None:
    """Whatever stands in a table of 2000 columns stands in a file, on as many lines."""
    wide = said(words, columns=2000)
    assert "…" not in wide
    assert sorted(NUMBER.findall(wide)) == sorted(NUMBER.findall(said(words)))


def test_every_degree_and_layout_of_a_shortlist_is_in_the_file(said: Said) -> None:
    """And on a terminal of 80 columns a long layout is cut short, with a sign that it is."""
    degrees = ("tensor=1", "context=1", "pipeline=8", "virtual=2", "zero=1", "micro-batch=1", "recompute=none")
    fixed = [word for degree in degrees for word in ("--fix", degree)]
    words = (*CONFIGURE[:4], "--sequence", "4096", "--batch", "16", "--layers", "14", *fixed)
    lines = said(words).splitlines()
    (heading,) = (i for i, line in enumerate(lines) if line.split()[:2] == ["s", "GiB"] or " layout" in line)
    assert {"p", "v", "d", "b", "zero", "recompute", "layout"} <= set(lines[heading].split())
    assert "1/1/1/1/1/1/1/1/1/1/1/1/1/1/1/1" in lines[heading + 2]
    assert "1/1/1/1/1/1/1/1..." in said(words, columns=80)


def test_a_narrow_table_comes_in_parts_that_lose_nothing(said: Said) -> None:
    words = (*CONFIGURE, "--judge", "tensor=2 pipeline=2 virtual=2")
    wide, narrow = (said(words, columns=columns) for columns in (300, 40))
    assert set(NUMBER.findall(wide)) == set(NUMBER.findall(narrow))
    assert max(map(len, narrow.splitlines())) <= 40
