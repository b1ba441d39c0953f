"""The whole table of Piper's program as a picture: entries as colours, and what more devices are worth."""

from __future__ import annotations

import os
from itertools import cycle
from typing import Any

from ...planners.staging.degree_table import DegreeTable
from ..palette import CATEGORIES
from ..words import measured
from . import canvas

TIME = "time per micro-batch"
CURVES = len(CATEGORIES)
"""At most so many sums of degrees get a curve."""


def draw_table(table: DegreeTable, path: str | os.PathLike[str]) -> None:
    """Left all entries as colours, right the time over the devices for some sums of degrees."""
    import numpy as np

    values = np.array([[np.nan if time is None else time for time in row] for row in table.times])
    with canvas.canvas(10.0, 4.2) as figure:
        left, right = figure.subplots(1, 2)
        _colours(figure, left, np.log10(values), table)
        for colour, style, s in zip(CATEGORIES, cycle(canvas.STYLES), curves(values.shape[1]), strict=False):
            right.plot(
                range(1, len(values) + 1), values[:, s - 1], style, color=colour, label=f"{s}", linewidth=1.2
            )
        right.set(xscale="log", yscale="log", xlabel="devices", ylabel=measured(TIME, table.time_unit))
        right.legend(title="sum of degrees\nat most", loc="center left", bbox_to_anchor=(1.0, 0.5))
        right.grid(True, which="both", linewidth=0.3)
        figure.suptitle(canvas.legible(table.name or ""))
        canvas.write_picture(figure, path)


def _colours(figure: Any, axes: Any, logarithms: Any, table: DegreeTable) -> None:
    k, s = logarithms.shape
    image = axes.imshow(
        logarithms.T, origin="lower", aspect="auto", extent=(0.5, k + 0.5, 0.5, s + 0.5), cmap="viridis"
    )
    axes.set(xlabel="devices", ylabel="sum of data-parallel degrees, at most")
    figure.colorbar(image, ax=axes, label=measured(f"log10 of the {TIME}", table.time_unit))


def curves(most: int) -> list[int]:
    """1, 2, 4, .. and the largest: the last `CURVES` of them."""
    powers = [1 << e for e in range(most.bit_length()) if 1 << e < most]
    return [*powers, most][-CURVES:]
