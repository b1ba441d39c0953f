"""Amounts in units that can be read: times between 1 and 1000 of theirs, in one unit throughout an answer."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from command_line import done, has

from pipeplan.instances.catalogue import load_packaged, packaged_names
from pipeplan.planners.referee import rules_of
from pipeplan.planners.run.solve import solve
from pipeplan.show.page import tag, to_html
from pipeplan.show.pictures import draw_plan
from pipeplan.show.report import result_page
from pipeplan.show.view import view_of
from pipeplan.show.words import amount, time_scale


@pytest.mark.parametrize(
    ("value", "unit", "said"),
    [
        (0.1464206, "s", "146.4206 ms"),
        (0.08278499, "s", "82.78499 ms"),
        (30568.0, "us", "30.568 ms"),
        (26.61478, "ms", "26.61478 ms"),
        (1000.0, "ms", "1 s"),
        (0.0, "s", "0 s"),
        (0.5, "ns", "0.5 ns"),
        (0.25, None, "0.25"),
        (0.25, "cycles", "0.25 cycles"),
        (7200.0, "s", "7200 s"),
    ],
)
def test_times_are_told_in_the_unit_that_suits_them(value: float, unit: str | None, said: str) -> None:
    assert amount(value, unit) == said


@pytest.mark.at_once(7, "slow")
@pytest.mark.slow("s-case-study-graphpipe")
@pytest.mark.parametrize(
    ("name", "planner"),
    [
        ("tiny-chain", "dp"),
        ("tiny-chain", "latency-greedy"),
        ("case-study", "graphpipe"),
        ("golden-4", "exact-beaumont"),
        ("bert-large-stages", "equi"),
        ("tiny-levels", "dp-piper"),
    ],
)
@pytest.mark.parametrize("unit", ["s", "ms", "us"])
def test_answer_table_legend_and_timeline_have_one_unit(name: str, planner: str, unit: str) -> None:
    problem = load_packaged(name).replace(time_unit=unit)
    result = solve(problem, planner=planner)
    assert result.plan is not None
    view = view_of(problem, result.plan, rules_of(problem, result.options))
    assert time_scale(view.full_load, view.unit) == (1.0, view.unit)
    wanted = re.search(r"[\d.e+-]+ (s|ms|µs|ns)\b", view.value)
    assert wanted is not None
    assert {view.unit, view.time_unit} <= {wanted[1], view.unit if "iteration" in view.value else wanted[1], unit}
    if view.legend:
        assert re.search(rf": {view.unit} per ", view.legend) or "load" not in view.legend
    for row in view.tables[0].rows:
        assert row.load <= view.full_load * (1 + 1e-9)
        assert not row.times


def test_what_runs_when_is_as_long_in_any_unit() -> None:
    problem = load_packaged("golden-4").replace(time_unit="us")
    result = solve(problem, planner="exact-beaumont")
    assert result.plan is not None
    view = view_of(problem, result.plan, rules_of(problem, result.options))
    assert view.timelines[0].end == pytest.approx(view.full_load)


# ---- wherever a packaged instance is shown -----------------------------------------------------------


QUICK = {
    "placement": "greedy", "chain": "contiguous", "staging": "equi", "graph-pipeline": "spp-pipedream",
    "schedule": "1f1b",
}  # fmt: skip
"""A planner of each kind that takes a moment."""
RAW = re.compile(r"\bus\b|(?<![\d.])\d{7,}|\d+e\+\d+")
"""The unit as files spell it, and numbers that nobody reads at a glance."""
NAMES = [(kind, name) for kind in QUICK for name in packaged_names(kind)]


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
    [entry if entry[1] == "memory-tight" else pytest.param(*entry, marks=pytest.mark.slow) for entry in NAMES],
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


@pytest.mark.slow
def test_the_catalogue_and_curves_are_told_in_such_units_too(plan: Any, tmp_path: Path) -> None:
    page, picture = tmp_path / "curve.html", tmp_path / "curve.svg"
    methods = ("--method", "contiguous", "--method", "gpipe", "--memory", "1GiB", "--memory", "2GiB")
    said = done(plan("pareto", "resnet50-chain", *methods, "--report", page, "--picture", picture))
    listed = plan("instances").out.partition("profiles:")[0]
    tables = "\n".join(line for line in listed.splitlines() if " analytic:" not in line and "a kernel" not in line)
    words = (tables, said.out, seen(page.read_text("utf-8")), seen(picture.read_text("utf-8")))
    assert [RAW.findall(text) for text in words] == [[]] * len(words)
    assert "1 GiB" in said.out, "as it was typed"
    has(words[-1], "memory of a GPU (GiB)", "period per batch (ms)")


def test_what_more_memory_is_worth_has_a_name_and_an_axis_from_zero(plan: Any, tmp_path: Path) -> None:
    said = plan("memory", "tiny-stages", "--picture", tmp_path / "memory.svg")
    words = seen((tmp_path / "memory.svg").read_text("utf-8")).splitlines()
    assert "time per micro-batch in s" in said.out
    has(words, "time per micro-batch (s)", "0")


def test_spaces_that_do_not_break_are_spaces() -> None:
    assert "gap 5\N{NO-BREAK SPACE}%" in to_html(tag("p", None, "gap 5\N{NO-BREAK SPACE}%"))
    assert r"\x07" in to_html(tag("p", None, "\a"))


def test_microseconds_have_their_sign() -> None:
    assert amount(12.0, "us") == "12 µs"
