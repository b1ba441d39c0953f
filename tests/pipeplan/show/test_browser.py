"""Reports in a real browser: no error on the console, usable with the keyboard, readable on a phone."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from page_samples import COMPARISON, CURVES, EVERY, KINDS, page_text

PHONE, DESK = (360, 800), (1200, 900)
STRUCTURE = """
return [...document.querySelectorAll("section")].map((part) => {
  const box = part.getBoundingClientRect();
  const seen = box.width > 100 && box.height > 20;
  return [part.dataset.part, seen, part.querySelectorAll("table").length, part.querySelectorAll(".chart").length];
});
"""

pytestmark = pytest.mark.xdist_group("browser")


Pages = Callable[[str], Path]


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


def opened(browser: Any, path: Path, size: tuple[int, int] = DESK) -> Any:
    metrics = {"width": size[0], "height": size[1], "deviceScaleFactor": 1, "mobile": size == PHONE}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    browser.get_log("browser")  # what another page said
    browser.get(path.as_uri())
    return browser


OURS = "problem 0 0, run 0 0, options 0 0, data 0 0"
EXPECTED = {
    "tiny-chain": f"devices 1 0, gantt 0 1, loads 1 1, memory 0 1, graph 0 1, {OURS}",
    "golden-4": f"gpus 1 0, gantt 0 1, loads 0 1, memory 0 1, memory over time 0 1, {OURS}",
    "tiny-stages": f"stages 1 0, gantt 0 1, loads 1 1, memory 0 1, memory over time 0 1, graph 0 1, {OURS}",
    "zero-bubble-4x12": f"devices 1 0, gantt 0 1, loads 0 1, memory 0 1, {OURS}",
    COMPARISON: "values 1 0, methods 1 0, profile 0 1, ratios 0 1, seconds 0 1, runs 1 0",
    CURVES[0]: "curves 0 1, points 1 0, plans 3 0, problem 0 0, asked 0 0, data 0 0",
}
"""Parts in their order, with their numbers of tables and charts."""


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


READ = (Path(__file__).parent / "readable.js").read_text("utf-8")


def faults(page: Any) -> dict[str, list[str]]:
    """What a reader would stumble over. All of the page is made visible at once, as colours are asked for by place."""
    metrics = {"deviceScaleFactor": 1, "mobile": False, "width": page.execute_script("return innerWidth")}
    height = page.execute_script("return document.documentElement.scrollHeight")
    page.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {**metrics, "height": height + 50})
    found: dict[str, list[str]] = page.execute_script(READ)
    return {name: texts for name, texts in found.items() if texts}


FAULTY = """<!doctype html><body style="background: rgb(255, 255, 255)">
<div class="scroll" style="width: 99px; overflow: auto"><div style="width: 200px">wide</div></div>
<svg width="300" height="50"><text x="0" y="20">one label</text><text x="9" y="20">another</text></svg>
<p style="color: rgb(200, 200, 200)">faint</p> <p style="font-size: 9px">tiny</p>
<svg width="300" height="50"><rect width="90" height="50" fill="#ffe"></rect>
<text x="2" y="20" fill="#fff">white on pale</text></svg>
<p style="margin-left: -40px">beside the page</p>"""


def test_the_checks_notice_what_they_are_for(browser: Any, tmp_path: Path) -> None:
    path = tmp_path / "faulty.html"
    path.write_text(FAULTY, encoding="utf-8")
    assert faults(opened(browser, path)) == {
        "cut off": ["DIV scroll: wide", "beside the page"],
        "overlapping": ["one label on another"],
        "faint": ["faint 1.67", "white on pale 1.01"],
        "small": ["tiny 9"],
    }


def look(browser: Any, path: Path, width: int, medium: str, scheme: str) -> None:
    """Nothing is cut off, lies on other text, is too faint or too small to be read."""
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": medium, "features": features})
    try:
        page = opened(browser, path, (width, 900))
        assert faults(page) == {}
        ground = page.execute_script("return getComputedStyle(document.body).backgroundColor")
        assert (ground != "rgb(255, 255, 255)") == (scheme == "dark" and medium != "print")
        assert page.get_log("browser") == []
    finally:
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": []})


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (400, "dark")])
@pytest.mark.parametrize("name", KINDS)
def test_one_page_of_each_kind_is_readable(browser: Any, pages: Pages, name: str, width: int, scheme: str) -> None:
    look(browser, pages(name), width, "screen", scheme)


@pytest.mark.sweeps
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(("width", "medium"), [(1280, "screen"), (400, "screen"), (718, "print")])
@pytest.mark.parametrize("name", EVERY)
def test_every_page_is_readable(
    browser: Any, pages: Pages, name: str, width: int, medium: str, scheme: str
) -> None:
    look(browser, pages(name), width, medium, scheme)


def test_a_page_is_printed_on_few_sheets(browser: Any, pages: Pages) -> None:
    page = opened(browser, pages("case-study"))
    printed = base64.b64decode(page.execute_cdp_cmd("Page.printToPDF", {"printBackground": True})["data"])
    assert 1 <= len(re.findall(rb"/Type\s*/Page\b", printed)) <= 5


@pytest.mark.parametrize("name", EXPECTED)
def test_on_a_phone_only_charts_and_tables_scroll_sideways(browser: Any, pages: Pages, name: str) -> None:
    page = opened(browser, pages(name), PHONE)
    wide, window = page.execute_script("return [document.documentElement.scrollWidth, window.innerWidth]")
    assert window == PHONE[0]
    assert wide <= window


def test_the_gantt_is_walked_with_the_keyboard(browser: Any, pages: Pages) -> None:
    from selenium.webdriver.common.keys import Keys

    page = opened(browser, pages("golden-4"))
    chart = page.find_element("css selector", "[data-part=gantt] .chart")
    said = chart.find_element("css selector", ".said")
    chart.find_element("css selector", ".mark[tabindex='0']").click()
    first = said.text
    assert first.startswith("F1 of batch 0")
    page.switch_to.active_element.send_keys(Keys.ARROW_RIGHT)
    second = said.text
    assert second != first
    page.switch_to.active_element.send_keys(Keys.ARROW_LEFT)
    assert said.text == first
    page.switch_to.active_element.send_keys(Keys.END)
    assert said.text == chart.find_elements("css selector", ".mark")[-1].get_attribute("aria-label")
    assert len(chart.find_elements("css selector", ".mark[tabindex='0']")) == 1, "one stop for the Tab key"


def test_zooming_widens_the_picture_within_its_frame(browser: Any, pages: Pages) -> None:
    from selenium.webdriver.common.keys import Keys

    page = opened(browser, pages("golden-4"))
    chart = page.find_element("css selector", "[data-part=gantt] .chart")
    picture = chart.find_element("css selector", "svg")
    before = picture.size["width"]
    slider = chart.find_element("css selector", "input[type=range]")
    for _ in range(4):
        slider.send_keys(Keys.ARROW_RIGHT)
    assert picture.size["width"] == pytest.approx(3 * before, rel=0.02)
    wide, window = page.execute_script("return [document.documentElement.scrollWidth, window.innerWidth]")
    assert wide <= window


def test_a_table_is_sorted_by_its_heading_with_the_keyboard(browser: Any, pages: Pages) -> None:
    from selenium.webdriver.common.keys import Keys

    page = opened(browser, pages(COMPARISON))
    table = page.find_element("css selector", "[data-part=methods] table")

    def column() -> list[str]:
        return [row.text.split()[0] for row in table.find_elements("css selector", "tbody tr")]

    assert column() == ["greedy", "dp", "local-search"]
    table.find_element("css selector", "th button").send_keys(Keys.ENTER)
    assert column() == ["dp", "greedy", "local-search"]
    assert table.find_element("css selector", "th").get_attribute("aria-sort") == "ascending"
    table.find_element("css selector", "th button").send_keys(Keys.ENTER)
    assert column() == ["local-search", "greedy", "dp"]
