"""A plan in characters: its tables, sentences on them, timelines, and memory over the same time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from ..console import BAR_WIDTH, MAX_DEVICES_DRAWN, bar, can_draw, draw_table, new_table, out, room, styled
from ..view import COUNT, PlanView, Row, Table

if TYPE_CHECKING:
    from rich.table import Table as Drawn
    from rich.text import Text

# Characters of a bar where room is short.
SHORT_BAR = 5
# The most characters of names in the columns `CUT`.
LONGEST_NAME = 12
# Characters of a column that names layers, where there is room for them and where there is not.
NAMES_WIDTH, LEAST_NAMES = 28, 13
# The most characters for the names of one device or stage in a sentence.
MOST_NAMED = 400
# Short titles of columns for a terminal.
SHORT = {
    "computation": "compute",
    "transfers in": "in",
    "transfers out": "out",
    "transfers": "moved",
    "synchronisation": "sync",
    "larger of links and inside": "nested",
}
# Parts of a load that follow from the others, so that no column shows them.
HIDDEN = ("forward", "backward")
# Columns that hold names, which are cut short.
CUT = {"type", "group", "inside"}
# Columns that are left out, in this order, where there is still no room.
SAY_LEAST = ("level", "binds", "after", "held")
# Columns that are aligned to the left.
LEFT = ("type", "group", "inside", "share", "after", "binds", "")


def draw(view: PlanView, unrolled: bool = False, briefly: bool = False) -> None:
    """Print a plan. `unrolled`: all timelines, not the first one alone; `briefly`: without what the answer says."""
    console = out()
    for table in view.tables:
        if table.rows:
            draw_table(_drawn(view, table, room(console)))
        if len(table.rows) > MAX_DEVICES_DRAWN:
            console.print(styled(f"... and {len(table.rows) - MAX_DEVICES_DRAWN} more {table.what}s"))
    sentences = () if briefly else view.sentences
    in_full = list(_in_full(view, room(console)))
    for sentence in filter(None, [view.legend, "full names:" if in_full else "", *in_full, *sentences]):
        console.print(styled(sentence))
    for line in _over_time(view, unrolled) if view.timelines else ():
        console.print(line, soft_wrap=True)


def _over_time(view: PlanView, unrolled: bool) -> Iterator[Text]:
    """The first timeline, memory below it, and the other timelines where they are asked for."""
    from .gantt import gantt, memory_lines  # many plans have no timeline

    yield from gantt(view.timelines[0], view.time_unit)
    yield from map(styled, memory_lines(view))
    for timeline in view.timelines[1:] if unrolled else ():
        yield from gantt(timeline, view.time_unit)


def _in_full(view: PlanView, width: int) -> Iterator[str]:
    """The layers of rows whose column has no room for all of them."""
    for table in view.tables:
        if not table.rows:
            continue
        _, _, names_width = _fitted(view, table, width)
        for row in table.rows[:MAX_DEVICES_DRAWN]:
            if row.held is not None and row.held.text(names_width) != row.held.text():
                yield f"{row.title}: {table.items} {row.held.text(MOST_NAMED)}"


def _fitted(view: PlanView, table: Table, width: int) -> tuple[dict[str, list[str]], int, int]:
    """The columns by title, the width of bars and the width of names that fit into `width` characters. Where
    not all fits, these go in turn: half of each bar, counts and parts of the load, the bars, letters of names,
    and columns that say least."""
    rows = table.rows[:MAX_DEVICES_DRAWN]
    columns = {
        SHORT.get(title, title): cells
        for title, cells in table.columns(rows, view.memory_unit, NAMES_WIDTH).items()
    }
    for title in HIDDEN:
        columns.pop(title, None)
    for title in CUT & columns.keys() | {table.what}:
        columns[title] = [cell[:LONGEST_NAME] for cell in columns[title]]
    room = width - 1 - len("<--") - 2 * max((row.depth for row in rows), default=0)
    less = [COUNT, *(SHORT.get(part, part) for part in table.parts)]
    bar_width = BAR_WIDTH
    while _width(columns) + bar_width > room and (bar_width > SHORT_BAR or less):
        if bar_width > SHORT_BAR:
            bar_width = SHORT_BAR
        else:
            columns.pop(less.pop(0), None)
    names_width, last = NAMES_WIDTH, [title for title in SAY_LEAST if title in columns]
    while _width(columns) + bar_width > room:
        if bar_width:
            bar_width = 0
        elif names_width > LEAST_NAMES and table.items in columns:
            names_width -= 1
            columns[table.items] = table.columns(rows, view.memory_unit, names_width)[table.items]
        elif last:
            columns.pop(last.pop(0))
        else:
            break
    return columns, bar_width, names_width


def _drawn(view: PlanView, table: Table, width: int) -> Drawn:
    """The table with a bar for each load, and with its slowest rows marked."""
    rows = table.rows[:MAX_DEVICES_DRAWN]
    columns, bar_width, _ = _fitted(view, table, width)
    drawn = new_table()
    titles = list(columns)
    if bar_width:
        titles.insert(titles.index("load"), "share")
    for title in (*titles, ""):
        drawn.add_column(
            title, justify="left" if title in (table.what, table.items, *LEFT) else "right", no_wrap=True
        )
    for i, row in enumerate(rows):
        cells = {title: styled(cell[i]) for title, cell in columns.items()}
        cells[table.what] = styled(_indent(row) + columns[table.what][i], "bold" if row.slowest else "")
        cells["share"] = styled(bar(row.load, view.full_load, bar_width), "red" if row.slowest else "cyan")
        drawn.add_row(*(cells[title] for title in titles), styled("<--" if row.slowest else "", "bold red"))
    return drawn


def _indent(row: Row) -> str:
    return ("│ " if can_draw("│") else "| ") * row.depth


def _width(columns: Mapping[str, Sequence[str]]) -> int:
    """Width of a table, with a blank between the columns."""
    return sum(1 + max(map(len, (title, *cells))) for title, cells in columns.items())
