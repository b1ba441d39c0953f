"""Pictures are written whole, by the file's ending, and are the same for the same facts."""

from __future__ import annotations

import base64
import io
import re
from pathlib import Path

import matplotlib.image as mpimg
import pytest
from command_line import has
from fontTools.ttLib import TTFont

from pipeplan.instances.base.errors import InputError
from pipeplan.show.pictures import GROUND, INK, canvas, format_of, write_picture


def drawn(path: Path) -> bytes:
    with canvas() as figure:
        figure.subplots().plot([1, 2], [3, 4], label="<script>")
        figure.legend()
        write_picture(figure, path)
    return path.read_bytes()


def test_the_same_facts_give_the_same_svg_with_escaped_text(tmp_path: Path) -> None:
    first = drawn(tmp_path / "one.svg")
    assert first == drawn(tmp_path / "two.svg")
    assert b"&lt;script&gt;" in first
    assert b"<script" not in first


def test_an_svg_holds_the_font_of_its_words(tmp_path: Path) -> None:
    """So that they are as wide as they were drawn, whatever fonts its viewer has."""
    svg = drawn(tmp_path / "one.svg").decode()
    (data,) = re.findall(r"@font-face \{ font-family: 'DejaVu Sans'; src: url\(data:font/ttf;base64,([^)]*)\)", svg)
    held = TTFont(io.BytesIO(base64.b64decode(data))).getBestCmap()
    assert set(map(ord, "<script>1234")) <= held.keys()
    assert "'DejaVu Sans'" in svg.partition("</style>")[2]


def test_the_ending_decides_the_format(tmp_path: Path) -> None:
    assert drawn(tmp_path / "one.PNG").startswith(b"\x89PNG")
    assert drawn(tmp_path / "one.pdf").startswith(b"%PDF")
    assert drawn(tmp_path / "one.pdf") == drawn(tmp_path / "two.pdf")


@pytest.mark.parametrize("name", ["plan.gif", "plan"])
def test_other_endings_are_refused_in_one_sentence(name: str) -> None:
    with pytest.raises(InputError, match=r"name a file that ends in \.svg, \.png or \.pdf"):
        format_of(name)


@pytest.mark.parametrize(("most", "named"), [(60.0, b">20<"), (1e7, b">10,000<")])
def test_logarithmic_axes_have_numbers_and_no_source_of_formulas(tmp_path: Path, most: float, named: bytes) -> None:
    with canvas() as figure:
        axes = figure.subplots()
        axes.plot([5, most], [0.02, 0.4])
        axes.set(xscale="log", yscale="log")
        write_picture(figure, tmp_path / "log.svg")
    text = (tmp_path / "log.svg").read_bytes()
    assert b"mathdefault" not in text
    assert named in text
    assert b">0.05<" in text


@pytest.mark.sweeps
def test_the_ink_of_an_svg_is_that_of_the_page_and_black_on_paper(tmp_path: Path) -> None:
    with canvas() as figure:
        axes = figure.subplots()
        axes.scatter([1], [2], c=[GROUND], edgecolors="#4477aa")
        axes.text(1, 2, "on a bar", color="black")
        for ending in ("svg", "png"):
            write_picture(figure, tmp_path / f"one.{ending}")
    text = (tmp_path / "one.svg").read_text("utf-8")
    assert INK not in text
    assert GROUND not in text
    has(text, 'class="ground"', "prefers-color-scheme: dark")
    assert "fill: currentColor" in re.findall(r"<text[^>]*>", text)[0]
    assert "currentColor" not in next(tag for tag in re.findall(r"<text[^>]*>[^<]*", text) if "on a bar" in tag)
    first = mpimg.imread(tmp_path / "one.png")[0, 0]
    assert tuple(first) == (1, 1, 1, 1), "other files have their own ground"


@pytest.mark.sweeps
def test_axes_have_round_numbers_from_zero_on_and_enough_digits(tmp_path: Path) -> None:
    with canvas() as figure:
        left, right = figure.subplots(1, 2)
        left.plot([0.1, 40], [0.2, 33])
        right.plot([0, 1], [16.001, 16.004])
        write_picture(figure, tmp_path / "one.svg")
        assert left.get_xlim()[0] == left.get_ylim()[0] == 0
    numbers = re.findall(r">([\d.]+)</text>", (tmp_path / "one.svg").read_text("utf-8"))
    assert {"0", "10", "20", "30", "40"} <= set(numbers)
    assert "2.5" not in numbers
    assert any(number.startswith("16.002") for number in numbers)
