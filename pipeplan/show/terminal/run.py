"""A run in characters: the answer, ranks and stages as tables, and predicted over measured passes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..console import clean, draw_table, new_table, out, styled
from ..views import run as view_of_run
from .gantt import gantt

if TYPE_CHECKING:
    from ...models.run.report import RunReport

# Columns that are aligned to the left.
LEFT = ("stages", "stage")


def draw_run(report: RunReport) -> None:
    """Print sentences on all cases, and tables and a timeline of the plan alone."""
    console = out()
    for line in (view_of_run.headline(report), *view_of_run.sentences(report)):
        console.print(styled(line), soft_wrap=True)
    _table(view_of_run.RANK_COLUMNS, view_of_run.rank_rows(report.plan))
    _table(view_of_run.STAGE_COLUMNS, view_of_run.stage_rows(report.plan))
    for row in gantt(view_of_run.timeline(report.plan), view_of_run.UNIT):
        console.print(row, soft_wrap=True)


def _table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    drawn = new_table()
    for title in titles:
        drawn.add_column(title, justify="left" if title in LEFT else "right", overflow="fold")
    for row in rows:
        drawn.add_row(*map(clean, row))
    console = out()
    console.print()
    draw_table(drawn)
    console.print()
