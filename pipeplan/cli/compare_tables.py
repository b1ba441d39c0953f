"""The tables of a comparison in the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .console import clean, out, styled
from .progress import number

if TYPE_CHECKING:
    from ..planners.compare.comparison import Comparison


def draw(comparison: Comparison) -> None:
    """Values of every case by method, then one line a method."""
    from ..planners.compare.table import plain_rows, summary
    from ..planners.compare.write import case_cells

    frame = comparison.table()
    if frame.empty:
        out().print(styled("no run has finished"))
        return
    head, rows = case_cells(frame)
    _table("values, recomputed by the referee", head, rows)
    methods = plain_rows(summary(frame))
    titles = [name.replace("_", " ") for name in methods[0]]
    _table("methods", titles, [list(map(_text, row.values())) for row in methods])


def _table(title: str, head: list[str], rows: list[list[str]]) -> None:
    from rich.table import Table

    table = Table(
        title=styled(title, "bold"), title_justify="left", box=None, header_style="bold", padding=(0, 2, 0, 0)
    )
    for name in head:
        table.add_column(clean(name), overflow="fold")
    for row in rows:
        table.add_row(*map(styled, row))
    out().print(table)


def _text(value: Any) -> str:
    return number(value) if isinstance(value, float) else "-" if value is None else str(value)
