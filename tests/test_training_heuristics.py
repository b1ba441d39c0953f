"""The table of what exactness is worth says what the stored runs say, and a loss is a loss."""

from __future__ import annotations

from typing import Any

import training_heuristics as heuristics


def run(**changes: Any) -> Any:
    usual = {
        "pair": heuristics.PAIRS[0].name, "planner": "guide", "limit_s": 30.0, "stop": "completed", "seconds": 11.0,
        "bound": None, "took_s": 1.0,
    }  # fmt: skip
    return heuristics.Run(**{**usual, **changes})


def test_the_page_is_what_the_stored_runs_say() -> None:
    page = heuristics.PAGE.read_text("utf-8")
    assert page == heuristics.with_section(page, heuristics.kept())


def test_every_planner_ran_on_every_pair() -> None:
    ran = {(one.pair, one.planner) for one in heuristics.kept()}
    assert ran == {(pair.name, planner) for pair in heuristics.PAIRS for planner in heuristics.PLANNERS}


def test_no_heuristic_beats_the_bound() -> None:
    runs = heuristics.kept()
    bounds = {one.pair: one.bound for one in runs if one.planner == heuristics.EXACT}
    assert all(one.seconds is None or one.seconds >= bounds[one.pair] * (1 - 1e-9) for one in runs)


def test_losses_are_told_as_they_are() -> None:
    exact = run(planner=heuristics.EXACT, seconds=10.0, bound=9.9)
    assert heuristics.cell(run(), exact) == "+10.0 %"
    assert heuristics.cell(run(seconds=9.95), exact) == "-0.5 %"
    assert heuristics.cell(run(stop="time"), exact) == "+10.0 % (time)"
    assert heuristics.cell(run(seconds=None), exact) == "nothing fits"
    assert heuristics.cell(run(seconds=None, stop="time"), exact) == "nothing in time"
    assert heuristics.cell(None, exact) == "not run"


def test_the_pairs_are_problems() -> None:
    for pair in heuristics.PAIRS:
        problem = pair.problem()
        assert problem.devices == int(pair.devices.partition("x")[0])
        assert pair.name in "\n".join(heuristics.table([]))
