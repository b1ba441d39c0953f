"""Curves as a table: a line for each limit, and a column for each curve."""

from __future__ import annotations

from collections.abc import Iterator

from ...studies.sweep import CurvePoint
from ..console import clean, columns, new_table, out
from ..front import Front, Series, verdict
from ..words import Times

# Of values of several curves one fewer than elsewhere, so that the usual methods of chains fit into 80 columns.
DIGITS, FEWER = 7, 6


def draw_table(front: Front) -> None:
    """Print what the curves are, their values with verdicts, and what there is to say of them."""
    page, table, times = out(), new_table(), front.times()
    page.print(clean(f"{front.problem.name}: {front.what}"), soft_wrap=True)
    if front.limits():
        headings = (heading for one in front.series for heading in (one.heading, "gap")[: 1 + one.exact])
        columns(table, clean(",".join([front.axis, *headings, *(heading for heading, _ in front.columns)])))
        for limit, points in front.by_limit():
            cells = (cell for one in front.series for cell in _cells(front, one, points.get(one.name), times))
            others = (text(point, times) for _, text in front.columns for point in points.values())
            table.add_row(front.limit_text(limit).removesuffix(f" {front.axis}"), *cells, *others)
        page.print(table)
        page.print(front.legend)
    for sentence in front.sentences:
        page.print(clean(sentence), soft_wrap=True)


def _cells(front: Front, series: Series, point: CurvePoint | None, times: Times) -> Iterator[str]:
    """The value, and its verdict where the method proves bounds; nothing where no point was reached."""
    if point is None:
        yield ""
    elif point.value is None:
        yield "-*" if point.certified else "-"
    else:
        count = point.batches_per_period or 1
        digits = DIGITS if len(front.series) == 1 else FEWER
        yield f"{count}x " * (count > 1) + times.text(point.value, digits=digits)
    if series.exact:
        yield verdict(point)
