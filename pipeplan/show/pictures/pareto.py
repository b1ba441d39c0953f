"""Period against memory as a picture: one step curve per method, proven points filled, open ones with their bound."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ...instances.result import Stop
from ...studies.memory import MemoryPoint, MemoryStudy
from ...studies.pareto.records import EXACT_METHODS, Pareto, Point
from ..palette import CATEGORIES
from ..words import byte_scale, measured
from .canvas import GROUND, INK, STYLES, THICK, THIN, canvas, explain, write_picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LEAST = 0.1
"""Levels are shown in the largest unit in which they are not smaller than this; real networks come to GB."""
MARGIN = 0.05
"""Beyond the last level, relative to the width, so that the last step is seen."""
FAR = 10.0
"""Curves that span more than this factor are drawn on a logarithmic axis."""


def draw_pareto(pareto: Pareto, path: str | os.PathLike[str]) -> None:
    """The curves of a sweep into an SVG or PNG file."""
    with canvas() as figure:
        axes = figure.add_subplot()
        methods = dict.fromkeys(point.method for point in pareto.points)
        factor, unit = byte_scale(max((point.memory_bytes for point in pareto.points), default=1e9) / LEAST)
        right = _right_end(pareto.points) / factor
        # The exact curves last: they must not be hidden behind the others.
        for i, method in reversed(list(enumerate(methods))):
            _draw_curve(axes, method, pareto.of(method), CATEGORIES[i % len(CATEGORIES)], factor, right, i)
        _draw_frame(axes, pareto)
        axes.set_xlabel(f"memory of a GPU ({unit})")
        explain(figure, [axes])
        write_picture(figure, path)


def draw_memory(study: MemoryStudy, path: str | os.PathLike[str]) -> None:
    """Value against memory, from the least with a plan on, into an SVG or PNG file."""
    points = tuple(_as_point(point, str(study.method)) for point in study.points)
    with canvas() as figure:
        axes = figure.add_subplot()
        factor, unit = byte_scale(max((point.memory_bytes for point in points), default=1e9) / LEAST)
        _draw_curve(axes, str(study.method), points, CATEGORIES[0], factor, _right_end(points) / factor)
        axes.set_xlabel(f"memory of a device ({unit})")
        axes.set_ylabel("value" if study.problem.time_unit is None else f"value ({study.problem.time_unit})")
        axes.set_title(f"{study.problem.name}, {study.method} (filled: proven; whisker: down to the bound)")
        write_picture(figure, path)


def _as_point(point: MemoryPoint, method: str) -> Point:
    stop = Stop.PROVEN if point.certified else Stop.COMPLETED
    return Point(method, point.memory_bytes, stop, point.value, bound=point.bound)


def _right_end(points: Sequence[Point]) -> float:
    levels = [point.memory_bytes for point in points]
    return max(levels, default=1.0) + MARGIN * (max(levels, default=1.0) - min(levels, default=0.0))


def _draw_curve(
    axes: Axes, method: str, points: tuple[Point, ...], colour: str, factor: float, right: float, i: int = 0
) -> None:
    """From each memory limit on, its period holds. Exact curves are thin and lie on the others, which stay seen."""
    shown = [point for point in points if point.period is not None]
    if not shown:
        return
    sizes = [point.memory_bytes / factor for point in shown]
    periods: list[Any] = [point.period for point in shown]
    exact = method in EXACT_METHODS
    axes.plot(
        [*sizes, right],
        [*periods, periods[-1]],
        drawstyle="steps-post",
        color=colour,
        linestyle=STYLES[i % len(STYLES)] if not exact else "-",
        linewidth=THIN if exact else THICK,
        label=method,
    )
    filled = [colour if point.certified else GROUND for point in shown]
    axes.scatter(sizes, periods, s=22, c=filled, edgecolors=colour, zorder=3)
    for point in shown:
        if point.bound is not None and not point.certified:
            axes.vlines(
                point.memory_bytes / factor, point.bound, point.period or point.bound, colors=colour, linewidth=0.8
            )
            axes.plot([point.memory_bytes / factor], [point.bound], marker="_", markersize=8, color=colour)


def _draw_frame(axes: Axes, pareto: Pareto) -> None:
    frame, problem = pareto.frame, pareto.problem
    values = [value for point in pareto.points for value in (point.period, point.bound) if value]
    if values and max(values) > FAR * min(values):
        axes.set_yscale("log")
    if frame is not None:
        word = "optimum" if frame.unlimited_proven else "best found"
        axes.axhline(
            frame.unlimited_period, color=INK, linewidth=0.8, linestyle=":", label=f"{word} without a limit"
        )
    axes.set_ylabel(measured("period per batch", problem.time_unit))
    axes.set_title(f"{problem.name}, {problem.gpus} GPUs (filled: proven; whisker: down to the bound)")
