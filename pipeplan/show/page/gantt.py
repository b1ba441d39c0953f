"""A timeline as an interactive Gantt."""

from __future__ import annotations

from xml.etree.ElementTree import Element

from .charts import HEIGHT, LEFT, RIGHT, WIDTH, Scale, chart, colour, mark, number, svg
from .markup import tag
from .timeline import MOST_TASKS, Timeline

ROW = 26.0


def gantt(timeline: Timeline, unit: str) -> Element:
    """Lanes from top to bottom, time from left to right; backward tasks are paler, batches have colours."""
    lanes, tasks = timeline.lanes, timeline.tasks[:MOST_TASKS]
    x = Scale(0.0, max(task.end for task in tasks), LEFT + 16, WIDTH - RIGHT)
    drawn = [tag("text", {"x": 4, "y": 17 + ROW * i}, lane) for i, lane in enumerate(lanes)]
    height = ROW * len(lanes) + 24
    if timeline.period:
        drawn += _periods(timeline.period, x, height - 24)
    for task in tasks:
        start, end, top = x(task.start), x(task.end), 4 + ROW * lanes.index(task.lane)
        shape = {"x": start, "y": top, "width": max(end - start, 0.5), "height": ROW - 6}
        ink = {"fill": colour(task.batch or 0), "fill-opacity": 0.55 if task.backward else 1.0}
        title = f"{task.label}, {task.lane}: {number(task.start)} to {number(task.end)} {unit}".rstrip()
        drawn.append(mark("rect", {**shape, **ink}, title))
        if end - start > 18 and task.batch is not None:
            place = {"class": "inside", "x": (start + end) / 2, "y": top + 14, "text-anchor": "middle"}
            drawn.append(tag("text", place, str(task.batch)))
    drawn += [
        tag("text", {"x": x(0.0), "y": height - 6}, "0"),
        tag("text", {"x": WIDTH - RIGHT, "y": height - 6, "text-anchor": "end"}, f"{number(x.high)} {unit}".rstrip()),
    ]
    label = f"{timeline.title}: {len(tasks)} tasks on {len(lanes)} lanes"
    return chart(svg(WIDTH, height, label, *drawn), label, True)


def _periods(period: float, x: Scale, bottom: float) -> list[Element]:
    """A line wherever a new period begins."""
    count = int(x.high / period)
    if count > HEIGHT:
        return []
    places = [x(period * i) for i in range(count + 1)]
    return [tag("line", {"class": "grid", "x1": place, "x2": place, "y1": 0, "y2": bottom}) for place in places]
