"""Load against latency as a picture: a step curve, proven points filled, open ones with their bound."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from ...studies.pareto.tradeoff_records import Point, Tradeoff
from ..palette import CATEGORIES
from ..words import measured
from .canvas import GROUND, INK, THIN, canvas, explain, write_picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MARGIN = 0.05
"""Beyond the last limit, relative to the width, so that the last step is seen."""


def draw_tradeoff(tradeoff: Tradeoff, path: str | os.PathLike[str]) -> None:
    """The curve into an SVG or PNG file."""
    with canvas() as figure:
        axes, problem = figure.add_subplot(), tradeoff.problem
        _draw_curve(axes, tradeoff.points)
        _draw_ends(axes, tradeoff)
        axes.set_xlabel(measured("latency of one sample", problem.time_unit))
        axes.set_ylabel(measured("largest load", problem.time_unit))
        axes.set_title(f"{problem.name} (filled: proven; whisker: down to the bound)")
        explain(figure, [axes])
        write_picture(figure, path)


def _draw_curve(axes: Axes, points: tuple[Point, ...]) -> None:
    """From each limit on, its load holds."""
    shown = [point for point in points if point.max_load is not None]
    if not shown:
        return
    colour, limits = CATEGORIES[0], [point.latency_limit for point in shown]
    loads: list[Any] = [point.max_load for point in shown]
    right = limits[-1] + MARGIN * (limits[-1] - limits[0])
    axes.plot(
        [*limits, right],
        [*loads, loads[-1]],
        drawstyle="steps-post",
        color=colour,
        linewidth=THIN,
        label="best load",
    )
    filled = [colour if point.certified else GROUND for point in shown]
    axes.scatter(limits, loads, s=22, c=filled, edgecolors=colour, zorder=3)
    for point in shown:
        if point.bound is not None and not point.certified:
            axes.vlines(
                point.latency_limit, point.bound, point.max_load or point.bound, colors=colour, linewidth=0.8
            )
            axes.plot([point.latency_limit], [point.bound], marker="_", markersize=8, color=colour)


def _draw_ends(axes: Axes, tradeoff: Tradeoff) -> None:
    ends = tradeoff.ends
    if ends is None:
        return
    words = ["optimum" if proven else "best found" for proven in (ends.max_load_proven, ends.latency_proven)]
    style = {"color": INK, "linewidth": 0.8}
    axes.axhline(ends.max_load, linestyle="--", label=f"{words[0]} without a limit", **style)  # type: ignore[arg-type]
    axes.axvline(ends.latency, linestyle=":", label=f"least latency ({words[1]})", **style)  # type: ignore[arg-type]
