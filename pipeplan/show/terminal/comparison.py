"""The tables of a comparison in the terminal."""

from __future__ import annotations

from string import ascii_uppercase
from typing import TYPE_CHECKING

from ..console import clean, draw_table, out, styled

if TYPE_CHECKING:
    from ...studies.compare.comparison import Comparison


def draw(comparison: Comparison) -> None:
    """Print the values of every case by method, then one line for each method."""
    from ...studies.compare.table import faults
    from ..comparison import LOSS, about, case_cells, method_cells, told_otherwise

    frame = comparison.table()
    if frame.empty:
        out().print(styled("no run has finished"))
        return
    head, rows = case_cells(frame)
    short, key = _shortened(head, rows, set(frame["method"]), out().width)
    _draw_table("values, recomputed by the referee", short, rows, len(head) - frame["method"].nunique())
    if any("%" in cell for row in rows for cell in row):
        out().print(styled(LOSS, "dim"))
    if about(comparison):
        out().print(styled(about(comparison), "dim"))
    if key:
        out().print(styled(key))
    _draw_table("methods, ratios to the best of each case", *method_cells(frame), 1)
    for remark in comparison.expanded.once_remark():
        out().print(styled(remark, "dim"))
    for claim in told_otherwise(comparison):
        out().print(styled(f"claims: {claim}", "bold red"), soft_wrap=True)
    for method, status, message in faults(frame):
        out().print(styled(f"{method}: {status}. {message}"), soft_wrap=True)


# Spaces between two columns.
GAP = 2


def _shortened(head: list[str], rows: list[list[str]], methods: set[str], width: int) -> tuple[list[str], str]:
    """The head, with letters for the methods where their names do not fit, and a line on what the letters mean."""
    cells = [max(map(len, column)) for column in zip(*rows, strict=True)]
    if sum(max(len(name), cell) + GAP for name, cell in zip(head, cells, strict=True)) <= width:
        return head, ""
    letters = dict(zip((name for name in head if name in methods), ascii_uppercase, strict=False))
    key = ", ".join(f"{letter} {name}" for name, letter in letters.items())
    return [letters.get(name, name) for name in head], key


def _draw_table(title: str, head: list[str], rows: list[list[str]], labels: int) -> None:
    """Print a table whose first columns, `labels`, say what each row is about."""
    from rich.table import Table

    table = Table(
        title=styled(title, "bold"),
        title_justify="left",
        box=None,
        header_style="bold",
        padding=(0, GAP, 0, 0),
    )
    for name in head:
        table.add_column(clean(name), no_wrap=True)
    for row in rows:
        table.add_row(*map(styled, row))
    draw_table(table, labels)
