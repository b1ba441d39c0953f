"""The schedule of one sample as a picture: a bar per piece and accelerator, the CPU pool in compact lanes."""

from __future__ import annotations

import os

from ...instances.errors import UsageError
from ...instances.placement.plan import PlacementPlan
from ...instances.placement.problem import PlacementProblem
from ...instances.placement.referee.latency import evaluate_latency
from .canvas import COLOURS, canvas, format_of, write_picture
from .spans import lanes_of

POOL_COLOUR = COLOURS[6]
MAX_LANES = 60


def draw_latency(problem: PlacementProblem, plan: PlacementPlan, path: str | os.PathLike[str]) -> None:
    """Write the picture; the file's ending says which kind. Longer graphs get higher pictures, up to a limit."""
    format_of(path)
    evaluation = evaluate_latency(problem, plan)
    if evaluation.latency is None:
        raise UsageError(f"The schedule cannot be drawn. {evaluation.reason}")
    lanes = lanes_of(problem, plan, evaluation)
    shown = dict(list(lanes.items())[:MAX_LANES])
    devices = list(dict.fromkeys(piece.device for piece in evaluation.pieces))
    with canvas(8.0, 1.4 + 0.3 * max(1, len(shown))) as figure:
        axes = figure.subplots()
        for row, (name, spans) in enumerate(shown.items()):
            colour = COLOURS[devices.index(name) % 6] if name in devices else POOL_COLOUR
            bars = [(span.start, span.finish - span.start) for span in spans]
            axes.broken_barh(bars, (row - 0.4, 0.8), facecolors=colour, edgecolors="white", linewidth=0.5)
            for span in spans:
                if span.finish - span.start > 0.05 * evaluation.latency:
                    text = str(span.nodes[0]) if len(span.nodes) == 1 else f"{len(span.nodes)} nodes"
                    middle = (span.start + span.finish) / 2
                    axes.text(middle, row, text, ha="center", va="center", fontsize=7, clip_on=True, parse_math=False)
        axes.set_yticks(range(len(shown)), list(shown))
        axes.set_ylim(max(1, len(shown)) - 0.5, -0.5)
        axes.set_xlim(0, evaluation.latency or 1.0)
        axes.set_xlabel(f"time ({problem.time_unit})" if problem.time_unit else "time")
        left_out = len(lanes) - len(shown)
        more = f", {left_out} lanes left out" if left_out else ""
        axes.set_title(f"{problem.name}: latency {evaluation.latency:.6g}{more}", parse_math=False)
        write_picture(figure, path)
