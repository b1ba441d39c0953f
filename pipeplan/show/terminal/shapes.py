"""Small pieces that all drawings are made of: bars and tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..console import can_draw

if TYPE_CHECKING:
    from rich.table import Table

BAR_WIDTH = 10
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
