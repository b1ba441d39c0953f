"""Where words go: facts to stdout, everything else to stderr, and nothing from a file is taken as markup."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from .words import MICROSECOND, is_visible

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text


def out() -> Console:
    """Stdout for tables and text; plain where it is no terminal."""
    from rich.console import Console

    class Out(Console):
        def on_broken_pipe(self) -> None:
            """Leave it to our caller: rich would end the program with an exit code that has another meaning here."""
            raise BrokenPipeError

    return Out(file=sys.stdout, highlight=False, markup=False, emoji=False)


def clean(text: object) -> str:
    """Text from outside without control characters: no line breaks, no escape sequences, no direction marks."""
    return "".join(_visible(char) for char in str(text))


def _visible(char: str) -> str:
    if char == MICROSECOND[0] and not can_draw(char):
        return "u"
    return char if is_visible(char) else char.encode("unicode_escape").decode("ascii")


def styled(text: object, style: str = "") -> Text:
    from rich.text import Text

    return Text(clean(text), style=style)


def styled_lines(lines: Sequence[object], style: str = "") -> Text:
    """Several lines as one text in a style."""
    from rich.text import Text

    return Text("\n".join(map(clean, lines)), style=style)


# The words before a message of each kind.
_BEFORE = {"error": "Error: ", "note": "Note: ", "wrote": "wrote "}
# Is stderr JSON lines?
_json_lines = False


def say_in_json_lines(wanted: bool) -> None:
    """From now on write stderr as JSON lines, as `--progress json` promises, or as text again."""
    global _json_lines
    _json_lines = wanted


def say_error(message: object) -> None:
    """Write an error as one sentence on one line."""
    _say("error", message)


def say_note(message: object) -> None:
    _say("note", message)


def say_written(path: str) -> None:
    """Name a file that was written."""
    _say("wrote", path)


def _say(kind: str, message: object) -> None:
    text = clean(message)
    sys.stderr.write((json.dumps({kind: text}) if _json_lines else _BEFORE[kind] + text) + "\n")
    sys.stderr.flush()


def to_json(value: Any) -> str:
    """JSON as it is printed and written: no NaN, no infinity."""
    return json.dumps(value, indent=2, allow_nan=False)


def print_json(value: Any) -> None:
    """Exactly one object on stdout."""
    sys.stdout.write(to_json(value) + "\n")
    sys.stdout.flush()


def tell(as_json: bool, facts: Any, *sentences: str) -> None:
    """Print what a command has done: the facts as JSON for a machine, or sentences for people."""
    if as_json:
        print_json(facts)
        return
    put(*sentences, soft=True)


def put(*lines: object, style: str = "", soft: bool = False) -> None:
    """Print lines of text, but for empty ones and None; `soft` leaves it to the terminal to break them."""
    for line in filter(None, lines):
        out().print(styled(line, style), soft_wrap=soft)


def can_draw(text: str) -> bool:
    """Does stdout's encoding know these characters?"""
    try:
        text.encode(sys.stdout.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def number(value: float | None, missing: str = "-") -> str:
    """A number with seven digits, which are what an eye compares; files hold all digits."""
    return missing if value is None else f"{value:.7g}"


def print_table(rows: Iterable[Mapping[str, Any]]) -> None:
    """One row per mapping, one column per key of the first."""
    rows = list(rows)
    table = new_table(padding=1)
    for i, key in enumerate(rows[0] if rows else ()):
        table.add_column(str(key).replace("_", " "), overflow="fold", no_wrap=i == 0)
    for row in rows:
        table.add_row(*(styled(_cell(value)) for value in row.values()))
    draw_table(table)


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.7g}"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ", ".join(map(_cell, value)) or "-"
    return str(value)


# More characters than any table has in a line.
WIDEST = 1_000_000

# ---- bars and tables, of which all drawings are made ---------------------------------------------------------

# Characters of a bar.
BAR_WIDTH = 10
# The most devices or stages that a table or drawing shows.
MAX_DEVICES_DRAWN = 64


def bar(value: float, largest: float, width: int = BAR_WIDTH) -> str:
    """A bar that is full for the largest value."""
    filled = 0 if largest <= 0 else min(width, round(width * value / largest))
    full, empty = ("█", "░") if can_draw("█░") else ("#", ".")
    return full * filled + empty * (width - filled)


def room(console: Console) -> int:
    """Characters that a line of a table may have: a file or a pipe has room for all, unless COLUMNS says otherwise."""
    return console.width if console.is_terminal or "COLUMNS" in os.environ else WIDEST


def draw_table(table: Table, labels: int = 1) -> None:
    """Print a table of which nothing is cut off.

    Where there is too little room it comes in parts below each other, each time behind the first `labels` columns.
    """
    from rich.measure import Measurement

    console = out()
    options = console.options.update(width=WIDEST)
    console.width = max(console.width, min(room(console), Measurement.get(console, options, table).maximum))
    widths = []  # all of a line where a column must not be wrapped, else its longest word
    for column in table.columns:
        sizes = [Measurement.get(console, options, cell) for cell in (column.header, *column.cells)]
        widths.append(max(size.maximum if column.no_wrap else size.minimum for size in sizes))
    gap = (table.box is not None) + sum(table.padding[1::2])  # padding is above, right, below and left
    for block in _blocks(widths, gap, labels, console.width):
        part = copy(table)
        part.columns = [replace(table.columns[i], _index=place) for place, i in enumerate(block)]
        for i, column in zip(block, part.columns, strict=True):
            column.overflow, column.no_wrap = "fold", column.no_wrap and widths[i] <= console.width
        console.print(part)
        table.title = None


def _blocks(widths: Sequence[int], gap: int, labels: int, width: int) -> Iterator[list[int]]:
    """Columns that fit beside each other, each time behind the first `labels`."""
    first = list(range(min(labels, len(widths))))
    block = first
    for i in range(len(first), len(widths)):
        if len(block) > len(first) and sum(widths[j] + gap for j in (*block, i)) - gap > width:
            yield block
            block = first
        block = [*block, i]
    yield block


def new_table(padding: int = 0) -> Table:
    """A table without a frame, in what the terminal can draw; `padding` adds blanks between columns."""
    from rich.box import ASCII2, SIMPLE_HEAD
    from rich.table import Table

    return Table(
        box=SIMPLE_HEAD if can_draw("─") else ASCII2, show_edge=False, pad_edge=False, padding=(0, padding)
    )


def draw_rows(
    titles: Sequence[str],
    rows: Iterable[Sequence[object]],
    left: str = "",
    bold: Container[int] = (),
    labels: int = 1,
) -> None:
    """Print rows of text below their titles: columns whose titles are in `left`, or empty, are aligned to the left, and
    rows with the numbers in `bold` are bold. The first `labels` columns say what a row is about."""
    table = new_table()
    for title in titles:
        justify: Any = "left" if title in ("", *left.split(",")) else "right"
        table.add_column(clean(title), justify=justify, no_wrap=True)
    for i, row in enumerate(rows):
        table.add_row(*(styled(cell, "bold" if i in bold else "") for cell in row))
    draw_table(table, labels)
