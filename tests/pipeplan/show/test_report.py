"""Reports as files: recomputed, escaped, and without anything that needs a network. That of a training has the
shortlist, time by part, and why judged configurations are not the best."""

from __future__ import annotations

import re
from copy import deepcopy
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from command_line import has
from page_samples import JUDGED, configured, small_training

import pipeplan
from pipeplan import InputError, Node, PlacementProblem, Result, load_packaged, solve
from pipeplan.instances.stored_results import result_from_json
from pipeplan.instances.training.referee import evaluate_configuration
from pipeplan.instances.training.words import configuration_from_words
from pipeplan.show.comparison import comparison_page
from pipeplan.show.report import result_page
from pipeplan.show.views import LOADS
from pipeplan.show.views.training import drawn_parts, layout_in_short
from pipeplan.studies.compare.comparison import compare_suite, load_comparison
from pipeplan.studies.compare.suite import Instance, Suite, competitor
from pipeplan.studies.configure.answer import MOST_JUDGED

pytestmark = pytest.mark.xdist_group("report")  # one worker searches

HOSTILE = "<script>alert('x')</script>"


class Reader(HTMLParser):
    """Tags with their attributes, and all text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    def count(self, name: str) -> int:
        return sum(tag == name for tag, _ in self.tags)

    def parts(self) -> list[str | None]:
        return [attributes["data-part"] for name, attributes in self.tags if name == "section"]

    def marks(self, kind: str = "mark") -> list[str]:
        return [own["aria-label"] or "" for _, own in self.tags if (own.get("class") or "").startswith(kind)]


def page_of(name: str, planner: str) -> tuple[Reader, str]:
    problem = load_packaged(name)
    text = result_page(problem, solve(problem, planner=planner))
    return Reader(text), text


WHOLE = "gantt,loads,memory,memory over time,graph"


@pytest.mark.slow(f"case-study-graphpipe-{WHOLE}")
@pytest.mark.parametrize(("name", "planner", "parts"), [
    ("tiny-chain", "dp", "gantt,loads,memory,graph"), ("tiny-chain", "latency-greedy", "gantt,loads,memory,graph"),
    ("case-study", "graphpipe", WHOLE), ("golden-4", "exact-beaumont", WHOLE.removesuffix(",graph")),
    ("tiny-stages", "dp-piper", WHOLE), ("tiny-levels", "dp-piper", WHOLE.removesuffix(",graph")),
])  # fmt: skip
def test_every_kind_of_plan_has_its_parts(name: str, planner: str, parts: str) -> None:
    page, text = page_of(name, planner)
    first, *found = (part for part in page.parts() if part != "search")
    assert first in ("devices", "stages", "gpus")
    assert found == [*parts.split(","), "problem", "run", "options", "data"]
    has(text, "Verified: yes")


def test_stages_say_what_their_layers_run_and_what_binds() -> None:
    for name, cells in (("tiny-stages", "1 activation recomp"), ("tiny-levels", "stage 0.1: layer b")):
        assert {cells, "computation"} <= set(page_of(name, "dp-piper")[0].words), name


def test_the_page_says_the_answer_first_and_every_task_until_the_pattern_repeats() -> None:
    """F1 of batch 0 starts at 0 and B1 before the period of 13 ends; two more periods are shown behind that."""
    page, text = page_of("golden-4", "exact-beaumont")
    words = [word for word in page.words if word.strip()]
    answer = next(i for i, word in enumerate(words) if word.startswith("13 per batch: gpu1 (layers 2-4) limits"))
    places = [answer, *map(words.index, ("GPUs", "Memory", "Assumptions", "Options"))]
    assert places == sorted(places)
    cluster = "2 GPUs with memory 34 B; transfers take no time"
    assert {cluster, "29 of 34 B"} <= set(words)
    has(text, f"by pipeplan {pipeplan.__version__}")
    assert "gpu1: weights 12 B" in page.marks()
    tasks = [mark for mark in page.marks() if re.match(r"[FB]\d of batch", mark)]
    assert len(set(tasks)) == len(tasks)
    wanted = {f"{task}{layer} of batch {batch}" for task in "FB" for layer in "1234" for batch in "01"}
    assert {task.split(",")[0] for task in tasks} >= wanted


def test_nothing_is_fetched_only_our_own_script_may_run_and_text_from_files_stays_text() -> None:
    nodes = tuple(Node(id=i, name=HOSTILE, accelerator_time=1.0, cpu_time=1.0) for i in range(3))
    edges = ((0, 1), (1, 2))
    problem = PlacementProblem(name=HOSTILE, nodes=nodes, edges=edges, accelerators=2, cpus=0, memory_bytes=None)
    text = result_page(problem, replace(solve(problem, planner="dp"), messages=(HOSTILE,)))
    page = Reader(text)
    assert [value for _, own in page.tags for key, value in own.items() if key in ("src", "href")] == ["data:,"]
    assert "@import" not in text
    (policy,) = [a["content"] for _, a in page.tags if a.get("http-equiv") == "Content-Security-Policy"]
    assert re.match(r"default-src 'none'; .*script-src 'sha256-", policy or "")
    assert page.count("script") == text.count("<script>") == 1, "ours"
    assert HOSTILE in "".join(page.words)


def test_a_result_about_another_problem_is_refused_and_a_plan_that_breaks_a_rule_is_shown_as_such() -> None:
    problem = load_packaged("tiny-chain")
    result = solve(problem, planner="dp")
    with pytest.raises(InputError, match=r"problem\.hash is"):
        result_page(load_packaged("memory-tight"), result)
    text = result_page(problem, replace(result, plan=replace(result.plan, devices=result.plan.devices[:1])))
    assert "Verified: no" in text
    assert "Verified: yes" not in text
    has(result_page(problem, solve(problem, planner="one-device")), "No plan: completed")


# ---- comparisons and curves --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("comparison")
    methods = tuple(map(competitor, ("greedy", "dp", "one-device")))
    compare_suite(Suite("s", (Instance("tiny", "tiny-chain"),), methods, title=HOSTILE), path)
    return path


def test_a_comparison_has_values_profile_and_every_run_and_an_unfinished_one_has_a_page(
    folder: Path, tmp_path: Path
) -> None:
    page = Reader(comparison_page(load_comparison(folder)))
    assert page.parts() == ["values", "gaps", "methods", "pairs of methods", "runs", "profile"]
    assert page.count("script") == 1
    assert {"greedy", "dp", "one-device", "no plan"} <= set(page.words)
    (tmp_path / "comparison.json").write_bytes((folder / "comparison.json").read_bytes())
    has(comparison_page(load_comparison(tmp_path)), "0 of 3 runs finished")


def test_the_command_finds_packaged_instances_by_itself(plan: Any, tmp_path: Path, folder: Path) -> None:
    result, page, changed = (tmp_path / name for name in ("result.json", "report.html", "changed.json"))
    assert plan("solve", "tiny-chain", "--planner", "dp", "-o", result).code == 0
    assert plan("report", result, "-o", page).code == 0
    has(page.read_text("utf-8"), "tiny-chain")
    assert plan("report", folder, "-o", page, "--json").json["report"] == str(page)
    assert plan("solve", "tiny-chain", "--devices", 2, "--planner", "dp", "-o", changed).code == 0
    for words, code in (((), 0), (("tiny-chain", "--devices", 3), 2), (("tiny-chain", "--devices", 2), 0)):
        assert plan("report", changed, *words, "-o", page).code == code
    assert plan("report", tmp_path, "-o", page).code == 2


# ---- trainings ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def stored() -> dict[str, Any]:
    return configured(JUDGED).to_json()


def page_with(stored: dict[str, Any], **changes: Any) -> str:
    data = deepcopy(stored)
    data["choices"].update(changes)
    return result_page(small_training(), result_from_json(data))


def part(page: str, name: str) -> str:
    """The text of a section, without its tags."""
    found = re.search(rf'<section data-part="{name}">(.*?)</section>', page, re.DOTALL)
    return "" if found is None else " ".join(re.sub(r"<[^>]*>", " ", found[1]).split())


def test_the_shortlist_says_whose_times_it_has_and_what_may_not_fit(stored: dict[str, Any]) -> None:
    """It begins with one that is faster than the best, and fits only if memory is wrong."""
    listed, page = deepcopy(stored["choices"]["shortlist"]), page_with(stored)
    assert len(listed) > MOST_JUDGED
    has(
        part(page, "shortlist"),
        f"The fastest configuration is among the {len(listed)} on the list",
        f"times of rows 1 to {MOST_JUDGED} are the referee's, the others are from the search",
    )
    assert re.search(r"\b1 0\.111\d* -0\.\d+ % [\d.]+ [\d.]+ free", part(page, "shortlist"))
    assert re.search(r"\b2 0\.112\d* [\d.]+ yes", part(page, "shortlist"))
    listed[1]["seconds"] = 123.0
    said = part(page_with(stored, shortlist=listed), "shortlist")
    has(said, "The file claims different times", "row 2: 123.0 s, but the referee computes")
    assert "The file claims different times" not in page
    assert "//" not in page.partition("<main>")[2].partition("<script>")[0], "it loads nothing"


def test_each_judged_configuration_says_what_it_loses_by_part_and_its_text_is_only_text(
    stored: dict[str, Any],
) -> None:
    words = ("tensor communication", "recomputation", "does not fit", "Rank 0 lacks")
    has(part(page_with(stored), "judged"), *JUDGED, *words)
    judged = deepcopy(stored["choices"]["judged"])
    judged[0] |= {"asked": HOSTILE, "notes": ["<img src=x>"]}
    page = page_with(stored, judged=judged)
    has(page, "&lt;script&gt;alert(")
    assert not re.search(r"<script>alert|<img", page)


def test_lists_are_shown_without_a_plan_and_a_result_of_another_command_has_none(stored: dict[str, Any]) -> None:
    page = result_page(small_training(2**30), configured(("pipeline=2",), 2**30))
    has(page, "No plan")
    has(part(page, "judged"), "does not fit")
    other: Result = result_from_json({key: value for key, value in stored.items() if key != "choices"})
    assert not part(page, "shortlist")
    assert not any(part(result_page(small_training(), other), name) for name in ("judged", "time by part"))


@pytest.mark.parametrize("words", JUDGED)
def test_parts_that_are_drawn_have_colours_of_their_own_and_add_up_to_the_iteration(words: str) -> None:
    own = evaluate_configuration(small_training(), configuration_from_words(small_training(), words))
    drawn = drawn_parts(own)
    assert sum(drawn.values()) == pytest.approx(own.timing.seconds, rel=1e-4)
    assert len({LOADS[name] for name in drawn}) == len(drawn)


def test_layouts_are_written_in_short() -> None:
    assert list(map(layout_in_short, ((34,), (3, 3, 3, 1), (1, 2, 2, 1)))) == ["34", "3×3, 1", "1, 2×2, 1"]
