"""Where pictures are drawn and how they get into a file; matplotlib is imported here alone."""

from __future__ import annotations

import io
import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...instances.errors import InputError
from ...instances.json_file import write_bytes_atomically

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORMATS = ("svg", "png", "pdf")
UNDATED: dict[str, dict[str, None]] = {
    "svg": {"Date": None},
    "png": {"Software": None},
    "pdf": {"CreationDate": None},
}
"""What is left out of a file of each format, so that an unchanged picture is an unchanged file."""
LONGEST_NAME = 48

FEW_DECADES = 3.5
"""On a logarithmic axis; where there are no more, 2 and 5 are named between the powers of ten."""


def format_of(path: str | os.PathLike[str]) -> str:
    """By the file's ending; refused before anything is computed."""
    ending = Path(path).suffix.lstrip(".").lower()
    if ending not in FORMATS:
        raise InputError(
            "picture", f"ends in {ending or 'nothing'!r}", "name a file that ends in .svg, .png or .pdf", str(path)
        )
    return ending


def legible(name: object) -> str:
    """A name from a file as text for a picture: no control characters, which SVG could not hold, and not too long."""
    text = "".join(char if char.isprintable() else "?" for char in str(name))
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
        "font.size": 9,
        "text.parse_math": False,
    }
    with matplotlib.rc_context(style):
        yield Figure(figsize=(width_in, height_in), layout="constrained")


def write_picture(figure: Figure, path: str | os.PathLike[str]) -> None:
    """SVG, PNG or PDF by the file's ending, atomically, without a date in it. Call it inside `canvas`."""
    ending = format_of(path)
    for axes in figure.axes:
        for axis in (axes.xaxis, axes.yaxis):
            _write_plain_powers(axis)
    buffer = io.BytesIO()
    figure.savefig(buffer, format=ending, dpi=150, metadata=UNDATED[ending])
    write_bytes_atomically(path, buffer.getvalue())


def _write_plain_powers(axis: Any) -> None:
    """Numbers on logarithmic axes: the usual ones are formulas, which would be drawn as their source text."""
    from matplotlib.ticker import FuncFormatter, LogFormatter, LogLocator, NullFormatter

    if axis.get_scale() != "log" or not isinstance(axis.get_major_formatter(), LogFormatter):
        return
    low, high = sorted(axis.get_view_interval())
    few = math.log10(high / low) <= FEW_DECADES
    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if few else (1.0,)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())
