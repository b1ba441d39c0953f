"""Amounts in units that can be read: times between 1 and 1000 of theirs, in one unit throughout an answer."""

from __future__ import annotations

import re

import pytest

from pipeplan.instances.catalogue import load_packaged
from pipeplan.planners.referee import rules_of
from pipeplan.planners.run.solve import solve
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


@pytest.mark.at_once(7)
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
