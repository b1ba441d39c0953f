"""Loads and memory of devices or stages as two panels of bars."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ..palette import LOADS, MEMORY
from ..view import PlanView, Row
from ..words import MemoryUnit, measured
from .canvas import INK, canvas, explain, legible, wrapped, write_picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Width of the picture, height of a row, and height of all else, in inches.
WIDTH_IN = 9.0
ROW_IN = 0.28
FRAME_IN = 1.7
# The most rows, and the most characters for the name of a row and its layers.
MOST_ROWS, MOST_NAMED = 64, 32
# Loads are drawn up to so many times the largest, whose line then lies within the frame.
ROOM = 1.04


def draw_bars(view: PlanView, path: str | os.PathLike[str]) -> None:
    """Write the picture; the slowest rows are named in bold, and rows beyond `MOST_ROWS` are left out."""
    everything = [(row, table.item) for table in view.tables for row in table.rows]
    rows, left_out = [row for row, _ in everything[:MOST_ROWS]], len(everything[MOST_ROWS:])
    names = [legible(row.named(item, MOST_NAMED)) for row, item in everything[:MOST_ROWS]]
    with canvas(WIDTH_IN, FRAME_IN + ROW_IN * len(rows)) as figure:
        left = f" ({left_out} more are not shown)" if left_out else ""
        figure.suptitle(wrapped(f"{legible(view.name)}: {view.headline}{left}", WIDTH_IN))
        loads, memory = figure.subplots(1, 2, sharey=True, width_ratios=(3, 2))
        _draw_loads(loads, view, rows)
        _name_rows(loads, rows, names)
        _draw_memory(memory, rows, view.memory_unit)
        explain(figure, figure.axes)
        write_picture(figure, path)


def _draw_loads(axes: Axes, view: PlanView, rows: Sequence[Row]) -> None:
    _stack_bars(axes, [row.parts for row in rows], LOADS)
    axes.axvline(view.full_load, color=INK, linestyle=":", linewidth=1, label="the largest load")
    axes.set_xlim(0, ROOM * view.full_load or 1.0)
    axes.set_xlabel(measured("load", view.unit))


def _name_rows(axes: Axes, rows: Sequence[Row], names: Sequence[str]) -> None:
    axes.set_yticks(range(len(rows)), names)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    for row, text in zip(rows, axes.get_yticklabels(), strict=True):
        text.set_fontweight("bold" if row.slowest else "normal")


def _draw_memory(axes: Axes, rows: Sequence[Row], unit: MemoryUnit) -> None:
    amounts = [row.memory_held or 0.0 for row in rows]
    factor, name = unit.scale(max((*amounts, *(row.limit or 0.0 for row in rows)), default=0.0))
    _stack_bars(axes, [row.memory or {} for row in rows], MEMORY, factor)
    limits = [(row.limit / factor, i) for i, row in enumerate(rows) if row.limit is not None]
    for limit, i in limits:
        name_once = "memory limit" if i == limits[0][1] else None
        line = {"color": INK, "linestyle": "--", "linewidth": 1.2, "label": name_once}
        axes.plot([limit] * 2, [i - 0.45, i + 0.45], **line)  # type: ignore[arg-type]
    axes.set_xlabel(measured("memory", name))
    axes.set_xlim(left=0)


def _stack_bars(
    axes: Axes, rows: Sequence[Mapping[str, float]], colours: Mapping[str, str], factor: float = 1.0
) -> None:
    """Draw the parts that occur, one behind the other, in their colours."""
    reached = [0.0] * len(rows)
    for name in dict.fromkeys(name for row in rows for name in row):
        shown = [row.get(name, 0.0) / factor for row in rows]
        if any(shown):
            axes.barh(range(len(rows)), shown, left=reached, color=colours[name], label=name)
        reached = [before + value for before, value in zip(reached, shown, strict=True)]
