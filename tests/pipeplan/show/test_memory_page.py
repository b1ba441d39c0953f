"""The page of what a training holds says what `plan configure --judge` says, and can be used by everybody."""

from __future__ import annotations

import json
import random
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from legibility import SHOWN, faults, opened

from pipeplan.cli.configure import problem_of_options
from pipeplan.instances.base.errors import PipeplanError
from pipeplan.instances.physics.hardware import GPUS
from pipeplan.instances.training.model import MODULES
from pipeplan.instances.training.referee import memory_of_ranks
from pipeplan.instances.training.words import configuration_from_words
from pipeplan.show.formulas import plain
from pipeplan.show.memory_page import COUNTS, memory_page, tables
from pipeplan.show.page import asset
from pipeplan.studies.configure.judge import refuse_faults

TABLES = json.loads(json.dumps(tables(), default=plain))
FOR_EXPERTS = ("megatron", "torchtitan", "deepspeed")
ASK = """
function told(tables, s) {
  const fault = faultOf(tables, s), command = layoutOf(tables, s) && commandOf(tables, s);
  return fault ? { fault, command } : { command, ranks: memoryOf(tables, s).map(({ parts }) => parts) };
}
"""
IN_NODE = """
const { tables, settings } = JSON.parse(require("fs").readFileSync(0, "utf-8"));
console.log(JSON.stringify(settings.map((s) => told(tables, s))));
"""
IN_BROWSER = "return arguments[1].map((s) => told(arguments[0], s));"


def random_settings(rng: random.Random) -> dict[str, Any]:
    """Anything that the page can say; frameworks can run most of it."""

    def power(most: int) -> int:
        return int(2 ** rng.randint(0, rng.randint(0, most)))

    framework = rng.choice(list(TABLES["frameworks"]))
    own, alone = TABLES["frameworks"][framework], framework == "fsdp"
    schedule = rng.choice(own["schedules"])
    shape = TABLES["schedules"][schedule]["shape"]
    models = TABLES["models"].items()
    model, known = rng.choice([it for it in models if framework in FOR_EXPERTS or "E" not in it[1]["numbers"]])
    has_experts = "E" in known["numbers"]
    tensor, context = (1, 1) if alone else (power(3), rng.choice([1, 1, power(2)]))
    pipeline = 1 if alone else rng.choice([2, 3, 4, 8, 16] if shape != "row" else [1, 2, 3, 4, 8, 16])
    data, micro_batch = power(4), power(2)
    return {
        "model": model, "framework": framework, "schedule": schedule, "optimizer": rng.choice(TABLES["optimizers"]),
        "gpu": rng.choice(list(TABLES["gpus"])), "gpus": tensor * context * pipeline * data,
        "tensor": tensor, "context": context, "pipeline": pipeline,
        "virtual": {"loop": rng.randint(2, 4), "v": 2}.get(shape, 1),
        "expert": power(3) if has_experts else 1, "expertTensor": rng.choice([1, 1, tensor]) if has_experts else 1,
        "sequence": 512 * power(6), "microBatch": micro_batch,
        "batch": data * micro_batch * rng.choice([1, 3, pipeline, 5 * pipeline]),
        "zero": int(rng.choice(list(own["states"]["adam-mixed"]))),
        "recompute": "none" if shape == "v" else rng.choice(["none", "full", "modules"]),
        "layers": rng.choice([0, 1, 3]) if own["countedLayers"] else 0,
        "modules": [name for name in known["modules"] if name in own["modules"] and rng.random() < 0.3],
    }  # fmt: skip


@pytest.fixture
def script(request: pytest.FixtureRequest) -> Callable[[list[dict[str, Any]]], list[dict[str, Any]]]:
    """Asks the page's script about many settings at once, in Node.js if there is one, else in the browser."""
    node = shutil.which("node")
    if node is None:
        browser, code = request.getfixturevalue("browser"), asset("memory.js") + ASK + IN_BROWSER
        return lambda settings: browser.execute_script(code, TABLES, settings)  # type: ignore[no-any-return]

    def ask(settings: list[dict[str, Any]]) -> list[dict[str, Any]]:
        command = [node, "-e", asset("memory.js") + ASK + IN_NODE]
        given = json.dumps({"tables": TABLES, "settings": settings})
        done = subprocess.run(command, input=given, capture_output=True, text=True, timeout=600, check=True)
        return json.loads(done.stdout)  # type: ignore[no-any-return]

    return ask


def in_python(command: str) -> list[dict[str, float]]:
    """Bytes by part of each stage's GPUs, by the functions behind a command; what it refuses raises an error."""
    program, name, model, *words = shlex.split(command)
    assert (program, name) == ("plan", "configure")
    options = {key[2:].replace("-", "_"): text for key, text in zip(words[::2], words[1::2], strict=True)}
    judged = options.pop("judge")
    problem = problem_of_options(
        model, {key: int(text) if text.isdigit() else text for key, text in options.items()}
    )
    plan = configuration_from_words(problem, judged)
    refuse_faults(problem, plan, judged)
    return [dict(rank.parts) for rank in memory_of_ranks(problem, plan)]


@pytest.mark.sweeps("500")
@pytest.mark.parametrize("count", [60, 500])
def test_random_settings_give_what_the_command_gives(count: int, script: Any) -> None:
    """Every part of every stage to a billionth; what the page refuses, the command refuses as well."""
    rng = random.Random(count)
    drawn = (random_settings(rng) for _ in range(2 * count))
    settings = [own for own in drawn if own["gpus"] in TABLES["counts"]]
    judged = 0
    for own, told in zip(settings, script(settings), strict=True):
        if "fault" not in told:
            judged += 1
            for here, there in zip(told["ranks"], in_python(told["command"]), strict=True):
                assert here == pytest.approx(there, rel=1e-9), told["command"]
        elif told["command"] is not None:
            with pytest.raises(PipeplanError):
                pytest.fail(f"{told} {own} {in_python(told['command'])}")
    assert judged >= count


def test_the_page_is_one_file_without_any_network() -> None:
    text = memory_page()
    assert len(text.encode()) < 600_000
    assert not re.search(r"(?:src|href)\s*=\s*[\"'](?!data:)|https://", text)
    assert "default-src 'none';" in text
    assert text.count("'sha256-") == text.count("<script>") == 4
    assert not re.search(r"innerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function", text)


def test_every_number_of_gpus_fills_the_nodes_of_every_gpu() -> None:
    assert all(gpu.levels(count) for gpu in GPUS.values() for count in COUNTS)


def test_what_the_page_says_without_scripts_and_offers_to_recompute_is_the_program_s() -> None:
    page = ElementTree.fromstring(asset("memory.html"))
    boxes = [box.get("data-setting") for box in page.iterfind(".//input[@type='checkbox']")]
    assert boxes == list(MODULES)
    command = page.findtext("noscript/p/code")
    assert command is not None
    assert len(in_python(command)) == 4


# ---- in a browser --------------------------------------------------------------------------------------

pytestmark = pytest.mark.xdist_group("browser")
SET = """
for (const [name, value] of Object.entries(arguments[0])) {
  control[name].value = value;
  control[name].dispatchEvent(new Event("input"));
}
"""
# Settings with long words and many bars.
LARGE = {
    "model": "deepseek-v3", "gpu": "b200-180gb", "gpus": "8192", "tensor": "4", "pipeline": 32, "expert": "8",
    "batch": 8192, "recompute": "modules",
}  # fmt: skip


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("memory") / "memory.html"
    found.write_text(memory_page(), encoding="utf-8")
    return found


@pytest.fixture
def page(browser: Any, path: Path) -> Iterator[Any]:
    yield opened(browser, path)
    assert browser.get_log("browser") == []


def text_of(page: Any, selector: str) -> str:
    return str(page.find_element("css selector", selector).text)


def test_the_page_ends_with_the_command_that_gives_its_answer(page: Any, plan: Any) -> None:
    page.execute_script(SET, {"recompute": "full", "layers": 3})
    _, *words = shlex.split(text_of(page, ".command"))
    assert words[-1].endswith("recompute=full:3")
    (judged,) = plan(*words, "--json").json["judged"]
    most = max(rank["bytes"] for rank in judged["ranks"])
    assert text_of(page, ".answer") == f"The fullest GPU (stage 0) needs {most / 2**30:.2f} GiB of 79.65 GiB."
    assert text_of(page, ".verdict.yes").startswith("It fits, with ")


def test_a_part_of_a_bar_is_reached_with_the_keyboard_and_opens_into_its_formula(page: Any) -> None:
    from selenium.webdriver.common.keys import Keys

    mark = page.find_element("css selector", "svg.picture .mark[tabindex='0']")
    mark.send_keys(Keys.ARROW_RIGHT)
    assert text_of(page, ".said") == "stage 0, gradients: 16.92 GiB, 20.6 %"
    page.switch_to.active_element.send_keys(Keys.ENTER)
    lines = text_of(page, ".formulas details[open]").splitlines()
    assert lines[0] == "gradients: 16.92 GiB, 20.6 %"
    assert lines[2:] == ["4 P", "= 4 × 4,541,186,048", "= 16.92 GiB"]
    page.switch_to.active_element.send_keys(Keys.HOME, Keys.ENTER)
    assert "= 2 × 8,192 + ((64 / 4 + 2) × 128 + 2 × 128) × 8,192" in text_of(page, ".formulas details[open]")


def test_settings_that_do_not_go_together_are_refused_with_a_sentence(page: Any) -> None:
    page.execute_script(SET, {"tensor": "3"})
    assert text_of(page, ".numbers .verdict.no").startswith("3 × 1 × 4 ranks do not divide 64 GPUs; choose")
    assert not page.find_element("css selector", ".command").is_displayed()
    page.execute_script(SET, {"tensor": "16", "gpus": "256", "framework": "torchtitan"})
    assert text_of(page, ".numbers .verdict.no") == (
        "Tensor parallelism divides the key-value heads; choose a divisor of the 8 key-value heads."
    )


def test_an_address_brings_back_what_was_set_unless_it_has_a_fault(page: Any) -> None:
    page.execute_script(SET, LARGE)
    page.execute_script("control.mla_up_proj.click()")
    address, settings = page.execute_script("settle(); return [location.hash, shown.settings]")
    assert settings["modules"] == ["mla_up_proj"]
    page.execute_script(SET, {"model": "llama-3-8b", "recompute": "none"})
    page.execute_script("location.hash = arguments[0]; readAddress()", address)
    assert page.execute_script("return shown.settings") == settings
    page.execute_script("location.hash = arguments[0]; readAddress()", address.replace("zero=1", "zero=<b>"))
    assert text_of(page, "#refused") == "The settings in the address are ignored: there is no such ZeRO stage."
    assert page.execute_script("return shown.settings") == settings


@pytest.mark.sweeps("desk-dark", "desk-light")
@pytest.mark.slow("paper-dark")
@pytest.mark.at_once(2)
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("shown", SHOWN)
def test_everything_can_be_read(browser: Any, path: Path, shown: str, scheme: str) -> None:
    page = opened(browser, path, SHOWN[shown], scheme)
    for settings in ({}, LARGE, {"tensor": "3"}):
        page.execute_script(SET, settings)
        assert faults(page) == [], settings
