"""The tables of a comparison in the terminal."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from string import ascii_uppercase
from typing import TYPE_CHECKING

from ..console import clean, draw_table, out, styled

if TYPE_CHECKING:
    from ...studies.compare.comparison import Comparison


def draw(comparison: Comparison) -> None:
    """Print the values of every case by method, then one line for each method."""
    from ..comparison import CLAIMS, parts_of

    parts = parts_of(comparison)
    if not parts:
        out().print(styled("no run has finished"))
        return
    values, methods = parts["Values"], parts["Methods"]
    names = [row[0] for row in methods.rows]
    head, key = _shortened(values.head, values.rows, names, out().width)
    _draw_table("values, recomputed by the referee", head, values.rows, len(head) - len(names))
    if any("%" in cell for row in values.rows for cell in row):
        out().print(styled(values.note, "dim"))
    if values.remark:
        out().print(styled(values.remark, "dim"))
    if key:
        out().print(styled(key))
    _draw_table("methods, ratios to the best of each case", methods.head, methods.rows, 1)
    for remark in comparison.expanded.once_remark():
        out().print(styled(remark, "dim"))
    for claim in parts[CLAIMS].entries if CLAIMS in parts else ():
        out().print(styled(f"claims: {claim}", "bold red"), soft_wrap=True)
    for failure in parts["Failures"].entries if "Failures" in parts else ():
        out().print(styled(failure), soft_wrap=True)


# Spaces between two columns.
GAP = 2


def _shortened(
    head: Sequence[str], rows: Sequence[Sequence[str]], methods: Collection[str], width: int
) -> tuple[Sequence[str], str]:
    """The head, with letters for the methods where their names do not fit, and a line on what the letters mean."""
    cells = [max(map(len, column)) for column in zip(*rows, strict=True)]
    if sum(max(len(name), cell) + GAP for name, cell in zip(head, cells, strict=True)) <= width:
        return head, ""
    letters = dict(zip((name for name in head if name in methods), ascii_uppercase, strict=False))
    key = ", ".join(f"{letter} {name}" for name, letter in letters.items())
    return [letters.get(name, name) for name in head], key


def _draw_table(title: str, head: Sequence[str], rows: Sequence[Sequence[str]], labels: int) -> None:
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
