"""Time per micro-batch against memory as a picture: a step curve, proven points filled, even splits beside it."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ...studies.pareto.staging_records import MemoryCurve, MemoryPoint
from ..words import byte_scale, measured
from .canvas import COLOURS, canvas, write_picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MARGIN = 0.05
"""Beyond the last memory, relative to the width, so that the last step is seen."""


def draw_curve(curve: MemoryCurve, path: str | os.PathLike[str]) -> None:
    """The curve into an SVG or PNG file."""
    problem, points = curve.problem, curve.points
    factor, unit = byte_scale(max((point.memory_bytes for point in points), default=1.0))
    with canvas() as figure:
        axes = figure.add_subplot()
        _draw_steps(axes, points, factor, lambda point: point.even, COLOURS[1], "even split")
        _draw_steps(axes, points, factor, lambda point: point.value, COLOURS[0], "best plan")
        _draw_points(axes, points, factor)
        axes.set_xlabel(f"memory of a device ({unit})")
        axes.set_ylabel(measured("time per micro-batch", problem.time_unit))
        axes.set_title(f"{problem.name}, {problem.devices} devices (filled: proven)", fontsize=9)
        if axes.lines:
            axes.legend(frameon=False)
        write_picture(figure, path)


def _draw_steps(
    axes: Axes,
    points: Sequence[MemoryPoint],
    factor: float,
    value_of: Callable[[MemoryPoint], float | None],
    colour: str,
    label: str,
) -> None:
    """From each memory on, its value holds."""
    shown = [(point.memory_bytes / factor, value) for point in points if (value := value_of(point)) is not None]
    if not shown:
        return
    sizes, values = (list(column) for column in zip(*shown, strict=True))
    right = sizes[-1] + MARGIN * (sizes[-1] - sizes[0])
    axes.plot(
        [*sizes, right], [*values, values[-1]], drawstyle="steps-post", color=colour, linewidth=1.5, label=label
    )


def _draw_points(axes: Axes, points: Sequence[MemoryPoint], factor: float) -> None:
    for point in points:
        if point.value is not None:
            face = COLOURS[0] if point.certified else "white"
            axes.scatter(
                [point.memory_bytes / factor], [point.value], s=22, c=[face], edgecolors=COLOURS[0], zorder=3
            )
