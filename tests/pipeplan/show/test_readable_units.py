"""Nobody reads raw bytes or `us` on a page, in a picture or in a terminal that shows a packaged instance."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from pipeplan.instances.catalogue import load_packaged, packaged_names
from pipeplan.planners.referee import rules_of
from pipeplan.planners.run.solve import solve
from pipeplan.show.page import tag, to_html
from pipeplan.show.pictures import draw_plan
from pipeplan.show.report import result_page
from pipeplan.show.words import amount

QUICK = {
    "placement": "greedy",
    "chain": "contiguous",
    "staging": "equi",
    "graph-pipeline": "spp-pipedream",
    "schedule": "1f1b",
}
"""A planner of each kind that takes a moment."""
RAW = re.compile(r"\bus\b|(?<![\d.])\d{7,}|\d+e\+\d+")
"""The unit as files spell it, and numbers that nobody reads at a glance."""
NAMES = [(kind, name) for kind in QUICK for name in packaged_names(kind)]
FEW = ("resnet18-training-chain", "zero-bubble-4x12", "bert-large-stages", "memory-tight", "tiny-graph")


def seen(text: str) -> str:
    """Words of a page or a picture: without the result as JSON, styles, identifiers and the hash of the problem."""
    text = re.sub(
        r"<(style|script|pre|metadata).*?</\1>|<dt>instance hash</dt><dd>.*?</dd>", "", text, flags=re.DOTALL
    )
    return "\n".join(re.findall(r">([^<>]*\S[^<>]*)<", text))


def without_rows(text: str) -> str:
    """What a terminal says, without what it draws: there digits are marks."""
    return "\n".join(line for line in text.splitlines() if "|" not in line)


@pytest.mark.parametrize(
    ("kind", "name"),
    [entry if entry[1] in FEW else pytest.param(*entry, marks=pytest.mark.sweeps) for entry in NAMES],
)
def test_units_suit_eyes_wherever_a_packaged_instance_is_shown(
    plan: Any, tmp_path: Path, kind: str, name: str
) -> None:
    problem = load_packaged(name)
    periodic = kind == "schedule" and problem.micro_batches is None
    planner = "list-schedule" if periodic else QUICK[kind]
    result = solve(problem, planner=planner)
    if result.plan is None:
        pytest.skip(f"{planner} has no plan for {name}")
    draw_plan(problem, result.plan, tmp_path / "plan.svg", rules_of(problem, result.options))
    shown = {
        "page": seen(result_page(problem, result)),
        "picture": seen((tmp_path / "plan.svg").read_text("utf-8")),
        "terminal": without_rows(plan("solve", name, "--planner", planner, "--verbose").out),
    }
    assert all(len(text) > 200 for text in shown.values())
    assert {where: RAW.findall(text) for where, text in shown.items() if RAW.search(text)} == {}


@pytest.mark.sweeps
def test_the_catalogue_and_curves_are_told_in_such_units_too(plan: Any, tmp_path: Path) -> None:
    page, picture = tmp_path / "curve.html", tmp_path / "curve.svg"
    methods = ("--method", "contiguous", "--method", "gpipe", "--memory", "1GiB", "--memory", "2GiB")
    said = plan("pareto", "resnet50-chain", *methods, "--report", page, "--picture", picture)
    assert said.code == 0, said.err
    listed = plan("instances").out.partition("profiles:")[0]
    tables = "\n".join(line for line in listed.splitlines() if " analytic:" not in line and "a kernel" not in line)
    words = (tables, said.out, seen(page.read_text("utf-8")), seen(picture.read_text("utf-8")))
    assert [RAW.findall(text) for text in words] == [[]] * len(words)
    assert "1 GiB" in said.out, "as it was typed"
    assert "memory of a GPU (GiB)" in words[-1]
    assert "period per batch (ms)" in words[-1]


def test_what_more_memory_is_worth_has_a_name_and_an_axis_from_zero(plan: Any, tmp_path: Path) -> None:
    said = plan("memory", "tiny-stages", "--picture", tmp_path / "memory.svg")
    words = seen((tmp_path / "memory.svg").read_text("utf-8")).splitlines()
    assert "time per micro-batch in s" in said.out
    assert "time per micro-batch (s)" in words
    assert "0" in words


def test_spaces_that_do_not_break_are_spaces() -> None:
    assert "gap 5\N{NO-BREAK SPACE}%" in to_html(tag("p", None, "gap 5\N{NO-BREAK SPACE}%"))
    assert r"\x07" in to_html(tag("p", None, "\a"))


def test_microseconds_have_their_sign() -> None:
    assert amount(12.0, "us") == "12 µs"
