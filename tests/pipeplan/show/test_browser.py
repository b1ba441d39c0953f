"""Reports in a real browser: no error on the console, usable with the keyboard, readable on a phone."""

from __future__ import annotations

import base64
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from pipeplan.instances.catalogue import load_packaged
from pipeplan.instances.placement.problem import Node, PlacementProblem
from pipeplan.planners.run.solve import solve
from pipeplan.show.page.comparison_page import comparison_page
from pipeplan.show.page.result_page import result_page
from pipeplan.studies.compare.comparison import compare, load_comparison
from pipeplan.studies.compare.suite import Instance, Suite, competitor

PHONE, DESK = (360, 800), (1200, 900)
WIDTHS = {"desk": 1280, "phone": 400, "paper": 718}
PLANNED = {
    "tiny-chain": "dp",
    "tiny-chain latency": "latency-greedy",
    "cpu-offload latency": "latency-greedy",
    "resnet50-training": "greedy",
    "golden-4": "exact-beaumont",
    "resnet34-chain": "contiguous",
    "tiny-stages": "dp-piper",
    "tiny-levels": "dp-piper",
    "resnet50-stages": "equi",
    "case-study": "graphpipe",
    "zero-bubble-4x12": "list-schedule",
    "nn-shape-4": "list-schedule",
    "tiny-chain without a plan": "one-device",
}
"""Pages of every kind, by the packaged instance and what tells them apart."""
STRUCTURE = """
return [...document.querySelectorAll("section")].map((part) => {
  const box = part.getBoundingClientRect();
  const seen = box.width > 100 && box.height > 20;
  return [part.dataset.part, seen, part.querySelectorAll("table").length, part.querySelectorAll(".chart").length];
});
"""

pytestmark = pytest.mark.xdist_group("browser")


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    texts = {}
    for name, planner in PLANNED.items():
        problem = load_packaged(name.partition(" ")[0])
        texts[name] = result_page(problem, solve(problem, planner=planner))
    texts["long names"] = page_of_long_names()
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


OURS = "problem 0 0, run 0 0, options 0 0, data 0 0"
EXPECTED = {
    "tiny-chain": f"devices 1 0, gantt 0 1, loads 1 1, memory 0 1, graph 0 1, {OURS}",
    "golden-4": f"gpus 1 0, gantt 0 1, loads 0 1, memory 0 1, memory over time 0 1, {OURS}",
    "tiny-stages": f"stages 1 0, gantt 0 1, loads 1 1, memory 0 1, memory over time 0 1, graph 0 1, {OURS}",
    "zero-bubble-4x12": f"devices 1 0, gantt 0 1, loads 0 1, memory 0 1, {OURS}",
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


CUT_OFF = """
const faults = [];
const page = document.documentElement;
if (page.scrollWidth > window.innerWidth) faults.push(`the page is ${page.scrollWidth} wide`);
for (const frame of document.querySelectorAll(".scroll, td, dd, pre, li, p, h1"))
  if (frame.scrollWidth > frame.clientWidth + 1 && getComputedStyle(frame).display !== "inline")
    faults.push(`${frame.tagName} ${frame.className} ${frame.textContent.slice(0, 40)}`);
const seen = (element) => element.getClientRects().length > 0;
for (const picture of document.querySelectorAll("svg[role=group]")) {
  const labels = [...picture.querySelectorAll("text")].filter(seen);
  const boxes = labels.map((label) => label.getBoundingClientRect());
  boxes.forEach((a, i) => {
    if (a.left < -1 || a.right > window.innerWidth + 1) faults.push(`outside: ${labels[i].textContent}`);
    boxes.slice(i + 1).forEach((b, k) => {
      const wide = Math.min(a.right, b.right) - Math.max(a.left, b.left);
      const high = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
      if (wide > 1 && high > 3) faults.push(`${labels[i].textContent} on ${labels[i + 1 + k].textContent}`);
    });
  });
}
return faults;
"""
FAINT = """
const channels = (colour) => colour.match(/[0-9.]+/g).slice(0, 3).map((part) => {
  const share = part / 255;
  return share <= 0.03928 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
});
const light = (colour) => { const [r, g, b] = channels(colour); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
const ground = light(getComputedStyle(document.body).backgroundColor);
const faint = (ink) => (Math.max(light(ink), ground) + 0.05) / (Math.min(light(ink), ground) + 0.05) < 4.5;
return [ground, [...document.querySelectorAll("h1, h2, p, dt, dd, td, li, caption, svg text:not(.inside)")]
  .filter((e) => { const style = getComputedStyle(e); return faint(e.closest("svg") ? style.fill : style.color); })
  .map((e) => e.textContent)];
"""


def page_of_long_names() -> str:
    """Names without any place to break, as of machines, and memory of many digits."""
    word = "AnOverlyDescriptiveModuleNameWithoutAnyBreaks"
    nodes = tuple(
        Node(
            id=f"{word}{i}" * 3,
            accelerator_time=1.0 + i / 7,
            cpu_time=9.0,
            size_bytes=1e9 / 7,
            transfer_time=0.123 * (i < 11),
        )
        for i in range(12)
    )
    edges = tuple((a.id, b.id) for a, b in pairwise(nodes))
    problem = PlacementProblem(name=word * 3, nodes=nodes, edges=edges, accelerators=4, cpus=0, memory_bytes=1e9)
    return result_page(problem, solve(problem, planner="dp"))


FAULTY = """<!doctype html><body style="background: rgb(255, 255, 255)">
<div class="scroll" style="width: 99px; overflow: auto"><div style="width: 200px">wide</div></div>
<svg role="group" width="300" height="50"><text x="0" y="20">one label</text><text x="9" y="20">another</text></svg>
<p style="color: rgb(200, 200, 200)">faint</p>"""


def test_the_checks_notice_what_they_are_for(browser: Any, tmp_path: Path) -> None:
    path = tmp_path / "faulty.html"
    path.write_text(FAULTY, encoding="utf-8")
    page = opened(browser, path)
    assert page.execute_script(CUT_OFF) == ["DIV scroll wide", "one label on another"]
    assert page.execute_script(FAINT)[1] == ["faint"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("medium", WIDTHS)
@pytest.mark.parametrize("name", [*PLANNED, "long names", "comparison"])
def test_nothing_is_cut_off_overlaps_or_is_too_faint_to_read(
    browser: Any, pages: dict[str, Path], name: str, medium: str, scheme: str
) -> None:
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    media = {"media": "print" if medium == "paper" else "screen", "features": features}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
    try:
        page = opened(browser, pages[name], (WIDTHS[medium], 900))
        assert page.execute_script(CUT_OFF) == []
        ground, faint = page.execute_script(FAINT)
        assert faint == []
        assert (ground < 0.1) == (scheme == "dark" and medium != "paper")
        assert page.get_log("browser") == []
    finally:
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": []})


def test_a_page_is_printed_on_few_sheets(browser: Any, pages: dict[str, Path]) -> None:
    page = opened(browser, pages["case-study"])
    printed = base64.b64decode(page.execute_cdp_cmd("Page.printToPDF", {"printBackground": True})["data"])
    assert 1 <= len(re.findall(rb"/Type\s*/Page\b", printed)) <= 5


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
