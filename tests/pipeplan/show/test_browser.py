"""Reports in a real browser: no error on the console, usable with the keyboard, readable on a phone."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from legibility import DESK, PHONE, SHOWN, faults, opened
from page_samples import COMPARISON, EVERY, TRAINING, page_text

STRUCTURE = """
return [...document.querySelectorAll("section")].map((part) => {
  const box = part.getBoundingClientRect();
  const seen = box.width > 100 && box.height > 20;
  return [part.dataset.part, seen, part.querySelectorAll("table").length, part.querySelectorAll(".chart").length];
});
"""

pytestmark = pytest.mark.xdist_group("browser")


Pages = Callable[[str], Path]


def keys() -> Any:
    from selenium.webdriver.common.keys import Keys

    return Keys


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Pages:
    """Each page is made when it is first asked for."""
    folder, made = tmp_path_factory.mktemp("pages"), dict[str, Path]()

    def page(name: str) -> Path:
        if name not in made:
            path = folder / f"{name}.html"
            path.write_text(page_text(name, folder / "comparison"), encoding="utf-8")
            made[name] = path
        return made[name]

    return page


OURS = "problem 0 0, run 0 0, options 0 0, data 0 0"
# Parts in their order, with their numbers of tables and charts.
EXPECTED = {
    "tiny-chain": f"devices 1 0, gantt 0 1, loads 1 1, memory 0 1, graph 0 1, {OURS}",
    "golden-4": f"gpus 1 0, gantt 0 1, loads 0 1, memory 0 1, memory over time 0 1, {OURS}",
    "tiny-stages": f"stages 1 0, gantt 0 1, loads 1 1, memory 0 1, memory over time 0 1, graph 0 1, {OURS}",
    "zero-bubble-4x12": f"devices 1 0, gantt 0 1, loads 0 1, memory 0 1, {OURS}",
    COMPARISON: "values 1 0, gaps 1 0, methods 1 0, pairs of methods 1 0, runs 1 0, profile 0 1",
    TRAINING: f"stages 1 0, gantt 0 1, loads 1 1, memory 0 1, judged 0 3, time by part 0 1, shortlist 1 0, {OURS}",
}


@pytest.mark.sweeps("comparison*", "configurations*", "golden-4-phone", "tiny-stages-desk", "zero*")
@pytest.mark.slow("comparison-phone", "zero-bubble-4x12-phone")
@pytest.mark.parametrize("size", [PHONE, DESK], ids=["phone", "desk"])
@pytest.mark.parametrize("name", EXPECTED)
def test_every_part_is_seen_and_the_console_is_silent(
    browser: Any, pages: Pages, name: str, size: tuple[int, int]
) -> None:
    page = opened(browser, pages(name), size)
    found = page.execute_script(STRUCTURE)
    assert all(seen for _, seen, _, _ in found)
    # How the search went is shown only where there was one.
    named = [f"{part} {tables} {charts}" for part, _, tables, charts in found if part != "search"]
    assert ", ".join(named) == EXPECTED[name]
    assert page.get_log("browser") == []


FAULTY = """<!doctype html><title>t</title><body style="background: #fff; font: 16px sans-serif; margin: 0">
<div style="width: 99px; overflow: auto"><div style="width: 200px">too wide</div></div>
<p style="margin-left: -40px">beside the page</p> <p style="font-size: 9px">tiny</p>
<p style="color: #ccc">pale</p> <div style="opacity: .5"><p style="color: #555">seen through</p></div>
<p style="background: #444">on its own ground</p>
<svg class="pipeplan" width="500" height="60" viewBox="0 0 500 60"><g style="font: 12px sans-serif">
<text x="5" y="12">one label</text><text x="15" y="13">another</text><text x="490" y="12">beyond the edge</text>
<text x="5" y="54" style="font-size: 10px">small in a picture</text>
<rect x="125" y="30" width="60" height="20" fill="#8442c4"/><text x="130" y="44">on a bar</text>
<line x1="200" x2="290" y1="39" y2="39" stroke="#000"/><text x="205" y="43">struck through</text>
<text x="305" y="43" style="paint-order: stroke; stroke: #fff; stroke-width: 4px">halo below a line</text>
<line x1="300" x2="420" y1="39" y2="39" stroke="#000"/></g></svg>"""


def test_the_checks_notice_what_they_are_for(browser: Any, tmp_path: Path) -> None:
    path = tmp_path / "faulty.html"
    path.write_text(FAULTY, encoding="utf-8")
    assert [fault.partition(" px")[0] for fault in faults(opened(browser, path))] == [
        "cut off: DIV  too wide", "cut off: beside the page", "cut off: beyond the edge",
        "overlap: one label on another", "small: tiny 9.0", "small: small in a picture 10.0", "faint: pale 1.61",
        "faint: seen through 2.32", "faint: on its own ground 2.16", "faint: struck through 1.00",
        "faint: halo below a line 1.00", "faint: on a bar 3.56",
    ]  # fmt: skip


# Both extremes of width, and both schemes, for each page; the other combinations with `--slow`.
SWEPT = [("phone", "dark"), ("desk", "light")]
LOOKS = [
    pytest.param(shown, scheme, marks=[] if (shown, scheme) in SWEPT else pytest.mark.slow)
    for shown in SHOWN
    for scheme in ("light", "dark")
]


@pytest.mark.slow("case-study-desk-light")
@pytest.mark.sweeps("*-desk-light", "[!t]*-phone-dark", "tiny-chain ?*-phone-dark", "tiny-[!cs]*-phone-dark")
@pytest.mark.parametrize(("shown", "scheme"), LOOKS)
@pytest.mark.parametrize("name", EVERY)
def test_every_page_is_readable(browser: Any, pages: Pages, name: str, shown: str, scheme: str) -> None:
    assert faults(opened(browser, pages(name), SHOWN[shown], scheme)) == []


@pytest.mark.sweeps
def test_a_page_is_printed_on_few_sheets(browser: Any, pages: Pages) -> None:
    page = opened(browser, pages("case-study"))
    printed = base64.b64decode(page.execute_cdp_cmd("Page.printToPDF", {"printBackground": True})["data"])
    assert 1 <= len(re.findall(rb"/Type\s*/Page\b", printed)) <= 6


def test_the_gantt_is_walked_with_the_keyboard(browser: Any, pages: Pages) -> None:
    page = opened(browser, pages("golden-4"))
    chart = page.find_element("css selector", "[data-part=gantt] .chart")
    said = chart.find_element("css selector", ".said")
    chart.find_element("css selector", ".mark[tabindex='0']").click()
    heard = [said.text]
    for key in (keys().ARROW_RIGHT, keys().ARROW_LEFT, keys().END):
        page.switch_to.active_element.send_keys(key)
        heard.append(said.text)
    assert heard[0].startswith("F1 of batch 0")
    assert heard[1] != heard[0] == heard[2]
    assert heard[3] == chart.find_elements("css selector", ".mark")[-1].get_attribute("aria-label")
    assert len(chart.find_elements("css selector", ".mark[tabindex='0']")) == 1, "one stop for the Tab key"


def test_zooming_widens_the_picture_within_its_frame(browser: Any, pages: Pages) -> None:
    page = opened(browser, pages("golden-4"))
    chart = page.find_element("css selector", "[data-part=gantt] .chart")
    picture = chart.find_element("css selector", "svg")
    before = picture.size["width"]
    slider = chart.find_element("css selector", "input[type=range]")
    for _ in range(4):
        slider.send_keys(keys().ARROW_RIGHT)
    assert picture.size["width"] == pytest.approx(3 * before, rel=0.02)
    wide, window = page.execute_script("return [document.documentElement.scrollWidth, window.innerWidth]")
    assert wide <= window


@pytest.mark.sweeps
@pytest.mark.parametrize("size", [(400, 800), DESK], ids=["narrow", "desk"])
def test_the_shortlist_of_a_training_sorts_by_click_and_by_keyboard(
    browser: Any, pages: Pages, size: tuple[int, int]
) -> None:
    page = opened(browser, pages(TRAINING), size)
    table = page.find_element("css selector", "[data-part=shortlist] table")
    heads = {head.text: head for head in table.find_elements("css selector", "th button")}
    names = [name for name in heads if name]
    assert names[:5] == ["row", "s", "slower", "GiB", "fits (GiB)"], "all headings are seen, on a phone as well"

    def column(name: str) -> list[float]:
        cells = table.find_elements("css selector", f"tbody td[data-label='{name}']")
        return [float(cell.text.split()[-1]) for cell in cells]

    places = column("row")
    assert places == sorted(places)
    heads["GiB"].click()
    assert column("row") != places
    assert column("GiB") == sorted(column("GiB"))
    for name, key, reverse in (("GiB", keys().ENTER, True), ("s", keys().SPACE, False)):
        heads[name].send_keys(key)
        assert column(name) == sorted(column(name), reverse=reverse)
        ordered = table.find_elements("css selector", "th[aria-sort]")
        assert [head.get_attribute("aria-sort") for head in ordered] == ["descending" if reverse else "ascending"]
