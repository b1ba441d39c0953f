"""What runs when, in characters: a row per lane, a mark per cell; and memory over the same time in blocks."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence

from ..console import can_draw, number
from ..view import Bar, Curve, PlanView, Timeline
from ..words import amount, size
from .shapes import MAX_DEVICES_DRAWN

WIDTH = 66
FEW_BARS = WIDTH // 3
"""So many of a lane are told apart in one line, however long the others take."""
LONGEST_NAME = 11
BLOCKS, PLAIN_BLOCKS = " ▁▂▃▄▅▆▇█", " .:-=+*#@"

Window = tuple[float, int]
"""Its start, and its number of cells."""


def gantt(timeline: Timeline, unit: str | None) -> list[str]:
    """One row for each lane. A long timeline is shown in three windows of time."""
    if not timeline.bars or timeline.end <= timeline.start:
        return [timeline.summary] if timeline.summary else []
    windows, step = _windows(timeline)
    names = _names(timeline.lanes[:MAX_DEVICES_DRAWN])
    width = max(map(len, names.values()))
    cut = len(timeline.lanes) - len(names)
    lines = [f"{name:>{width}} |{_row(timeline, lane, windows, step)}|" for lane, name in names.items()]
    lines += [f"... and {cut} more"] if cut else []
    return [*lines, *(line.rstrip() for line in _scale(timeline, windows, step, " " * (width + 2), unit))]


def _names(lanes: Iterable[str]) -> dict[str, str]:
    return {lane: lane[:LONGEST_NAME] for lane in lanes}


def _row(timeline: Timeline, lane: str, windows: Sequence[Window], step: float) -> str:
    bars = [bar for bar in timeline.bars if bar.lane == lane]
    return "|".join(_cells(bars, start, count, step) for start, count in windows)


def _scale(timeline: Timeline, windows: Sequence[Window], step: float, indent: str, unit: str | None) -> list[str]:
    """What stands under the rows."""
    lines = []
    if timeline.steady is not None:
        place = int((timeline.steady - timeline.start) / step)
        lines.append(f"{indent}{'':>{place}}^ from here on everything repeats")
    if len(windows) == 1:
        start = number(timeline.start)
        lines.append(f"{indent}{start}{number(timeline.end):>{WIDTH - len(start)}}")
    else:
        count = windows[0][1]
        texts = ([number(start) for start, _ in windows], timeline.windows)
        lines += [indent + " ".join(f"{word:<{count}}" for word in words) for words in texts]
        length = amount(count * step, unit)
        lines.append(f"three windows of {length} each; what runs between them is left out")
    return [*lines, *filter(None, [timeline.marks, timeline.summary])]


def _windows(timeline: Timeline) -> tuple[list[Window], float]:
    """And the time of a cell: fine enough to see the passes of most stages."""
    length = timeline.end - timeline.start
    spans = sorted(bar.end - bar.start for bar in timeline.bars)
    step = max(spans[len(spans) // 4], length / 10_000)
    if not timeline.windows or length <= WIDTH * step or _most_bars(timeline) <= FEW_BARS:
        return [(timeline.start, WIDTH)], length / WIDTH
    count = WIDTH // 3
    middle, last = timeline.start + (length - count * step) / 2, timeline.end - count * step
    return [(timeline.start, count), (middle, count), (last, count)], step


def _most_bars(timeline: Timeline) -> int:
    """Of a lane."""
    return max(Counter(bar.lane for bar in timeline.bars).values())


def _cells(bars: Iterable[Bar], start: float, count: int, step: float) -> str:
    """Each cell shows what runs in its middle; what runs in no middle has the cell of its start."""
    cells = ["·" if can_draw("·") else "."] * count
    for bar in bars:
        first, end = (math.ceil((time - start) / step - 0.5) for time in (bar.start, bar.end))
        place = int((bar.start - start) / step)
        for x in range(max(0, first), min(count, end)) if first < end else [place]:
            if 0 <= x < count:
                cells[x] = bar.mark
    return "".join(cells)


# ---- memory --------------------------------------------------------------------------------------------


def memory_lines(view: PlanView) -> list[str]:
    """Of what repeats, memory over the period above: a line of blocks for each device."""
    if not any(timeline.period for timeline in view.timelines):
        return []
    curves = view.memory[:MAX_DEVICES_DRAWN]
    limit = curves[0].limit
    full = limit or max(max(curve.totals) for curve in view.memory)
    width = max(len(name) for name in _names(view.timelines[0].lanes[:MAX_DEVICES_DRAWN]).values())
    lines = [f"{curve.name:>{width}} |{spark(curve, full)}|" for curve in curves]
    what = "the limit" if limit else "the largest peak"
    return [*lines, f"memory over the same period; a full block is {what}, {size(full)}"]


def spark(curve: Curve, full: float) -> str:
    """The most bytes in each cell, as a block; rounded up, so that nothing but 0 looks like nothing."""
    blocks = BLOCKS if can_draw(BLOCKS) else PLAIN_BLOCKS
    most = [0.0] * WIDTH
    for held, start, end in zip(curve.totals, curve.times, (*curve.times[1:], curve.end), strict=True):
        first = min(WIDTH - 1, int(start / curve.end * WIDTH))
        for cell in range(first, max(first + 1, min(WIDTH, math.ceil(end / curve.end * WIDTH)))):
            most[cell] = max(most[cell], held)
    top = len(blocks) - 1
    return "".join(blocks[min(top, math.ceil(held * top / full))] if full else blocks[0] for held in most)
