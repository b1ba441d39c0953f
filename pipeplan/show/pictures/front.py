"""Values against a limit as a picture: step curves, with proven points filled and open ones with their bounds."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..front import Front, Series
from ..page.axes import from_zero
from ..palette import CATEGORIES
from ..words import measured
from .canvas import GROUND, INK, STYLES, THICK, THIN, canvas, explain, legible, write_picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Space beyond the last limit, relative to the width, so that the last step is seen.
MARGIN = 0.05
# Values that span more than this factor are drawn on a logarithmic axis.
FAR = 10.0


def draw_front(front: Front, path: str | os.PathLike[str]) -> None:
    """Draw the curves into an SVG, PNG or PDF file."""
    factor, unit = front.scale()
    times = front.times()
    with canvas() as figure:
        axes = figure.add_subplot()
        right = _right_end([limit / factor for limit in front.limits()])
        rival, compared = front.rivals
        if compared:
            steps = [(limit / factor, value * times.factor) for limit, value in compared]
            _draw_steps(axes, steps, right, color=CATEGORIES[1], linestyle="--", linewidth=THICK, label=rival)
        # The exact curves last: they must not be hidden behind the others.
        for i, series in reversed(list(enumerate(front.series))):
            _draw_series(axes, series, i, factor, times.factor, right)
        for name, value in front.rules:
            axes.axhline(value * times.factor, color=INK, linewidth=0.8, linestyle=":", label=name)
        _set_values(axes, [value * times.factor for value in front.values()])
        axes.set_xlabel(measured(front.limited, unit))
        axes.set_ylabel(measured(front.value, times.unit))
        axes.set_title(
            f"{legible(front.problem.name)}, {front.devices} (filled: proven; whisker: down to the bound)"
        )
        explain(figure, [axes])
        write_picture(figure, path)


def _right_end(limits: Sequence[float]) -> float:
    return max(limits, default=1.0) + MARGIN * (max(limits, default=1.0) - min(limits, default=0.0))


def _set_values(axes: Axes, values: Sequence[float]) -> None:
    """Let the axis of values begin at 0, unless the values would look alike or the largest would hide the others."""
    if not values:
        return
    low, high = min(values), max(values)
    if low > 0 and high > FAR * low:
        axes.set_yscale("log")
    elif from_zero(low, high) == 0:
        axes.set_ylim(bottom=0)


def _draw_steps(axes: Axes, steps: Sequence[tuple[float, float]], right: float, **look: Any) -> None:
    """Draw steps: each value holds from its limit on."""
    limits, values = (list(column) for column in zip(*steps, strict=True))
    axes.plot([*limits, right], [*values, values[-1]], drawstyle="steps-post", **look)


def _draw_series(axes: Axes, series: Series, i: int, factor: float, time: float, right: float) -> None:
    """Draw one curve with its points. Exact curves are thin and lie on the others, which stay visible."""
    shown = [
        (point, point.limit / factor, point.value * time) for point in series.points if point.value is not None
    ]
    if not shown:
        return
    baseline, colour = not series.exact, CATEGORIES[i % len(CATEGORIES)]
    style = {"linestyle": STYLES[i % len(STYLES)] if baseline else "-", "linewidth": THICK if baseline else THIN}
    _draw_steps(axes, [step for _, *step in shown], right, color=colour, label=series.name, **style)  # type: ignore[misc]
    filled = [colour if point.certified else GROUND for point, _, _ in shown]
    _, limits, values = zip(*shown, strict=True)
    axes.scatter(limits, values, s=22, c=filled, edgecolors=colour, zorder=3)
    for point, limit, value in shown:
        if point.bound is not None and not point.certified:
            axes.vlines(limit, point.bound * time, value, colors=colour, linewidth=0.8)
            axes.plot([limit], [point.bound * time], marker="_", markersize=8, color=colour)
