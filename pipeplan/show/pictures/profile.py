"""Performance profiles: the share of cases that a method solves within a ratio of the best, or of runs in a time."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..palette import CATEGORIES
from .canvas import STYLES, canvas, explain, write_picture

if TYPE_CHECKING:
    import pandas

    from ...studies.compare.comparison import Comparison

# Ratios beyond this are drawn on a logarithmic axis.
FAR = 4.0
# Seconds at which a logarithmic axis of time begins.
LEAST_S = 0.01
# The end of the axis, relative to the last point: the last step of every method is seen.
BEYOND = 1.08


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
    """Draw a profile: a first column `ratio` or `seconds`, and one for each method, as in `compare.table`."""
    along, *methods = profile.columns
    points = [float(point) for point in profile[along]]
    with canvas(7.0, 4.2) as figure:
        axes = figure.subplots()
        end = BEYOND * max(points[-1], LEAST_S)
        for i, method in enumerate(methods):
            shares = [100 * float(share) for share in profile[method]]
            look: dict[str, Any] = {"color": CATEGORIES[i % len(CATEGORIES)], "linestyle": STYLES[i % len(STYLES)]}
            axes.step([*points, end], [*shares, shares[-1]], where="post", label=str(method), **look)
        if along == "seconds":
            axes.set_xscale("log")
            axes.set_xlim(LEAST_S, max(end, 10 * LEAST_S))
            axes.set_xlabel("time (s)")
            axes.set_ylabel("share of runs ended with a plan (%)")
        else:
            if end > FAR:
                axes.set_xscale("log")
            axes.set_xlim(1.0, max(end, BEYOND))
            axes.set_xlabel("ratio to the best value found")
            axes.set_ylabel("share of cases (%)")
        axes.set_ylim(0, 103)
        axes.grid(True, linewidth=0.3)
        explain(figure, [axes])
        write_picture(figure, path)
