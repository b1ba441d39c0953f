"""Small pieces that all drawings are made of: bars, sizes, tables."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ...cli.console import can_draw

if TYPE_CHECKING:
    from rich.table import Table

BAR_WIDTH = 10
MAX_DEVICES_DRAWN = 64


def bar(value: float, largest: float, width: int = BAR_WIDTH) -> str:
    """A bar that is full for the largest value."""
    filled = 0 if largest <= 0 else min(width, round(width * value / largest))
    full, empty = ("█", "░") if can_draw("█░") else ("#", ".")
    return full * filled + empty * (width - filled)


def size(count: float) -> str:
    """Bytes for eyes."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 999.5:
            return f"{count:.3g} {unit}"
        count /= 1024
    return f"{count:.3g} TiB"


def limit(memory_bytes: float | None) -> str:
    """A memory limit for eyes."""
    return "no limit" if memory_bytes is None else size(memory_bytes)


def new_table() -> Table:
    """A table without a frame, in what the terminal can draw."""
    from rich.box import ASCII2, SIMPLE_HEAD
    from rich.table import Table

    return Table(box=SIMPLE_HEAD if can_draw("─") else ASCII2, show_edge=False, padding=0)


def columns(table: Table, titles: str, left: str = "") -> None:
    """Columns by their titles, the ones in `left` (and untitled ones) aligned to the left."""
    for title in titles.split(","):
        table.add_column(title, justify="left" if title in ("", *left.split(",")) else "right", no_wrap=True)


def several(count: int, what: str) -> str:
    """1 layer, 2 layers."""
    return f"{count} {what}{'' if count == 1 else 's'}"


NAMES_WIDTH = 68


def names(ids: Iterable[object], width: int = NAMES_WIDTH) -> str:
    """As many as fit on a line, and how many there are besides."""
    texts = [str(name) for name in ids]
    line, shown = "", 0
    for text in texts:
        longer = f"{line}, {text}" if line else text
        if shown and len(longer) > width:
            return f"{line} and {len(texts) - shown} more"
        line, shown = longer, shown + 1
    return line
