"""The schedule of one sample: lanes that do not overlap, and a picture that is the same for the same plan."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeplan.instances.base.errors import UsageError
from pipeplan.instances.placement.plan import Device, PlacementPlan
from pipeplan.instances.placement.problem import Node, PlacementProblem
from pipeplan.instances.placement.rules import LatencyRules
from pipeplan.show.pictures import draw_plan
from pipeplan.show.terminal import draw, gantt
from pipeplan.show.view import view_of

PROBLEM = PlacementProblem(
    tuple(Node(name, 1.0, 2.0, 0.0, 0.5 * (name in "ax")) for name in "axybz"),
    (("a", "b"), ("x", "b")),
    1,
    1,
    name="fork $x$",
)
PLAN = PlacementPlan(
    (Device("acc0", "accelerator", ("a", "b"), (("a",), ("b",))), Device("cpu0", "cpu", ("x", "y", "z")))
)
LATENCY = LatencyRules()


def lanes_of(plan: PlacementPlan) -> dict[str, list[tuple[float, float, str]]]:
    """Start, end and name of what runs in each lane."""
    (timeline,) = view_of(PROBLEM, plan, LATENCY).timelines
    return {
        lane: [(bar.start, bar.end, bar.label) for bar in timeline.bars if bar.lane == lane]
        for lane in timeline.lanes
    }


def test_the_pool_takes_as_many_lanes_as_run_at_a_time() -> None:
    lanes = lanes_of(PLAN)
    assert lanes["acc0"] == [(0.0, 1.5, "a"), (2.0, 4.0, "b")]
    assert list(lanes) == ["acc0", "CPU pool", "CPU pool 2", "CPU pool 3"]
    assert [name for lane in list(lanes)[1:] for _, _, name in lanes[lane]] == ["x", "y", "z"]


def test_nodes_one_after_the_other_share_a_lane() -> None:
    plan = PlacementPlan((Device("cpu0", "cpu", tuple("axybz")),))
    lanes = lanes_of(plan)
    assert len(lanes) == 4
    assert sum(len(spans) for spans in lanes.values()) == 5


def test_a_plan_on_the_pool_alone_is_drawn_in_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    draw(view_of(PROBLEM, PlacementPlan((Device("cpu0", "cpu", tuple("axybz")),)), LATENCY))
    assert "CPU pool |" in capsys.readouterr().out


def test_the_picture_is_the_same_for_the_same_plan(tmp_path: Path) -> None:
    for name in ("one.svg", "two.svg"):
        draw_plan(PROBLEM, PLAN, tmp_path / name, LATENCY)
    first = (tmp_path / "one.svg").read_text()
    assert first == (tmp_path / "two.svg").read_text()
    for words in ("fork $x$: latency 4", "acc0", "CPU pool 3", "time (s)"):
        assert words in first


def test_a_sample_that_takes_no_time_has_no_gantt() -> None:
    problem = PlacementProblem((Node("a", 0.0, 0.0, 0.0, 0.0),), (), 1, 0)
    plan = PlacementPlan((Device("acc0", "accelerator", ("a",), (("a",),)),))
    (timeline,) = view_of(problem, plan, LATENCY).timelines
    assert gantt(timeline, "s") == []


def test_what_cannot_run_is_not_drawn(tmp_path: Path) -> None:
    torn = PlacementPlan((Device("acc0", "accelerator", ("b", "a"), (("b",), ("a",))), *PLAN.devices[1:]))
    with pytest.raises(UsageError, match="wait for each other in a circle"):
        draw_plan(PROBLEM, torn, tmp_path / "torn.svg", LATENCY)
