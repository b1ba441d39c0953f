"""Where words go: facts to stdout, everything else to stderr, and nothing from a file is taken as markup."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
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


def in_json_lines() -> bool:
    return _json_lines


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
    for sentence in sentences:
        out().print(styled(sentence), soft_wrap=True)


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
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    rows = list(rows)
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for i, key in enumerate(rows[0] if rows else ()):
        table.add_column(str(key).replace("_", " "), overflow="fold", no_wrap=i == 0)
    for row in rows:
        table.add_row(*(styled(_cell(value)) for value in row.values()))
    out().print(table)


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


def new_table() -> Table:
    """A table without a frame, in what the terminal can draw."""
    from rich.box import ASCII2, SIMPLE_HEAD
    from rich.table import Table

    return Table(box=SIMPLE_HEAD if can_draw("─") else ASCII2, show_edge=False, padding=0)


def columns(table: Table, titles: str, left: str = "") -> None:
    """Columns by their titles, the ones in `left` (and untitled ones) aligned to the left."""
    for title in titles.split(","):
        table.add_column(title, justify="left" if title in ("", *left.split(",")) else "right", no_wrap=True)
