"""The whole table of Piper's program as a picture: entries as colours, and what more devices are worth."""

from __future__ import annotations

import os
from itertools import cycle
from typing import Any

from ...planners.staging.degree_table import DegreeTable
from ..palette import CATEGORIES
from ..words import Times, measured
from . import canvas

TIME = "time per micro-batch"
# The most sums of degrees that get a curve.
CURVES = len(CATEGORIES)


def draw_table(table: DegreeTable, path: str | os.PathLike[str]) -> None:
    """Draw all entries as colours, and below them the time over the devices for some sums of degrees."""
    import numpy as np

    scale = Times.of((time for row in table.times for time in row), table.time_unit)
    values = np.array([[np.nan if time is None else time * scale.factor for time in row] for row in table.times])
    label = measured(TIME, scale.unit)
    with canvas.canvas(5.6, 7.6) as figure:
        above, below = figure.subplots(2, 1)
        _colours(figure, above, values, label)
        for colour, style, s in zip(CATEGORIES, cycle(canvas.STYLES), curves(values.shape[1]), strict=False):
            below.plot(
                range(1, len(values) + 1), values[:, s - 1], style, color=colour, label=f"{s}", linewidth=1.2
            )
        below.set(xscale="log", yscale="log", xlabel="devices", ylabel=label)
        figure.legend(title="sum of degrees, at most", loc="outside lower center", ncols=CURVES)
        below.grid(True, which="both", linewidth=0.3)
        figure.suptitle(canvas.legible(table.name or ""))
        canvas.write_picture(figure, path)


def _colours(figure: Any, axes: Any, values: Any, label: str) -> None:
    k, s = values.shape
    image = axes.imshow(
        values.T, origin="lower", aspect="auto", extent=(0.5, k + 0.5, 0.5, s + 0.5), cmap="viridis", norm="log"
    )
    axes.set(xlabel="devices", ylabel="sum of data-parallel degrees, at most")
    figure.colorbar(image, ax=axes, label=label)


def curves(most: int) -> list[int]:
    """The sums of degrees that get a curve: of 1, 2, 4, ... and `most` the last `CURVES`."""
    powers = [1 << e for e in range(most.bit_length()) if 1 << e < most]
    return [*powers, most][-CURVES:]
