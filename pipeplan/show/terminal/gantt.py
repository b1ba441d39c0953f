"""Timelines in characters: a row for each lane, a mark in each cell; and memory over the same time in blocks."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from ..console import MAX_DEVICES_DRAWN, can_draw, number, styled
from ..palette import ink_on
from ..view import Bar, Curve, PlanView, Timeline
from ..words import MemoryUnit, amount

if TYPE_CHECKING:
    from rich.text import Text

# Cells of a row.
WIDTH = 66
# The most bars of a lane that can be told apart in one line, however long the others take.
FEW_BARS = WIDTH // 3
# The most characters of a lane's name.
LONGEST_NAME = 11
# The character that fills a bar behind its label.
NAMED = "─"
# Blocks by growing height, and what stands for them where they cannot be drawn.
BLOCKS, PLAIN_BLOCKS = " ▁▂▃▄▅▆▇█", " .:-=+*#@"

# The start of a window, and its number of cells.
Window = tuple[float, int]
# A character, and the colour of the task that it belongs to.
Cell = tuple[str, int | None]


def gantt(timeline: Timeline, unit: str | None) -> list[Text]:
    """One row for each lane, in the colours of its phases. A long timeline is shown in three windows of time."""
    if not timeline.bars or timeline.end <= timeline.start:
        return [styled(timeline.summary)] if timeline.summary else []
    windows, step = _windows(timeline)
    names = _names(timeline.lanes[:MAX_DEVICES_DRAWN])
    width = max(map(len, names.values()))
    cut = len(timeline.lanes) - len(names)
    lines = [_row(timeline, lane, f"{name:>{width}} |", windows, step) for lane, name in names.items()]
    below = [f"... and {cut} more"] if cut else []
    below += [line.rstrip() for line in _scale(timeline, windows, step, " " * (width + 2), unit)]
    return [*lines, *map(styled, below)]


def _names(lanes: Iterable[str]) -> dict[str, str]:
    return {lane: lane[:LONGEST_NAME] for lane in lanes}


def _row(timeline: Timeline, lane: str, name: str, windows: Sequence[Window], step: float) -> Text:
    bars, row = [bar for bar in timeline.bars if bar.lane == lane], styled(name)
    for start, count in windows:
        for colour, cells in groupby(_cells(bars, start, count, step), key=lambda cell: cell[1]):
            fill = None if colour is None else timeline.palette[colour]
            row.append_text(styled("".join(char for char, _ in cells), f"{ink_on(fill)} on {fill}" if fill else ""))
        row.append("|")
    return row


def _scale(timeline: Timeline, windows: Sequence[Window], step: float, indent: str, unit: str | None) -> list[str]:
    """The lines under the rows: times, from when on everything repeats, and what the marks mean."""
    lines = []
    if timeline.steady is not None and len(windows) == 1:
        place = int((timeline.steady - timeline.start) / step)
        lines.append(f"{indent}{'':>{place}}^ from here on everything repeats")
    elif timeline.steady is not None:
        lines.append(f"from {amount(timeline.steady, unit)} on everything repeats")
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
    """The windows that are shown, and the time of a cell: fine enough to see the passes of most stages."""
    length = timeline.end - timeline.start
    spans = sorted(bar.end - bar.start for bar in timeline.bars)
    step = max(spans[len(spans) // 4], length / 10_000)
    if not timeline.windows or length <= WIDTH * step or _most_bars(timeline) <= FEW_BARS:
        return [(timeline.start, WIDTH)], length / WIDTH
    count = WIDTH // 3
    middle, last = timeline.start + (length - count * step) / 2, timeline.end - count * step
    return [(timeline.start, count), (middle, count), (last, count)], step


def _most_bars(timeline: Timeline) -> int:
    """The largest number of bars in a lane."""
    return max(Counter(bar.lane for bar in timeline.bars).values())


def _cells(bars: Iterable[Bar], start: float, count: int, step: float) -> list[Cell]:
    """Each cell shows what runs in its middle; a bar that covers no middle has the cell of its start."""
    cells: list[Cell] = [("·" if can_draw("·") else ".", None)] * count
    for bar in bars:
        first, end = (math.ceil((time - start) / step - 0.5) for time in (bar.start, bar.end))
        place = int((bar.start - start) / step)
        run = range(max(0, first), min(count, end)) if first < end else range(place, place + 1)
        for x, char in zip(run, _written(bar, len(run)), strict=True):
            if 0 <= x < count:
                cells[x] = (char, bar.colour)
    return cells


def _written(bar: Bar, room: int) -> str:
    """The mark of a bar in each of its cells; a bar whose label is not its short one shows it, if it fits."""
    if bar.short and bar.label != bar.short and len(bar.label) < room and can_draw(bar.label + NAMED):
        return bar.label.ljust(room, NAMED)
    return bar.mark * room


# ---- memory --------------------------------------------------------------------------------------------


def memory_lines(view: PlanView) -> list[str]:
    """Memory over the time of the timeline above, where both are of the same time: a line of blocks for each device."""
    timelines = view.timelines[:1] if any(line.period or line.over_memory for line in view.timelines) else ()
    curves = view.memory[:MAX_DEVICES_DRAWN]
    if not curves or not timelines or timelines[0].end <= timelines[0].start:
        return []
    windows, step = _windows(timelines[0])
    width = max(len(name) for name in _names(timelines[0].lanes[:MAX_DEVICES_DRAWN]).values())
    what, fulls = _full_blocks(curves, view.memory_unit)
    lines = []
    for curve, full in zip(curves, fulls, strict=True):
        cells = "|".join(spark(curve, full, window, step) for window in windows)
        lines.append(f"{curve.name[:LONGEST_NAME]:>{width}} |{cells}|")
    same = "time" if timelines[0].over_memory else "period"
    return [*lines, f"memory over the same {same}; a full block is {what}"]


def _full_blocks(curves: Sequence[Curve], unit: MemoryUnit) -> tuple[str, list[float]]:
    """What a full block means, in words and for each device: its limit where all have one, which shows who is full."""
    limits = [curve.limit for curve in curves if curve.limit]
    if len(limits) == len(curves):
        limit_in_words = "the limit" if len(set(limits)) == 1 else "each device's limit, at most"
        return f"{limit_in_words}, {unit.text(max(limits))}".replace("most, ", "most "), limits
    peak = max(max(curve.totals) for curve in curves)
    return f"the largest peak, {unit.text(peak)}", [peak] * len(curves)


def spark(curve: Curve, full: float, window: Window, step: float) -> str:
    """The most memory in each cell, as a block; rounded up, so that only 0 looks empty."""
    blocks = BLOCKS if can_draw(BLOCKS) else PLAIN_BLOCKS
    begin, count = window
    most = [0.0] * count
    for total, start, end in zip(curve.totals, curve.times, (*curve.times[1:], curve.end), strict=True):
        first, last = int((start - begin) / step), math.ceil((end - begin) / step)
        if start < begin + count * step and end >= begin:
            first = min(count - 1, max(0, first))
            for cell in range(first, max(first + 1, min(count, last))):
                most[cell] = max(most[cell], total)
    top = len(blocks) - 1
    return "".join(blocks[min(top, math.ceil(total * top / full))] if full else blocks[0] for total in most)
