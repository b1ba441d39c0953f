"""Where pictures are drawn and how they get into a file; matplotlib is imported here alone."""

from __future__ import annotations

import base64
import html
import io
import math
import os
import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...instances.base.errors import InputError
from ...instances.base.json_file import write_bytes_atomically
from ..words import is_visible

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

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
    write_bytes_atomically(path, _same_clips(themed(drawn.decode())).encode() if ending == "svg" else drawn)


def themed(svg: str) -> str:
    """The SVG in the ink and on the ground of the page, light or dark, without rotations by 0 degrees, and with titles
    where `with_titles` has put them."""
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


def _same_clips(svg: str) -> str:
    """The SVG with numbered clips: their ids come from places whose last digit differs between drawings."""
    for number, clip in enumerate(dict.fromkeys(re.findall(r"url\(#(p[0-9a-f]{10})\)", svg))):
        svg = svg.replace(clip, f"clip{number}")
    return svg


def wrapped(text: str, width_in: float) -> str:
    """A title in as many lines as it needs. matplotlib's own wrapping takes a dollar for a formula."""
    return textwrap.fill(text, int(width_in * 72 / (CHARACTER * (FONT_PT + 1))))


def with_titles(shapes: Any, titles: Sequence[str]) -> None:
    """Give each shape the title that a browser shows below the pointer.

    matplotlib knows no titles, but links, which it writes around each shape; nothing else here has links.
    """
    shapes.set_urls([legible(title) if title else None for title in titles])


def _round(axis: Any) -> None:
    """Put short numbers on an axis, and none below 0 where no value is, unless the ends were chosen."""
    from matplotlib.ticker import AutoLocator

    locator = axis.get_major_locator()
    if isinstance(locator, AutoLocator):
        locator.set_params(steps=ROUND)
    if axis.get_view_interval()[0] < 0 <= axis.get_data_interval()[0] and axis._get_autoscale_on():
        axis.set_view_interval(0.0, axis.get_view_interval()[1], ignore=True)


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
