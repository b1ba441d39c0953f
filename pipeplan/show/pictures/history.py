"""How a search went on: incumbent and bound over time, for papers and notebooks."""

from __future__ import annotations

import os
from typing import Any

from ...instances.base.errors import UsageError
from ...instances.base.result import History
from ..palette import CATEGORIES
from .canvas import STYLES, canvas, explain, write_picture


def draw_history(history: History, path: str | os.PathLike[str]) -> None:
    """Draw steps that hold from one moment to the next, both up to the last moment of the history."""
    if not history:
        raise UsageError("There is no history to draw: the method found its answer without a search.")
    end = history[-1].seconds
    with canvas(7.0, 4.2) as figure:
        axes = figure.subplots()
        for i, name in enumerate(("incumbent", "bound")):
            moments = [(m.seconds, getattr(m, name)) for m in history if getattr(m, name) is not None]
            if moments:
                seconds, values = (list(column) for column in zip(*moments, strict=True))
                look: dict[str, Any] = {"color": CATEGORIES[i], "linestyle": STYLES[i], "label": name}
                axes.step([*seconds, end], [*values, values[-1]], where="post", **look)
        axes.set_xlabel("time (s)")
        axes.set_ylabel("value")
        axes.grid(True, linewidth=0.3)
        explain(figure, [axes])
        write_picture(figure, path)
