"""Reports as files: recomputed, escaped, and without anything that needs a network."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from command_line import has

import pipeplan
from pipeplan.instances.base.errors import InputError
from pipeplan.instances.base.result import Stop
from pipeplan.instances.catalogue import load_packaged
from pipeplan.instances.placement.problem import Node, PlacementProblem
from pipeplan.planners.run.solve import solve
from pipeplan.show.comparison import comparison_page
from pipeplan.show.front import of_staging, pareto_page
from pipeplan.show.report import result_page
from pipeplan.studies.compare.comparison import compare_suite, load_comparison
from pipeplan.studies.compare.suite import Instance, Suite, competitor
from pipeplan.studies.memory import Stagings
from pipeplan.studies.sweep import Candidate, Curve, CurvePoint, Settings

RATIOS = "ratios to the best value"
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

    def parts(self) -> list[str | None]:
        return [attributes["data-part"] for name, attributes in self.tags if name == "section"]

    def marks(self) -> list[str | None]:
        return [attributes["aria-label"] for _, attributes in self.tags if attributes.get("class") == "mark"]


def page_of(name: str, planner: str) -> tuple[Reader, str]:
    problem = load_packaged(name)
    text = result_page(problem, solve(problem, planner=planner))
    return Reader(text), text


def hostile_problem() -> PlacementProblem:
    nodes = [Node(id=i, name=HOSTILE, accelerator_time=1.0, cpu_time=1.0) for i in range(3)]
    return PlacementProblem(
        name=HOSTILE, nodes=tuple(nodes), edges=((0, 1), (1, 2)), accelerators=2, cpus=0, memory_bytes=None
    )


@pytest.mark.slow("case-study-graphpipe-parts2")
@pytest.mark.parametrize(
    ("name", "planner", "parts"),
    [
        ("tiny-chain", "dp", ["devices", "gantt", "loads", "memory", "graph"]),
        ("tiny-chain", "latency-greedy", ["devices", "gantt", "loads", "memory", "graph"]),
        ("case-study", "graphpipe", ["stages", "gantt", "loads", "memory", "memory over time", "graph"]),
        ("golden-4", "exact-beaumont", ["gpus", "gantt", "loads", "memory", "memory over time"]),
        ("tiny-stages", "dp-piper", ["stages", "gantt", "loads", "memory", "memory over time", "graph"]),
        ("tiny-levels", "dp-piper", ["stages", "gantt", "loads", "memory", "memory over time"]),
    ],
)
def test_every_kind_of_plan_has_its_parts(name: str, planner: str, parts: list[str]) -> None:
    page, text = page_of(name, planner)
    assert [part for part in page.parts() if part != "search"] == [*parts, "problem", "run", "options", "data"]
    assert "Verified: yes" in text


def test_stages_say_what_their_layers_run_and_what_binds() -> None:
    for name, cells in (("tiny-stages", "1 activation recomp"), ("tiny-levels", "stage 0.1: layer b")):
        words = page_of(name, "dp-piper")[0].words
        assert {cells, "computation"} <= set(words), name


def test_the_page_says_the_answer_first_and_where_it_is_from() -> None:
    page, text = page_of("golden-4", "exact-beaumont")
    words = [word for word in page.words if word.strip()]
    answer = next(i for i, word in enumerate(words) if word.startswith("13 per batch: gpu1 (layers 2-4) limits"))
    assert (
        answer < words.index("GPUs") < words.index("Memory") < words.index("Assumptions") < words.index("Options")
    )
    assert "plan solve golden-4 --planner exact-beaumont" in words
    assert f"by pipeplan {pipeplan.__version__}" in text
    assert "2 GPUs with memory 34 B; transfers take no time" in words
    assert "gpu1: weights 12 B" in page.marks()
    assert "29 of 34 B" in words


def test_the_gantt_holds_every_task_until_the_pattern_repeats() -> None:
    """F1 of batch 0 starts at 0 and B1 before the period of 13 ends; two more periods are shown behind that."""
    page, _ = page_of("golden-4", "exact-beaumont")
    tasks = [mark for mark in page.marks() if mark and re.match(r"[FB]\d of batch", mark)]
    assert len(set(tasks)) == len(tasks)
    wanted = {f"{task}{layer} of batch {batch}" for task in "FB" for layer in "1234" for batch in "01"}
    assert {task.split(",")[0] for task in tasks} >= wanted


def test_nothing_is_fetched_and_only_our_own_script_may_run() -> None:
    page, text = page_of("tiny-chain", "dp")
    addresses = [
        value for _, attributes in page.tags for key, value in attributes.items() if key in ("src", "href")
    ]
    assert addresses == ["data:,"]
    assert "@import" not in text
    (policy,) = [a["content"] for name, a in page.tags if a.get("http-equiv") == "Content-Security-Policy"]
    assert policy is not None
    assert policy.startswith("default-src 'none'; ")
    assert "script-src 'sha256-" in policy


def test_text_from_files_stays_text() -> None:
    problem = hostile_problem()
    result = replace(solve(problem, planner="dp"), messages=(HOSTILE,))
    text = result_page(problem, result)
    page = Reader(text)
    assert [name for name, _ in page.tags].count("script") == 1, "ours"
    assert HOSTILE in "".join(page.words)
    assert text.count("<script>") == 1


def test_a_result_about_another_problem_is_refused() -> None:
    result = solve(load_packaged("tiny-chain"), planner="dp")
    with pytest.raises(InputError, match=r"problem\.hash is"):
        result_page(load_packaged("memory-tight"), result)


def test_a_plan_that_the_referee_rejects_is_shown_as_such() -> None:
    problem = load_packaged("tiny-chain")
    result = solve(problem, planner="dp")
    assert result.plan is not None
    cut = replace(result, plan=replace(result.plan, devices=result.plan.devices[:1]))
    text = result_page(problem, cut)
    assert "Verified: no" in text
    assert "Verified: yes" not in text


def test_without_a_plan_the_page_says_why() -> None:
    problem = load_packaged("tiny-chain")
    assert "No plan: completed" in result_page(problem, solve(problem, planner="one-device"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("comparison")
    methods = tuple(map(competitor, ("greedy", "dp", "one-device")))
    compare_suite(Suite("s", (Instance("tiny", "tiny-chain"),), methods, title=HOSTILE), path)
    return path


@pytest.mark.slow
def test_a_comparison_has_values_profile_and_every_run(folder: Path) -> None:
    page = Reader(comparison_page(load_comparison(folder)))
    assert page.parts() == ["values", RATIOS, "methods", "pairs of methods", "runs", "profile", "seconds"]
    assert [name for name, _ in page.tags].count("script") == 1
    assert {"greedy", "dp", "one-device", "no plan"} <= set(page.words)


def test_an_unfinished_comparison_has_a_page_as_well(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "comparison.json").write_bytes((folder / "comparison.json").read_bytes())
    assert "0 of 3 runs finished" in comparison_page(load_comparison(tmp_path))


Plan = Any


def test_the_command_finds_packaged_instances_by_itself(plan: Plan, tmp_path: Path, folder: Path) -> None:
    result, page = tmp_path / "result.json", tmp_path / "report.html"
    assert plan("solve", "tiny-chain", "--planner", "dp", "-o", result).code == 0
    assert plan("report", result, "-o", page).code == 0
    assert "tiny-chain" in page.read_text("utf-8")
    assert plan("report", folder, "-o", page, "--json").json["report"] == str(page)
    changed = tmp_path / "changed.json"
    assert plan("solve", "tiny-chain", "--devices", 2, "--planner", "dp", "-o", changed).code == 0
    assert plan("report", changed, "-o", page).code == 0
    assert plan("report", changed, "tiny-chain", "--devices", 3, "-o", page).code == 2
    assert plan("report", changed, "tiny-chain", "--devices", 2, "-o", page).code == 0
    assert plan("report", tmp_path, "-o", page).code == 2


# ---- curves --------------------------------------------------------------------------------------------


def curve_page(**changes: Any) -> Reader:
    """Two points of a staging: the first is open unless it is changed, the second is proven."""
    problem = load_packaged("tiny-stages")
    plan = solve(problem, planner="dp-piper").plan
    assert plan is not None
    staged = Candidate(plan, 6.0, 30.0)
    first = replace(CurvePoint(30.0, Stop.TIME, staged, bound=4.5, rival=8.0), **changes)
    points = (first, CurvePoint(40.0, Stop.PROVEN, staged, bound=6.0, rival=6.0))
    curve = Curve(problem, Settings(), None, points, True, Stagings)
    return Reader(pareto_page(curve, of_staging(curve), f"plan pareto {HOSTILE}"))


def test_points_of_a_curve_are_told_apart_and_have_their_plans_and_gaps() -> None:
    page = curve_page()
    assert page.parts() == ["curves", "points", "plans", "problem", "asked", "data"]
    words = " ".join(page.words)
    assert "Time per micro-batch against memory of a device: 2 points, 1 of them proven." in words
    labels = [
        attributes["aria-label"] or "" for _, attributes in page.tags if "mark" in (attributes.get("class") or "")
    ]
    assert any(label.startswith("6 at 30: best plan (not proven, gap 25") for label in labels)
    assert "6 at 40: best plan (proven), even split" in labels, "where curves meet, each is named"
    assert [attributes.get("class") for _, attributes in page.tags].count("mark open") == 1
    assert [name for name, _ in page.tags].count("details") == 2, "the plan, once, and the data"
    assert f"plan pareto {HOSTILE}" in words


def test_a_point_without_a_plan_is_in_the_table_alone() -> None:
    page = curve_page(candidate=None, stop=Stop.INFEASIBLE, bound=None, rival=None)
    has(page.words, "no plan", "proven")
    assert not any(attributes.get("class") == "mark open" for _, attributes in page.tags)
