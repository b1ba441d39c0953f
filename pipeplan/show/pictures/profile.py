"""Performance profiles: which share of the cases a method solves within a ratio of the best."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from ..palette import CATEGORIES
from .canvas import STYLES, canvas, explain, write_picture

if TYPE_CHECKING:
    import pandas

    from ...studies.compare.comparison import Comparison


def draw_profile(comparison: Comparison, folder: Path) -> dict[str, Path]:
    """The picture's path by what it holds; nothing where nothing has run."""
    from ...studies.compare.table import profile

    frame = comparison.table()
    if frame.empty:
        return {}
    write_profile(profile(frame), folder / "profile.svg")
    return {"profile": folder / "profile.svg"}


def write_profile(profile: pandas.DataFrame, path: str | os.PathLike[str]) -> None:
    """`profile` has a column `ratio` and one column a method, as `compare.table.profile` makes it."""
    with canvas(7.0, 4.2) as figure:
        axes = figure.subplots()
        for i, method in enumerate(column for column in profile.columns if column != "ratio"):
            style = STYLES[i % len(STYLES)]
            shares = [100 * share for share in profile[method]]
            colour = CATEGORIES[i % len(CATEGORIES)]
            axes.step(profile["ratio"], shares, style, where="post", color=colour, label=str(method))
        axes.set_xlabel("ratio to the best value found")
        axes.set_ylabel("share of cases (%)")
        axes.set_ylim(0, 103)
        axes.grid(True, linewidth=0.3)
        explain(figure, [axes])
        write_picture(figure, path)
