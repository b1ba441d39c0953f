"""The page that explores a pipeline says what the simulator says, and can be used by everybody."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from explored_pipelines import SCHEDULES, SETUP, SITUATIONS, SLIDERS, USUAL, leaves, shown_of, simulated
from legibility import SHOWN, faults, opened

from pipeplan.instances.timeline.model import Simulation
from pipeplan.show.report import explore_page
from pipeplan.show.views import BACKWARD, FORWARD, TERMS, ink_on


def random_settings(seed: int) -> dict[str, Any]:
    """Anything that the sliders can say."""
    rng = random.Random(seed)
    found: dict[str, Any] = {"schedule": rng.choice(list(SCHEDULES))}
    for key, slider in SLIDERS.items():
        low, step = slider["min"], slider["step"]
        high = found["stages"] if key == "slow" else slider["max"]
        value = low + rng.randint(0, int((high - low) / step)) * step
        found[key] = int(value) if value == int(value) else value
    return found


# ---- without a browser ---------------------------------------------------------------------------------


def test_the_page_loads_nothing_and_runs_its_own_scripts_alone() -> None:
    text = explore_page()
    assert not re.search(r"(?:src|href)\s*=\s*[\"'](?!data:)|https://", text)
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]*)"', text)
    assert policy.startswith("default-src 'none';")
    assert policy.count("'sha256-") == text.count("<script>") == 5
    assert not re.search(r"innerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function", text)


def test_colours_are_those_of_all_pictures() -> None:
    inks = {"forward": FORWARD, "backward": BACKWARD, "weights": TERMS["weights"], "activations": TERMS["kept"]}
    assert SETUP["colours"] == {name: {"fill": ink, "text": ink_on(ink)} for name, ink in inks.items()}


def about(simulation: Simulation) -> list[str]:
    """What a sentence may say of it."""
    held = [f"{stage.memory_bytes / 2**30:g} GiB" for stage in simulation.stages]
    return [f"{simulation.iteration:g} ms", f"{100 * simulation.bubble:.1f} %", *held]


# What each situation has its reader try.
CHANGES: dict[str, list[dict[str, Any]]] = {
    "GPipe runs out of memory": [{}, {"schedule": "1f1b"}],
    "More micro-batches, smaller bubble": [{}, {"batches": 32}, {"batches": 64}],
    "One slow stage": [{}, {"slow": 0}],
    "Devices wait for slow links": [{}, {"schedule": "kfkb"}],
    "The first device holds the most": [{}],
}


@pytest.mark.parametrize("situation", SITUATIONS, ids=lambda situation: situation["name"])
def test_every_number_that_a_situation_tells_is_the_simulator_s(situation: Any) -> None:
    tried = [simulated({**situation["settings"], **change}) for change in CHANGES[situation["name"]]]
    told = re.findall(r"\d[\d.]* (?:ms|%|GiB(?! more))", situation["see"])
    assert told
    assert set(told) <= {fact for simulation in tried for fact in about(simulation)}


def test_the_situations_show_what_their_names_say() -> None:
    gpipe, deep, slow, links, first = (entry["settings"] for entry in SITUATIONS)
    limit = 16 * 2**30
    assert simulated(gpipe).peak_memory_bytes > limit > simulated({**gpipe, "schedule": "1f1b"}).peak_memory_bytes
    assert [simulated({**deep, "batches": count}).mini_batch for count in (32, 64)] == [32, 64]
    waiting = simulated(slow)
    assert [round(stage.busy / waiting.iteration, 1) for stage in waiting.stages] == [0.5, 0.5, 0.9, 0.5]
    assert all(simulated({**slow, "schedule": name}).iteration > 1000 for name in SCHEDULES)
    held = [simulated({**links, "schedule": name}).stages[0].peak_in_flight for name in ("1f1b", "kfkb")]
    assert held == [4, 8]
    assert [stage.peak_in_flight for stage in simulated(first).stages] == list(range(12, 0, -1))


# ---- in a browser --------------------------------------------------------------------------------------

pytestmark = pytest.mark.xdist_group("browser")


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("explore") / "explore.html"
    found.write_text(explore_page(), encoding="utf-8")
    return found


@pytest.fixture
def page(browser: Any, path: Path) -> Iterator[Any]:
    yield opened(browser, path)
    assert browser.get_log("browser") == []


def keys() -> Any:
    from selenium.webdriver.common.keys import Keys

    return Keys


def text_of(page: Any, selector: str) -> str:
    return str(page.find_element("css selector", selector).text)


BY_HAND = """
for (const input of controls.filter((input) => input.dataset.setting in arguments[0])) {
  input.value = arguments[0][input.dataset.setting];
  input.dispatchEvent(new Event("input"));
}
return shown.result;
"""
AT_ONCE = "show(arguments[0]); return shown.result;"


@pytest.mark.sweeps
@pytest.mark.parametrize("number", range(5))
def test_fifty_settings_give_what_the_simulator_gives(page: Any, number: int) -> None:
    """Iteration, bubble, and of every device its busy time, most in flight, memory, and start and end of each pass."""
    for seed in range(10 * number, 10 * number + 10):
        settings = random_settings(seed)
        found = page.execute_script(BY_HAND if seed % 5 == 0 else AT_ONCE, settings)
        assert page.execute_script("return shown.settings") == settings
        passes = [len(device["passes"]) for device in found["devices"]]
        assert passes == [2 * settings["batches"]] * settings["stages"]
        assert leaves(found) == pytest.approx(leaves(shown_of(simulated(settings))), rel=1e-9, abs=0), settings


def test_every_slider_is_moved_with_the_keyboard_and_says_its_value_and_unit(page: Any) -> None:
    page.execute_script("control.schedule.value = 'kfkb'; control.slow.value = 1; update()")
    for key, slider in SLIDERS.items():
        knob, output = page.find_element("id", key), page.find_element("css selector", f"output[for={key}]")
        assert knob.accessible_name == knob.get_attribute("data-name")
        knob.send_keys(keys().HOME, keys().ARROW_RIGHT)
        value = page.execute_script("return shown.settings[arguments[0]]", key)
        assert value == slider["min"] + slider["step"]
        assert output.text == f"{value:g} {output.get_attribute('data-unit')}".rstrip()
    page.find_element("id", "schedule").send_keys("G")
    assert page.execute_script("return shown.settings.schedule") == "gpipe"
    assert not page.find_element("id", "k").is_enabled(), "only kFkB has a k"


def test_the_answer_is_in_words_and_heard_when_the_sliders_rest(page: Any) -> None:
    from selenium.webdriver.support.wait import WebDriverWait

    answer, verdict = "Iteration 570 ms, bubble 15.8 %, 28.07 micro-batches/s.", ".numbers .verdict"
    page.execute_script(BY_HAND, {**USUAL, "batches": 16, "schedule": "gpipe"})
    assert text_of(page, ".numbers .answer") == answer
    most = "Out of memory: every device needs more than 16 GiB; the most is 20 GiB."
    assert text_of(page, f"{verdict}.no") == most
    heard = page.find_element("css selector", ".heard[aria-live=polite]")
    said = f"{answer} Out of memory: every device needs more"
    WebDriverWait(page, 5).until(lambda _: heard.get_attribute("textContent").startswith(said))
    page.execute_script(BY_HAND, {"schedule": "1f1b"})
    assert text_of(page, f"{verdict}.yes") == "It fits: no device needs more than 8 of 16 GiB."
    page.execute_script(BY_HAND, {"limit": 6})
    assert text_of(page, f"{verdict}.no").startswith("Out of memory: 2 of 4 devices need more than 6 GiB")
    rows = [row.text for row in page.find_elements("css selector", "[data-part=memory] svg.picture text.over")]
    assert rows == ["8 GiB, 2 over", "7 GiB, 1 over"]


def test_a_situation_is_chosen_and_left_by_a_slider(page: Any) -> None:
    for entry in SITUATIONS:
        page.find_element("id", "situation").send_keys(keys().ARROW_DOWN)
        assert text_of(page, "#lesson") == entry["see"]
        assert page.execute_script("return shown.settings") == entry["settings"]
    page.find_element("id", "batches").send_keys(keys().ARROW_RIGHT)
    assert text_of(page, "#lesson") == ""
    assert page.execute_script("return situation.value") == ""


def test_the_timeline_is_walked_with_the_keyboard_after_it_has_changed(page: Any) -> None:
    page.execute_script(BY_HAND, {"batches": 3, "transfer": 2.5})
    timeline = page.find_element("css selector", "[data-part=timeline]")
    timeline.find_element("css selector", ".mark[tabindex='0']").send_keys(keys().ARROW_RIGHT)
    assert timeline.find_element("css selector", ".said").text == "forward of micro-batch 2, device 1: 10 to 20 ms"
    page.switch_to.active_element.send_keys(keys().END)
    assert timeline.find_element("css selector", ".said").text.startswith("backward of micro-batch 3, device 4")


# ---- the frontier ----


def test_the_page_opens_on_what_a_proof_adds_and_draws_what_is_clicked(page: Any) -> None:
    assert text_of(page, ".drama").startswith(
        "1F1B takes 330 and holds 4 micro-batches. With divided backward passes 282"
    )
    assert "ZB-H2 takes 258 and the best schedule 250: no schedule is faster." in text_of(page, ".drama")
    assert text_of(page, ".point").startswith("The best schedule takes 250")
    page.find_element("css selector", ".rules button").send_keys(keys().ENTER)
    assert text_of(page, ".point").startswith(
        "GPipe takes 330 and holds at most 8 micro-batches; devices idle 27.3 %"
    )
    page.find_element("css selector", ".frontier circle.mark").send_keys(keys().ENTER)
    assert "Proven by exact-schedule: within 2 micro-batches no schedule is faster." in text_of(page, ".point")
    address = page.execute_script("settle(); return location.hash")
    page.execute_script("choice.size.value = '8x8'; choice.size.dispatchEvent(new Event('change'))")
    assert page.execute_script("return schedulePicked(pointsHere()[0]).passes.length") == 8
    page.execute_script("location.hash = arguments[0]; readAddress()", address)
    assert "within 2 micro-batches no schedule" in text_of(page, ".point")


def test_every_schedule_of_the_grid_is_drawn_in_its_time_and_memory(page: Any) -> None:
    wrong = page.execute_script("""
        return grid.flatMap((point) => [...point.rules, ...point.best].filter((own) => {
          const rows = own.passes.map((text) => passesOf(point, text));
          const span = Math.max(...rows.map((passes) => passes.at(-1).end - passes[0].start));
          const held = Math.max(...rows.flatMap((passes) => heldOver(point, passes).map(([, halves]) => halves)));
          return span !== own.time || held !== own.memory || rows.some((passes) => passes.length % (3 * point.batches));
        }));""")
    assert wrong == []


# ---- addresses -----------------------------------------------------------------------------------------


def test_an_address_brings_back_what_was_set(page: Any, path: Path) -> None:
    from selenium.webdriver.support.wait import WebDriverWait

    settings = random_settings(7)
    page.execute_script(AT_ONCE, settings)
    WebDriverWait(page, 5).until(lambda _: f"batches={settings['batches']}&" in page.current_url)
    address = page.current_url
    page.get("about:blank")
    page.get(address)
    assert page.execute_script("return shown.settings") == settings


def test_an_address_that_is_typed_into_the_open_page_leaves_its_situation(page: Any) -> None:
    page.execute_script("situation.value = 1; situation.dispatchEvent(new Event('change'))")
    assert text_of(page, "#lesson")
    page.execute_script("location.hash = arguments[0]; readAddress()", address(stages=5))
    assert (text_of(page, "#lesson"), text_of(page, "#refused")) == ("", "")
    assert page.execute_script("return shown.settings.stages") == 5


def address(**changes: object) -> str:
    return urlencode({**USUAL, **changes})


ONCE = "it does not give each setting of this page once"


@pytest.mark.parametrize(("part", "fault"), [
    ("<script>alert(1)</script>", ONCE), ("stages=4", ONCE), (address() + "&stages=4", ONCE),
    (address(other=1), ONCE), (address(__proto__=1), ONCE),
    (address(stages=99), "stages is not from 1 to 16"), (address(slow=5), "slow stage is not from 0 to 4"),
    (address(stages=2.5), "stages is not in steps of 1"),
    (address(forward="1e999"), "forward pass is no plain number"),
    (address(forward="0x10"), "forward pass is no plain number"),
    (address(limit=""), "memory of a device is no plain number"),
    (address(schedule="magic"), "there is no such schedule"),
])  # fmt: skip
def test_an_address_with_a_fault_is_ignored_with_a_sentence(page: Any, part: str, fault: str) -> None:
    page.execute_script("location.hash = arguments[0]; readAddress()", part)
    assert text_of(page, "#refused") == f"The settings in the address are ignored: {fault}."
    assert page.execute_script("return shown.settings") == USUAL


# ---- looks ---------------------------------------------------------------------------------------------

LARGE = {key: slider["max"] for key, slider in SLIDERS.items()} | {"schedule": "gpipe"}
SMALL = {key: slider["min"] for key, slider in SLIDERS.items()} | {"schedule": "1f1b"}


@pytest.mark.sweeps("desk-dark", "desk-light")
@pytest.mark.slow("paper-dark")
@pytest.mark.at_once(2)
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("shown", SHOWN)
def test_everything_can_be_read(browser: Any, path: Path, shown: str, scheme: str) -> None:
    page = opened(browser, path, SHOWN[shown], scheme)
    for settings in (*(entry["settings"] for entry in SITUATIONS), LARGE, SMALL, random_settings(3)):
        page.execute_script(AT_ONCE, settings)
        assert faults(page) == [], settings
    for size in ("2x4", "8x16"):
        page.execute_script("choice.size.value = arguments[0]; showFrontier()", size)
        assert faults(page) == [], size
