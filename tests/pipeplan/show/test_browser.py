"""Reports in a real browser: no error on the console, usable with the keyboard, readable on a phone.

They need Chromium and its driver. Where `PIPEPLAN_BROWSER` is `required` (as in `.ci/run`) their absence is a failure.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pipeplan.instances.catalogue import load_packaged
from pipeplan.planners.run.solve import solve
from pipeplan.show.page.comparison_page import comparison_page
from pipeplan.show.page.result_page import result_page
from pipeplan.studies.compare.comparison import compare, load_comparison
from pipeplan.studies.compare.suite import Instance, Suite, competitor

FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
PHONE, DESK = (360, 800), (1200, 900)
STRUCTURE = """
return [...document.querySelectorAll("section")].map((part) => {
  const box = part.getBoundingClientRect();
  const seen = box.width > 100 && box.height > 20;
  return [part.dataset.part, seen, part.querySelectorAll("table").length, part.querySelectorAll(".chart").length];
});
"""

pytestmark = pytest.mark.xdist_group("browser")


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    program, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if program is None or driver is None:
        message = "no chromium with chromedriver on the path"
        if os.environ.get("PIPEPLAN_BROWSER") == "required":
            pytest.fail(message)
        pytest.skip(message)
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = program
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    session = webdriver.Chrome(options=options, service=Service(driver))
    yield session
    session.quit()


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    texts = {}
    for name, planner in (("tiny-chain", "dp"), ("golden-4", "exact-beaumont"), ("tiny-stages", "dp-piper")):
        problem = load_packaged(name)
        texts[name] = result_page(problem, solve(problem, planner=planner))
    suite = Suite("s", (Instance("tiny", "tiny-chain"),), tuple(map(competitor, ("greedy", "dp", "local-search"))))
    compare(suite, folder / "comparison")
    texts["comparison"] = comparison_page(load_comparison(folder / "comparison"))
    paths = {name: folder / f"{name}.html" for name in texts}
    for name, text in texts.items():
        paths[name].write_text(text, encoding="utf-8")
    return paths


def opened(browser: Any, path: Path, size: tuple[int, int] = DESK) -> Any:
    metrics = {"width": size[0], "height": size[1], "deviceScaleFactor": 1, "mobile": size == PHONE}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    browser.get_log("browser")  # what another page said
    browser.get(path.as_uri())
    return browser


EXPECTED = {
    "tiny-chain": "run 0 0, devices 1 0, loads 0 1, memory 0 1, graph 0 1, gantt 0 1, data 0 0",
    "golden-4": "run 0 0, gpus 1 0, loads 0 1, memory 0 1, memory over time 0 1, gantt 0 1, data 0 0",
    "tiny-stages": "run 0 0, stages 1 0, loads 0 1, memory 0 1, memory over time 0 1, graph 0 1, gantt 0 1, data 0 0",
    "comparison": "values 1 0, methods 1 0, profile 0 1, ratios 0 1, seconds 0 1, runs 1 0",
}
"""Parts in their order, with their numbers of tables and charts."""


@pytest.mark.parametrize("size", [PHONE, DESK], ids=["phone", "desk"])
@pytest.mark.parametrize("name", EXPECTED)
def test_every_part_is_seen_and_the_console_is_silent(
    browser: Any, pages: dict[str, Path], name: str, size: tuple[int, int]
) -> None:
    page = opened(browser, pages[name], size)
    found = page.execute_script(STRUCTURE)
    assert all(seen for _, seen, _, _ in found)
    # How the search went is shown only where there was one.
    named = [f"{part} {tables} {charts}" for part, _, tables, charts in found if part != "search"]
    assert ", ".join(named) == EXPECTED[name]
    assert page.get_log("browser") == []


@pytest.mark.parametrize("name", EXPECTED)
def test_on_a_phone_only_charts_and_tables_scroll_sideways(browser: Any, pages: dict[str, Path], name: str) -> None:
    page = opened(browser, pages[name], PHONE)
    wide, window = page.execute_script("return [document.documentElement.scrollWidth, window.innerWidth]")
    assert window == PHONE[0]
    assert wide <= window


def test_the_gantt_is_walked_with_the_keyboard(browser: Any, pages: dict[str, Path]) -> None:
    from selenium.webdriver.common.keys import Keys

    page = opened(browser, pages["golden-4"])
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


def test_zooming_widens_the_picture_within_its_frame(browser: Any, pages: dict[str, Path]) -> None:
    from selenium.webdriver.common.keys import Keys

    page = opened(browser, pages["golden-4"])
    chart = page.find_element("css selector", "[data-part=gantt] .chart")
    picture = chart.find_element("css selector", "svg")
    before = picture.size["width"]
    slider = chart.find_element("css selector", "input[type=range]")
    for _ in range(4):
        slider.send_keys(Keys.ARROW_RIGHT)
    assert picture.size["width"] == pytest.approx(3 * before, rel=0.02)
    wide, window = page.execute_script("return [document.documentElement.scrollWidth, window.innerWidth]")
    assert wide <= window


def test_a_table_is_sorted_by_its_heading_with_the_keyboard(browser: Any, pages: dict[str, Path]) -> None:
    from selenium.webdriver.common.keys import Keys

    page = opened(browser, pages["comparison"])
    table = page.find_element("css selector", "[data-part=methods] table")

    def column() -> list[str]:
        return [row.text.split()[0] for row in table.find_elements("css selector", "tbody tr")]

    assert column() == ["greedy", "dp", "local-search"]
    table.find_element("css selector", "th button").send_keys(Keys.ENTER)
    assert column() == ["dp", "greedy", "local-search"]
    assert table.find_element("css selector", "th").get_attribute("aria-sort") == "ascending"
    table.find_element("css selector", "th button").send_keys(Keys.ENTER)
    assert column() == ["local-search", "greedy", "dp"]
