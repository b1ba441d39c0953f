"""A timeline as an interactive Gantt."""

from __future__ import annotations

from xml.etree.ElementTree import Element

from ..view import Timeline
from .charts import HEIGHT, LEFT, RIGHT, WIDTH, Scale, chart, colour, legend, mark, number, shortened, svg
from .markup import tag

ROW = 26.0
MOST_BARS = 4000


def gantt(timeline: Timeline, unit: str) -> Element:
    """Lanes from top to bottom, time from left to right; backward tasks are paler."""
    lanes, bars = timeline.lanes, timeline.bars[:MOST_BARS]
    top_of = {lane: 4 + ROW * i for i, lane in enumerate(lanes)}
    x = Scale(timeline.start, max(bar.end for bar in bars), LEFT + 16, WIDTH - RIGHT)
    drawn = [tag("text", {"x": 4, "y": top_of[lane] + 13}, shortened(lane, 14)) for lane in lanes]
    height = ROW * len(lanes) + 24
    if timeline.period:
        drawn += _periods(timeline.period, x, height - 24)
    for bar in bars:
        start, end, top = x(bar.start), x(bar.end), top_of[bar.lane]
        shape = {"x": start, "y": top, "width": max(end - start, 0.5), "height": ROW - 6}
        ink = {"fill": colour(bar.colour), "fill-opacity": 0.55 if bar.backward else 1.0}
        title = f"{bar.title}, {bar.lane}: {number(bar.start)} to {number(bar.end)} {unit}".rstrip()
        drawn.append(mark("rect", {**shape, **ink}, title))
        if bar.label and end - start > 10 + 8 * len(bar.label):
            place = {"class": "inside", "x": (start + end) / 2, "y": top + 14, "text-anchor": "middle"}
            drawn.append(tag("text", place, bar.label))
    drawn += [
        tag("text", {"x": x(x.low), "y": height - 6}, number(x.low)),
        tag(
            "text", {"x": WIDTH - RIGHT, "y": height - 6, "text-anchor": "end"}, f"{number(x.high)} {unit}".rstrip()
        ),
    ]
    label = f"{timeline.title}: {len(bars)} tasks on {len(lanes)} lanes"
    more = [legend(timeline.colours)] if timeline.colours else []
    return chart(svg(WIDTH, height, label, *drawn), label, True, *more)


def _periods(period: float, x: Scale, bottom: float) -> list[Element]:
    """A line wherever a new period begins."""
    first, last = -int(-x.low // period), int(x.high / period)
    if last - first > HEIGHT:
        return []
    places = [x(period * i) for i in range(first, last + 1)]
    return [tag("line", {"class": "grid", "x1": place, "x2": place, "y1": 0, "y2": bottom}) for place in places]
