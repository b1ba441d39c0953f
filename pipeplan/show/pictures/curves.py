"""Curves for papers and notebooks: how a search went on, profiles of methods, and the table of Piper's program."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...instances.base.errors import UsageError
from ...instances.base.result import History, Moment
from ..palette import CATEGORIES, colour
from ..words import Times, measured
from .canvas import STYLES, canvas, explain, legible, write_picture

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes

    from ...planners.staging.degree_table import DegreeTable
    from ...studies.compare.comparison import Comparison

# Ratios beyond this are drawn on a logarithmic axis.
FAR = 4.0
# Seconds at which a logarithmic axis of time begins.
LEAST_S = 0.01
# The end of the axis, relative to the last point: the last step of every method is seen.
BEYOND = 1.08
TIME = "time per micro-batch"
# The most sums of degrees that get a curve.
CURVES = len(CATEGORIES)

# Points of curves by their names.
Points = Mapping[str, Sequence[tuple[float, float]]]


@contextmanager
def _steps(points: Points, end: float, path: str | os.PathLike[str]) -> Iterator[Axes]:
    """Draw values that hold until the next point, the last ones up to the end, and write the picture after the axes
    have been named."""
    with canvas(7.0, 4.2) as figure:
        axes = figure.subplots()
        for i, (name, curve) in enumerate(points.items()):
            along, values = zip(*curve, strict=True)
            look: dict[str, Any] = {"color": colour(i), "linestyle": STYLES[i % len(STYLES)], "label": name}
            axes.step([*along, end], [*values, values[-1]], where="post", **look)
        yield axes
        axes.grid(True, linewidth=0.3)
        explain(figure, [axes])
        write_picture(figure, path)


def draw_history(history: History, path: str | os.PathLike[str]) -> None:
    """Draw incumbent and bound over the time of a search, both up to the last moment of the history."""
    if not history:
        raise UsageError("There is no history to draw: the method found its answer without a search.")
    with _steps(history_points(history), history[-1].seconds, path) as axes:
        axes.set(xlabel="time (s)", ylabel="value")


def history_points(history: Sequence[Moment]) -> Points:
    """Seconds and values of incumbent and bound, where there are any."""
    points = {
        name: [(moment.seconds, getattr(moment, name)) for moment in history if getattr(moment, name) is not None]
        for name in ("incumbent", "bound")
    }
    return {name: curve for name, curve in points.items() if curve}


def profile_points(profile: pandas.DataFrame) -> Points:
    """The points of a profile in per cent, by method; its first column is `ratio` or `seconds`."""
    along, *methods = profile.columns
    return {
        str(method): [
            (float(point), 100 * float(share)) for point, share in zip(profile[along], profile[method], strict=True)
        ]
        for method in methods
    }


def draw_profile(comparison: Comparison, folder: Path) -> dict[str, Path]:
    """Write the profiles for pages and for LaTeX, and return their paths; none where no run has finished."""
    from ...studies.compare.table import profile, time_profile

    frame = comparison.table()
    if frame.empty:
        return {}
    paths = {}
    for name, points in (("profile", profile(frame)), ("time profile", time_profile(frame))):
        for ending in ("svg", "pdf"):
            path = folder / f"{name.replace(' ', '-')}.{ending}"
            write_profile(points, path)
            paths[name if ending == "svg" else f"{name} as {ending}"] = path
    return paths


def write_profile(profile: pandas.DataFrame, path: str | os.PathLike[str]) -> None:
    """Draw the share of cases that each method solves within a ratio of the best, or of runs in a time."""
    along = profile.columns[0]
    end = BEYOND * max(float(profile[along].iloc[-1]), LEAST_S)
    with _steps(profile_points(profile), end, path) as axes:
        if along == "seconds":
            axes.set(xscale="log", xlabel="time (s)", ylabel="share of runs ended with a plan (%)")
            axes.set_xlim(LEAST_S, max(end, 10 * LEAST_S))
        else:
            scale = "log" if end > FAR else "linear"
            axes.set(xscale=scale, xlabel="ratio to the best value found", ylabel="share of cases (%)")
            axes.set_xlim(1.0, max(end, BEYOND))
        axes.set_ylim(0, 103)


def draw_table(table: DegreeTable, path: str | os.PathLike[str]) -> None:
    """Draw all entries of Piper's table as colours, and below them the time over the devices for some sums of
    degrees."""
    import numpy as np

    scale = Times.of((time for row in table.times for time in row), table.time_unit)
    values = np.array([[np.nan if time is None else time * scale.factor for time in row] for row in table.times])
    label, (k, s) = measured(TIME, scale.unit), values.shape
    with canvas(5.6, 7.6) as figure:
        above, below = figure.subplots(2, 1)
        place: Any = {"origin": "lower", "aspect": "auto", "extent": (0.5, k + 0.5, 0.5, s + 0.5)}
        image = above.imshow(values.T, cmap="viridis", norm="log", **place)
        above.set(xlabel="devices", ylabel="sum of data-parallel degrees, at most")
        figure.colorbar(image, ax=above, label=label)
        for ink, style, most in zip(CATEGORIES, cycle(STYLES), curves(s), strict=False):
            look: dict[str, Any] = {"color": ink, "label": f"{most}", "linewidth": 1.2}
            below.plot(range(1, k + 1), values[:, most - 1], style, **look)
        below.set(xscale="log", yscale="log", xlabel="devices", ylabel=label)
        figure.legend(title="sum of degrees, at most", loc="outside lower center", ncols=CURVES)
        below.grid(True, which="both", linewidth=0.3)
        figure.suptitle(legible(table.name or ""))
        write_picture(figure, path)


def curves(most: int) -> list[int]:
    """The sums of degrees that get a curve: of 1, 2, 4, ... and `most` the last `CURVES`."""
    powers = [1 << e for e in range(most.bit_length()) if 1 << e < most]
    return [*powers, most][-CURVES:]
