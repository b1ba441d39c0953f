"""Loads and memory of devices or stages as two panels of bars."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..palette import LOADS, MEMORY
from ..view import PlanView, Row
from ..words import MemoryUnit, measured
from .canvas import canvas, legible, write_picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDTH_IN = 9.0
ROW_IN = 0.28
FRAME_IN = 1.6
MOST_ROWS = 64
MOST_NAMED = 32


def draw_bars(view: PlanView, path: str | os.PathLike[str]) -> None:
    """Write the picture; the slowest rows are named in bold, and rows beyond `MOST_ROWS` are left out."""
    everything = [(row, table.item) for table in view.tables for row in table.rows]
    rows, left_out = [row for row, _ in everything[:MOST_ROWS]], len(everything[MOST_ROWS:])
    names = [legible(row.named(item, MOST_NAMED)) for row, item in everything[:MOST_ROWS]]
    with canvas(WIDTH_IN, FRAME_IN + ROW_IN * len(rows)) as figure:
        title = f"{legible(view.name)}: {view.headline}"
        figure.suptitle(title + (f" ({left_out} more are not shown)" if left_out else ""))
        loads, memory = figure.subplots(1, 2, sharey=True, width_ratios=(3, 2))
        _draw_loads(loads, view, rows)
        _name_rows(loads, rows, names)
        _draw_memory(memory, rows, view.memory_unit)
        figure.legend(*loads.get_legend_handles_labels(), loc="outside lower center", ncols=4)
        write_picture(figure, path)


def _draw_loads(axes: Axes, view: PlanView, rows: Sequence[Row]) -> None:
    reached = [0.0] * len(rows)
    names = dict.fromkeys(part for row in rows for part in row.parts)
    for name in names:
        shown = [row.parts.get(name, 0.0) for row in rows]
        if any(shown):
            axes.barh(range(len(rows)), shown, left=reached, color=LOADS[name], label=name)
        reached = [before + value for before, value in zip(reached, shown, strict=True)]
    axes.axvline(view.full_load, color="black", linestyle=":", linewidth=1)
    axes.set_xlabel(measured("load", view.unit))


def _name_rows(axes: Axes, rows: Sequence[Row], names: Sequence[str]) -> None:
    axes.set_yticks(range(len(rows)), names)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    for row, text in zip(rows, axes.get_yticklabels(), strict=True):
        text.set_fontweight("bold" if row.slowest else "normal")


def _draw_memory(axes: Axes, rows: Sequence[Row], unit: MemoryUnit) -> None:
    amounts = [row.memory_held or 0.0 for row in rows]
    factor, name = unit.scale(max((*amounts, *(row.limit or 0.0 for row in rows)), default=0.0))
    axes.barh(range(len(rows)), [amount / factor for amount in amounts], color=MEMORY["held"])
    for i, row in enumerate(rows):
        if row.limit is not None:
            axes.plot([row.limit / factor] * 2, [i - 0.45, i + 0.45], color="black", linestyle="--", linewidth=1.2)
    dashed = "; dashed: the limit" if any(row.limit is not None for row in rows) else ""
    axes.set_xlabel(measured("memory", f"{name}{dashed}".removeprefix("; ")))
    axes.set_xlim(left=0)
