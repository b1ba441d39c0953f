"""Pictures of plans and results for papers and pages: SVG, PNG or PDF, the same bytes for the same facts.

The contents of a view decide what is drawn, one panel below the other. matplotlib is imported here alone."""

from __future__ import annotations

import base64
import html
import io
import math
import os
import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..instances.base.errors import InputError, UsageError
from ..instances.base.json_file import write_bytes_atomically
from ..instances.base.kind import Rules
from ..instances.base.result import History, Moment
from ..instances.registry import Plan, Problem
from ..planners.referee import rules_of
from .lanes import Lane, Lanes, Shape, load_lanes, memory_lanes, memory_over_time, timeline_lanes
from .views import PlanView, colour, ink_on, view_of
from .words import is_visible

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from ..studies.compare.comparison import Comparison


# ---- where pictures are drawn, and how they get into a file ---------------------------------------------------


# The formats of pictures, as endings of files.
FORMATS = ("svg", "png", "pdf")
# Metadata that a file of each format does without, so that an unchanged picture is an unchanged file.
UNDATED: dict[str, dict[str, None]] = {
    "svg": {"Date": None},
    "png": {"Software": None},
    "pdf": {"CreationDate": None},
}
# Black and white to the eye. In an SVG file they become the ink and the ground of the page that shows it;
# what is to stay black or white, as the text on a bar, is drawn in black or white itself.
INK, GROUND = "#000001", "#fffffe"
# On paper ink is black. `currentColor`, unlike variables, is known to programs other than browsers as well;
# they take the ground for transparent. Browsers need it: a page may be light where its reader likes it dark.
STYLE = """<style>
.pipeplan { color: #000; background: #fff }
.pipeplan .ground { color: #fff }
@media screen and (prefers-color-scheme: dark) {
.pipeplan { color: #e6edf3; background: #0f141a }
.pipeplan .ground { color: #0f141a }
}
</style>
"""
# Sizes of text in points; nothing is smaller.
FONT_PT, SMALL_PT = 9, 8
# The width of a digit, relative to the size of the font.
CHARACTER = 0.64
# Distances between numbers on an axis, times a power of ten.
ROUND = (1, 2, 5, 10)
# Numbers below and above these powers of ten have their power written at the end of the axis.
PLAIN_POWERS = (-5, 7)
# The most columns of a legend.
LEGEND_COLUMNS = 6
# Line styles of curves that may lie on one another.
STYLES = ("-", "--", "-.", ":")
# Widths of a curve and of one that it may lie on, which is then still seen.
THIN, THICK = 1.4, 2.6
# The most characters of a name.
LONGEST_NAME = 48
# A logarithmic axis with no more decades than this also names 2 and 5 between the powers of ten.
FEW_DECADES = 3.5


def format_of(path: str | os.PathLike[str]) -> str:
    """The format of a picture by the file's ending; other endings are refused before anything is computed."""
    ending = Path(path).suffix.lstrip(".").lower()
    if ending not in FORMATS:
        raise InputError(
            "picture", f"ends in {ending or 'nothing'!r}", "name a file that ends in .svg, .png or .pdf", str(path)
        )
    return ending


def legible(name: object) -> str:
    """A name from a file as text for a picture: no control characters, which SVG could not hold, and not too long."""
    text = "".join(char if is_visible(char) else "?" for char in str(name))
    return text if len(text) <= LONGEST_NAME else text[: LONGEST_NAME - 3] + "..."


@contextmanager
def canvas(width_in: float = 8.0, height_in: float = 4.5) -> Iterator[Figure]:
    """A figure of its own, without any global state or display."""
    import matplotlib
    from matplotlib.figure import Figure

    # Ids in SVG files come from this salt, so that unchanged pictures stay unchanged files; text stays text, and a
    # dollar in a name is no formula.
    style: dict[Any, Any] = {
        "svg.hashsalt": "pipeplan",
        "svg.fonttype": "none",
        "pdf.fonttype": 42,
        "font.size": FONT_PT,
        "font.sans-serif": ["DejaVu Sans", "Verdana"],  # each text names them all
        "text.parse_math": False,
        "axes.formatter.useoffset": False,
        "axes.formatter.limits": PLAIN_POWERS,
        "axes.titlesize": FONT_PT,
        "figure.titlesize": FONT_PT + 1,
        "legend.fontsize": SMALL_PT,
        "legend.title_fontsize": SMALL_PT,
        "legend.frameon": False,
        **dict.fromkeys(("xtick.labelsize", "ytick.labelsize"), SMALL_PT),
        **dict.fromkeys(("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color"), INK),
    }
    with matplotlib.rc_context(style):
        yield Figure(figsize=(width_in, height_in), layout="constrained")


def write_picture(figure: Figure, path: str | os.PathLike[str]) -> None:
    """SVG, PNG or PDF by the file's ending, atomically, without a date in it. Call it inside `canvas`."""
    ending = format_of(path)
    for axes in figure.axes:
        for axis in (axes.xaxis, axes.yaxis):
            _write_plain_powers(axis)
            _round(axis)
    buffer = io.BytesIO()
    figure.savefig(buffer, format=ending, dpi=150, metadata=UNDATED[ending], transparent=ending == "svg")
    drawn = buffer.getvalue()
    if ending == "svg":
        svg = themed(drawn.decode())
        # Ids of clips come from places whose last digit differs between drawings: numbers stand for them.
        for i, clip in enumerate(dict.fromkeys(re.findall(r"url\(#(p[0-9a-f]{10})\)", svg))):
            svg = svg.replace(clip, f"clip{i}")
        drawn = svg.encode()
    write_bytes_atomically(path, drawn)


def themed(svg: str) -> str:
    """The SVG in the ink and on the ground of the page, light or dark, without rotations by 0 degrees, and with titles
    where matplotlib has links."""
    svg = re.sub(r'style="([^"]*)' + GROUND, r'class="ground" style="\1currentColor', svg)
    svg = svg.replace(INK, "currentColor").replace("<svg ", '<svg class="pipeplan" ', 1)
    svg = re.sub(r' transform="rotate\(-0 [^"]*"', "", svg)
    svg = svg.replace("<defs>", f"{STYLE.replace('</style>', _font_of(svg) + '</style>')} <defs>", 1)
    return re.sub(r'<a xlink:href="([^"]*)"[^>]*>(.*?)</a>', r"<g><title>\1</title>\2</g>", svg, flags=re.DOTALL)


def _font_of(svg: str) -> str:
    """A font of the letters of the picture, as a style inside it: words are as wide everywhere as they were drawn."""
    from fontTools import subset
    from fontTools.ttLib import TTFont
    from matplotlib import get_data_path

    written = html.unescape("".join(re.findall(r"<(?:text|tspan)[^>]*>([^<]*)<", svg)))
    font = TTFont(Path(get_data_path()) / "fonts" / "ttf" / "DejaVuSans.ttf", recalcTimestamp=False)
    letters = subset.Subsetter(subset.Options(hinting=False, glyph_names=False, name_IDs=[], drop_tables=["FFTM"]))
    letters.populate(text=written)
    letters.subset(font)
    buffer = io.BytesIO()
    font.save(buffer)
    data = base64.b64encode(buffer.getvalue()).decode()
    return f"@font-face {{ font-family: 'DejaVu Sans'; src: url(data:font/ttf;base64,{data}) }}\n"


def wrapped(text: str, width_in: float) -> str:
    """A title in as many lines as it needs. matplotlib's own wrapping takes a dollar for a formula."""
    return textwrap.fill(text, int(width_in * 72 / (CHARACTER * (FONT_PT + 1))))


def _round(axis: Any) -> None:
    """Put short numbers on an axis, and none below 0 where no value is, unless the ends were chosen."""
    from matplotlib.ticker import AutoLocator

    locator, (low, high) = axis.get_major_locator(), axis.get_view_interval()
    if isinstance(locator, AutoLocator):
        locator.set_params(steps=ROUND)
    if low < 0 <= axis.get_data_interval()[0] and axis._get_autoscale_on():
        axis.set_view_interval(0.0, high, ignore=True)


def explain(
    part: Any, axes: Iterable[Axes], where: str = "outside lower center", columns: int = LEGEND_COLUMNS
) -> None:
    """One legend, beside the axes, for everything in them."""
    named: dict[str, Any] = {}
    for panel in axes:
        for handle, name in zip(*panel.get_legend_handles_labels(), strict=True):
            named.setdefault(name, handle)
    if named:
        part.legend(named.values(), named, loc=where, ncols=min(len(named), columns))


def _write_plain_powers(axis: Any) -> None:
    """Put plain numbers on a logarithmic axis: matplotlib's are formulas, which would be drawn as source text."""
    from matplotlib.ticker import FuncFormatter, LogFormatter, LogLocator, NullFormatter

    if axis.get_scale() != "log" or not isinstance(axis.get_major_formatter(), LogFormatter):
        return
    low, high = sorted(axis.get_view_interval())
    few = math.log10(high / low) <= FEW_DECADES
    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if few else (1.0,)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.7g}"))
    axis.set_minor_formatter(NullFormatter())


# ---- plans ----------------------------------------------------------------------------------------------------


# With more shapes than this, they become an image inside the picture: a file of megabytes helps nobody.
MOST_SHAPES = 2_000
# The most lanes of a panel.
MOST_LANES = 128
# Points between a label and both ends of its shape.
MARGIN_PT = 1.0
# Sizes in inches: the width of the picture, and the heights of a lane, of what a panel has besides, and of the legend.
WIDTH_IN, LANE_IN, PANEL_IN, LEGEND_IN = 11.0, 0.26, 0.9, 0.5
# Amounts are drawn up to so many times the largest, so that a limit there is seen beside the frame.
ROOM = 1.02
# The part of its height that a lane leaves free at either side.
SPACE = 0.08

Panel = tuple["Axes", Lanes]


def draw_plan(problem: Problem, plan: Plan, path: str | os.PathLike[str], rules: Rules | None = None) -> None:
    """Write the picture of a plan: SVG, PNG or PDF by the file's ending."""
    format_of(path)  # refuses what cannot be drawn before any work is done
    draw_view(view_of(problem, plan, rules or rules_of(problem, {})), path)


def draw_view(view: PlanView, path: str | os.PathLike[str]) -> None:
    """Write the picture of a plan's view: SVG, PNG or PDF by the file's ending."""
    rows = _rows(view)
    heights = [PANEL_IN + LANE_IN * sum(lane.height for lane in row.lanes[:MOST_LANES]) for row in rows]
    panels: list[Panel] = []
    with canvas(WIDTH_IN, sum(heights) + LEGEND_IN) as figure:
        if view.name:
            figure.suptitle(wrapped(f"{legible(view.name)}: {view.headline}", WIDTH_IN))
        heights.append(LEGEND_IN)
        parts = iter(figure.subfigures(len(heights), 1, height_ratios=heights, squeeze=False)[:, 0])
        for lanes in rows:
            axes = next(parts).subplots()
            _draw_lanes(axes, lanes)
            panels.append((axes, lanes))
        explain(next(parts), figure.axes, "center")
        _label_shapes(figure, panels)
        write_picture(figure, path)


def _rows(view: PlanView) -> list[Lanes]:
    """What is drawn below each other: timelines and memory over time, or loads and memory where the view has no
    timelines, or where these would not say what memory is for."""
    memory = memory_lanes(view.tables, view.memory_unit)
    tells_uses = not view.memory and any(len(row.memory or ()) > 2 for row in view.tables[0].rows)
    if tells_uses or not view.timelines:
        return [load_lanes(view), *([] if memory is None else [memory])]
    rows = [timeline_lanes(timeline, view) for timeline in view.timelines]
    if view.memory and not any(timeline.over_memory for timeline in view.timelines):
        rows.append(memory_over_time(view.memory, view))
    return rows


def _draw_lanes(axes: Axes, lanes: Lanes) -> None:
    """Draw one lane below the other, without labels, which `_label_shapes` adds; lanes without shapes say why."""
    if not any(lane.shapes for lane in lanes.lanes):
        axes.set_axis_off()
        axes.text(0.0, 0.5, wrapped("; ".join(lanes.notes), WIDTH_IN))
        return
    is_long = sum(len(lane.shapes) for lane in lanes.lanes) > MOST_SHAPES
    shown, tops = lanes.lanes[:MOST_LANES], _tops(lanes)
    for lane, top in zip(shown, tops, strict=False):
        _draw_lane(axes, lane, lanes, top, is_long)
    for i, (name, places) in enumerate(lanes.rules.items()):
        style = "--" if len(places) == 1 else ":"
        for place in places:  # behind the shapes, where they cross no label
            axes.axvline(place, color=INK, linewidth=1 - 0.4 * i, linestyle=style, zorder=0, label=name)
    for name, ink in lanes.colours.items():
        axes.broken_barh([], (0, 0), facecolor=ink, label=name)
    left_out = len(lanes.lanes) - len(shown)
    axes.set_title(lanes.title + (f", {left_out} lanes left out" if left_out else ""), loc="left")
    names = [legible(", ".join(filter(None, [lane.name, lane.value]))) for lane in shown]
    axes.set_yticks([top + lane.height / 2 for lane, top in zip(shown, tops, strict=False)], names)
    for lane, text in zip(shown, axes.get_yticklabels(), strict=True):
        text.set_fontweight("bold" if lane.is_slowest else "normal")
    axes.set_ylim(tops[len(shown)], 0)
    axes.set_xlim(lanes.start, lanes.end * (1 if lanes.is_over_time else ROOM))
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel(": ".join([lanes.axis, *lanes.notes]))


def _tops(lanes: Lanes) -> list[float]:
    """Where each lane begins, from the top, and where the last one ends."""
    return list(accumulate((lane.height for lane in lanes.lanes), initial=0.0))


def _draw_lane(axes: Axes, lane: Lane, lanes: Lanes, top: float, is_long: bool) -> None:
    """All shapes of a lane at once, for matplotlib looks at everything drawn so far whenever something is added."""
    from matplotlib.collections import PolyCollection

    seen = [shape for shape in lane.shapes if shape.colour is not None]
    style: dict[str, Any] = {"edgecolor": GROUND, "linewidth": 0.4 if lane.height == 1 else 0}
    if is_long:
        style = {"rasterized": True}
    drawn = PolyCollection(
        [_corners(shape, lane, top) for shape in seen], facecolors=[shape.colour for shape in seen], **style
    )
    # What a browser shows below the pointer: matplotlib knows no titles, but links, which nothing else here has.
    drawn.set_urls([legible(shape.title) if shape.title else None for shape in seen])
    axes.add_collection(drawn, autolim=False)
    limit: dict[str, Any] = {"color": INK, "linestyle": "--", "linewidth": 1, "label": "limit"}
    if lane.limit is not None:
        axes.plot([lane.limit] * 2, [top + SPACE / 2, top + lane.height - SPACE / 2], **limit)
    if lane.level is not None:
        axes.plot([lanes.start, lanes.end], [_place(lane.level, lane, top)] * 2, **limit)


def _place(share: float, lane: Lane, top: float) -> float:
    """The place of a share of the lane's height."""
    return top + SPACE + (1 - share) * (lane.height - 2 * SPACE)


def _corners(shape: Shape, lane: Lane, top: float) -> list[tuple[float, float]]:
    low, high = _place(shape.low, lane, top), _place(shape.high, lane, top)
    return [(shape.start, low), (shape.start, high), (shape.end, high), (shape.end, low)]


def _label_shapes(figure: Figure, panels: Iterable[Panel]) -> None:
    """Give each shape its label, or the short one, if there is room for it, once the widths of the panels are known."""
    figure.draw_without_rendering()
    for axes, lanes in panels:
        points = axes.get_window_extent().width / figure.dpi * 72 / ((lanes.end - lanes.start) or 1.0)
        for lane, top in zip(lanes.lanes[:MOST_LANES], _tops(lanes), strict=False):
            for shape in lane.shapes:
                room = (points * (shape.end - shape.start) - MARGIN_PT) / (CHARACTER * SMALL_PT)
                label = next((text for text in (legible(shape.label), shape.short) if len(text) <= room), "")
                if label and shape.colour is not None:
                    look: dict[str, Any] = {"color": ink_on(shape.colour), "fontsize": SMALL_PT, "in_layout": False}
                    place = ((shape.start + shape.end) / 2, top + lane.height / 2)
                    axes.text(*place, label, ha="center", va="center", **look)


# ---- curves ---------------------------------------------------------------------------------------------------


# Ratios beyond this are drawn on a logarithmic axis.
FAR = 4.0
# Seconds at which a logarithmic axis of time begins.
LEAST_S = 0.01
# The end of the axis, relative to the last point: the last step of every method is seen.
BEYOND = 1.08

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
            look["linewidth"] = THIN + 0.6 * (len(points) - 1 - i)  # so that a curve above another hides none
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
    places = profile[along].astype(float)
    return {str(own): list(zip(places, 100 * profile[own].astype(float), strict=True)) for own in methods}


def draw_profile(comparison: Comparison, folder: Path) -> dict[str, Path]:
    """Write the profiles for pages and for LaTeX, and return their paths; none where no run has finished."""
    from ..studies.compare.table import profile, time_profile

    frame, paths = comparison.table(), dict[str, Path]()
    for name, points_of in () if frame.empty else (("profile", profile), ("time profile", time_profile)):
        for ending, title in (("svg", name), ("pdf", f"{name} as pdf")):
            paths[title] = folder / f"{name.replace(' ', '-')}.{ending}"
            write_profile(points_of(frame), paths[title])
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
