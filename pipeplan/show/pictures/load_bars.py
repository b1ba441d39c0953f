"""Loads and memory of devices or stages as two panels of bars: what placements and stagings have in common."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .canvas import COLOURS, canvas, write_picture
from .scales import byte_scale

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDTH_IN = 9.0
ROW_IN = 0.28
FRAME_IN = 1.6
MOST_ROWS = 64


@dataclass(frozen=True)
class Bars:
    """One row per device or stage; `parts` add up to its load."""

    title: str
    names: Sequence[str]
    parts: Mapping[str, Sequence[float]]
    memory_bytes: Sequence[float | None]
    """None: the row has no memory of its own."""
    limit_bytes: Sequence[float | None]
    unit: str | None

    def load(self, row: int) -> float:
        return sum(values[row] for values in self.parts.values())


def draw_bars(bars: Bars, path: str | os.PathLike[str]) -> None:
    """Write the picture; the slowest row is named in bold, and rows beyond `MOST_ROWS` are left out."""
    rows = range(min(len(bars.names), MOST_ROWS))
    left_out = len(bars.names) - len(rows)
    with canvas(WIDTH_IN, FRAME_IN + ROW_IN * len(rows)) as figure:
        figure.suptitle(bars.title + (f" ({left_out} more are not shown)" if left_out else ""))
        loads, memory = figure.subplots(1, 2, sharey=True, width_ratios=(3, 2))
        _draw_loads(loads, bars, rows)
        _draw_memory(memory, bars, rows)
        figure.legend(*loads.get_legend_handles_labels(), loc="outside lower center", ncols=4)
        write_picture(figure, path)


def _draw_loads(axes: Axes, bars: Bars, rows: range) -> None:
    reached = [0.0] * len(rows)
    for (name, values), colour in zip(bars.parts.items(), COLOURS, strict=False):
        shown = [values[row] for row in rows]
        if any(shown):
            axes.barh(list(rows), shown, left=reached, color=colour, label=name)
        reached = [before + value for before, value in zip(reached, shown, strict=True)]
    slowest = max(range(len(bars.names)), key=bars.load)
    axes.axvline(bars.load(slowest), color="black", linestyle=":", linewidth=1)
    axes.set_yticks(list(rows), [bars.names[row] for row in rows])
    axes.set_ylim(len(rows) - 0.5, -0.5)
    for row, text in zip(rows, axes.get_yticklabels(), strict=True):
        text.set_fontweight("bold" if row == slowest else "normal")
    axes.set_xlabel(f"load ({bars.unit})" if bars.unit else "load")


def _draw_memory(axes: Axes, bars: Bars, rows: range) -> None:
    amounts = [bars.memory_bytes[row] for row in rows]
    limits = [bars.limit_bytes[row] for row in rows]
    factor, unit = byte_scale(max((amount for amount in (*amounts, *limits) if amount is not None), default=0.0))
    axes.barh(list(rows), [(amount or 0.0) / factor for amount in amounts], color=COLOURS[6])
    for row, limit in zip(rows, limits, strict=True):
        if limit is not None:
            axes.plot([limit / factor] * 2, [row - 0.45, row + 0.45], color="black", linestyle="--", linewidth=1.2)
    dashed = "; dashed: the limit" if any(limit is not None for limit in limits) else ""
    axes.set_xlabel(f"memory ({unit}{dashed})")
    axes.set_xlim(left=0)
