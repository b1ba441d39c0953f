"""The stages of a stage graph level by level, with load and memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from ..palette import COMPUTATION, MEMORY, OTHER
from ..view import Flow, PlanView, Row
from ..words import several
from .canvas import GROUND, INK, SMALL_PT, legible

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# The most characters for the operators of a stage.
MOST_NAMED = 24
# Height of a box, relative to the distance of rows, and widths of the frames of slowest and other stages.
BOX_HEIGHT = 0.62
SLOWEST_PT, USUAL_PT = 2.5, 0.8


def draw_flow(axes: Axes, view: PlanView, flow: Flow) -> None:
    """Draw a box for each stage, and an arrow for each edge."""
    places = list(zip(flow.levels, lanes_of(flow.levels, flow.edges), strict=True))
    for i, j in flow.edges:
        (x0, y0), (x1, y1) = places[i], places[j]
        arrow = {"arrowstyle": "->", "color": OTHER, "shrinkA": 0, "shrinkB": 0}
        axes.annotate("", xy=(x1 - 0.42, y1), xytext=(x0 + 0.42, y0), arrowprops=arrow, zorder=0)
    for place, row in zip(places, view.tables[0].rows, strict=True):
        _box(axes, place, row, row.load / view.full_load, view.memory_unit.text(row.memory_held or 0.0))
    axes.set_xlim(-0.5, max(x for x, _ in places) + 0.5)
    axes.set_ylim(max(y for _, y in places) + 0.6, -0.6)
    axes.set_axis_off()
    axes.bar([0], [0], color=COMPUTATION, label="load, of the largest one (thick frame)")
    axes.bar([0], [0], color=MEMORY["held"], label="memory, of the limit")


def _box(axes: Axes, place: tuple[int, int], row: Row, load: float, memory: str) -> None:
    x, y = place
    held, cells = row.memory_held or 0.0, row.cells
    count, names = (0, "") if row.held is None else (row.held.count, legible(row.held.text(MOST_NAMED)))
    settings = ", ".join(f"{name} {cells[name]}" for name in ("d", "b", "k", "held"))
    text = f"{row.title}: {several(count, 'operator')}\n{names}\n{settings}"
    # Ground and ink are of one element each: in the file a shape has one colour of the page.
    frame: dict[str, Any] = {
        "facecolor": "none",
        "edgecolor": INK,
        "linewidth": SLOWEST_PT if row.slowest else USUAL_PT,
    }
    axes.bar(x, BOX_HEIGHT, 0.84, y - BOX_HEIGHT / 2, color=GROUND)
    axes.bar(x, BOX_HEIGHT, 0.84, y - BOX_HEIGHT / 2, **frame)
    axes.text(x, y + 0.06, f"{text}\n{memory}", ha="center", va="center", fontsize=SMALL_PT)
    _bar(axes, place, -0.22, load, COMPUTATION)
    if row.limit:
        _bar(axes, place, -0.27, min(1.0, held / row.limit), MEMORY["held"])


def _bar(axes: Axes, place: tuple[int, int], offset: float, share: float, colour: str) -> None:
    """A thin bar along the top of a box."""
    x, y = place
    axes.bar(x - 0.4 + 0.4 * share, 0.04, 0.8 * share, y + offset, color=colour)


def lanes_of(levels: Sequence[int], edges: Iterable[tuple[int, int]]) -> list[int]:
    """The row of each stage within its level: near the stages that it follows, so that few arrows cross."""
    lanes = [0] * len(levels)
    before = [[i for i, j in edges if j == x] for x in range(len(levels))]
    for level in range(max(levels) + 1):
        here = [x for x in range(len(levels)) if levels[x] == level]
        here.sort(key=lambda x: (sum(lanes[i] for i in before[x]) / len(before[x]) if before[x] else x, x))
        for lane, x in enumerate(here):
            lanes[x] = lane
    return lanes
