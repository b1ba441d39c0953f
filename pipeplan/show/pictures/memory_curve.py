"""A value against memory as a picture: a step curve, proven points filled, even splits or named rules beside it."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ...studies.pareto.schedules import ScheduleCurve
from ...studies.pareto.staging_records import MemoryCurve, MemoryPoint
from ..palette import CATEGORIES
from ..words import IN_BYTES, MemoryUnit, measured, memory_unit
from .canvas import GROUND, THICK, THIN, canvas, explain, write_picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MARGIN = 0.05
"""Beyond the last memory, relative to the width, so that the last step is seen."""


def draw_curve(curve: MemoryCurve, path: str | os.PathLike[str]) -> None:
    """The curve of a staging into an SVG or PNG file."""
    problem = curve.problem
    words = measured("time per micro-batch", problem.time_unit), f"{problem.name}, {problem.devices} devices"
    _draw(curve.points, path, IN_BYTES, words, ("best plan", "even split"))


def draw_schedules(curve: ScheduleCurve, path: str | os.PathLike[str]) -> None:
    """The curve of a schedule into an SVG or PNG file."""
    problem = curve.problem
    words = measured(curve.objective, problem.time_unit), f"{problem.name}, {len(problem.devices)} devices"
    _draw(curve.points, path, memory_unit(problem.memory_unit), words, ("best schedule", "best named rule"))


def _draw(
    points: Sequence[MemoryPoint],
    path: str | os.PathLike[str],
    memory: MemoryUnit,
    words: tuple[str, str],
    labels: tuple[str, str],
) -> None:
    """`words`: of the value and of the problem; `labels`: of the best plans and of what they are compared with."""
    factor, unit = memory.scale(max((point.memory_bytes for point in points), default=1.0))
    with canvas() as figure:
        axes = figure.add_subplot()
        _draw_steps(axes, points, factor, lambda point: point.even, CATEGORIES[1], labels[1], THICK, "--")
        _draw_steps(axes, points, factor, lambda point: point.value, CATEGORIES[0], labels[0], THIN, "-")
        _draw_points(axes, points, factor)
        axes.set_xlabel(measured("memory of a device", unit))
        axes.set_ylabel(words[0])
        axes.set_title(f"{words[1]} (filled: proven)")
        explain(figure, [axes])
        write_picture(figure, path)


def _draw_steps(
    axes: Axes,
    points: Sequence[MemoryPoint],
    factor: float,
    value_of: Callable[[MemoryPoint], float | None],
    colour: str,
    label: str,
    width: float,
    style: str,
) -> None:
    """From each memory on, its value holds."""
    shown = [(point.memory_bytes / factor, value) for point in points if (value := value_of(point)) is not None]
    if not shown:
        return
    sizes, values = (list(column) for column in zip(*shown, strict=True))
    right = sizes[-1] + MARGIN * (sizes[-1] - sizes[0])
    look: dict[str, Any] = {"color": colour, "linewidth": width, "linestyle": style}
    axes.plot([*sizes, right], [*values, values[-1]], drawstyle="steps-post", label=label, **look)


def _draw_points(axes: Axes, points: Sequence[MemoryPoint], factor: float) -> None:
    for point in points:
        if point.value is not None:
            face = CATEGORIES[0] if point.certified else GROUND
            axes.scatter(
                [point.memory_bytes / factor], [point.value], s=22, c=[face], edgecolors=CATEGORIES[0], zorder=3
            )
