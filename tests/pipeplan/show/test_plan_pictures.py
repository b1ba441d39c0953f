"""Every kind of plan has a picture, which shows the referee's numbers and is the same for the same plan."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from command_line import has
from problems.graph_pipelines_with_plans import chain_plan, chain_problem, random_graph_problem, random_plan

from pipeplan.instances.base.errors import UsageError
from pipeplan.instances.catalogue import load_packaged
from pipeplan.instances.chain import generators as theory
from pipeplan.instances.chain.plan import PatternPlan
from pipeplan.instances.chain.problem import ChainProblem
from pipeplan.instances.chain.referee import evaluate_pattern
from pipeplan.instances.graph_pipeline.models import case_study, layer_stages
from pipeplan.instances.graph_pipeline.plan import GraphStage, StageGraphPlan
from pipeplan.instances.graph_pipeline.problem import GraphPipelineProblem
from pipeplan.instances.graph_pipeline.referee import NotAStageGraphError
from pipeplan.instances.graph_pipeline.rules import StageGraphRules
from pipeplan.instances.placement.plan import Device, PlacementPlan
from pipeplan.instances.placement.problem import Node, PlacementProblem
from pipeplan.instances.placement.referee.verify import LatencyRules
from pipeplan.instances.registry import KINDS
from pipeplan.instances.simulate import simulate
from pipeplan.instances.staging.plan import StagedPlan
from pipeplan.instances.staging.problem import DeviceType
from pipeplan.planners.referee import rules_of
from pipeplan.planners.run.solve import solve
from pipeplan.show import pictures
from pipeplan.show.palette import PHASES
from pipeplan.show.pictures import BOX_HEIGHT, MOST_SHAPES, draw_plan, lanes_of
from pipeplan.show.terminal import draw, gantt
from pipeplan.show.view import view_of

QUICK = {
    "placement": ("bert-large-training", "greedy"),
    "chain": ("golden-4", "contiguous"),
    "staging": ("tiny-stages", None),
    "graph-pipeline": ("tiny-graph", "graphpipe"),
    "schedule": ("zero-bubble-4x12", "1f1b"),
    "training": ("tiny-training", "guide"),
}

CHAIN = ChainProblem(
    (1, 1), (1, 1), (1, 1, 1), (1, 1), gpus=2, memory_bytes=20, transfer_times=(1, 0, 1), name="two", time_unit="ms"
)
PLAN = PatternPlan(4, (0, 1), ((0, 2, 3, 5),), ({1: 1, 3: 4},))
"""F1 0-1, sent 1-2, F2 2-3, B2 3-4, sent 4-5, B1 5-6."""


def svg(problem: Any, plan: Any, folder: Path) -> str:
    path = folder / "plan.svg"
    draw_plan(problem, plan, path)
    return path.read_text("utf-8")


@pytest.mark.slow("graph-pipeline", "placement", "schedule", "training")
@pytest.mark.parametrize("kind", sorted(KINDS))
def test_every_kind_has_a_picture(kind: str, tmp_path: Path) -> None:
    name, planner = QUICK[kind]
    problem = load_packaged(name)
    plan = solve(problem, planner=planner).plan
    text = svg(problem, plan, tmp_path)
    assert text.startswith("<?xml")
    assert problem.name in text
    assert "memory" in text
    assert svg(problem, plan, tmp_path) == text
    draw_plan(problem, plan, tmp_path / "plan.png")
    assert (tmp_path / "plan.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.sweeps
@pytest.mark.parametrize(("name", "planner"), [("tiny-levels", "dp-piper"), ("tiny-chain", "latency-greedy")])
def test_levels_and_latency_have_pictures_of_their_own(name: str, planner: str, tmp_path: Path) -> None:
    problem = load_packaged(name)
    result = solve(problem, planner=planner)
    assert result.plan is not None
    path = tmp_path / "plan.svg"
    draw_plan(problem, result.plan, path, rules_of(problem, result.options))
    assert ("latency" if planner == "latency-greedy" else "levels") in path.read_text("utf-8")


def test_the_longest_bar_of_levels_is_the_time_in_the_title() -> None:
    problem = load_packaged("tiny-levels")
    result = solve(problem)
    assert result.plan is not None
    view = view_of(problem, result.plan, rules_of(problem, result.options))
    (table,) = view.tables
    assert [row.title for row in table.rows] == ["stage 0 (level 2, d 2)", "stage 0.0", "stage 0.1"]
    assert [sum(row.parts.values()) for row in table.rows] == pytest.approx([view.full_load] * 3)
    assert view.headline.startswith("6 s per micro-batch")
    assert [row.limit for row in table.rows] == [None, 15.0, 15.0]


def test_stages_on_types_of_devices_name_them_and_have_their_limits() -> None:
    kinds = (DeviceType("big", 2, 1.0, 70.0), DeviceType("small", 2, 0.8, 35.0))
    problem = load_packaged("tiny-stages").replace(memory_bytes=None, device_types=kinds)
    result = solve(problem)
    assert isinstance(result.plan, StagedPlan)
    (table,) = view_of(problem, result.plan, rules_of(problem, result.options)).tables
    limits = {"big": 70.0, "small": 35.0}
    assert [row.limit for row in table.rows] == [limits[str(stage.device_type)] for stage in result.plan.stages]
    assert all(
        str(stage.device_type) in row.title for stage, row in zip(result.plan.stages, table.rows, strict=True)
    )


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_the_parts_of_a_load_add_up_to_it(kind: str) -> None:
    name, planner = QUICK[kind]
    problem = load_packaged(name)
    result = solve(problem, planner=planner)
    assert result.plan is not None
    view = view_of(problem, result.plan, rules_of(problem, result.options))
    rows = [row for table in view.tables for row in table.rows]
    assert [sum(row.parts.values()) for row in rows] == pytest.approx([row.load for row in rows])
    longest = max(row.load for row in rows)
    if kind == "schedule":  # whose devices wait for each other
        assert longest < view.full_load
    else:
        assert longest == pytest.approx(view.full_load)


def test_no_kind_is_forgotten() -> None:
    assert set(QUICK) == set(KINDS)


@pytest.mark.slow
def test_a_pattern_shows_tasks_batches_links_and_memory(tmp_path: Path) -> None:
    text = svg(CHAIN, PLAN, tmp_path)
    for words in (
        "F1₁",
        "B2₁",
        "gpu0: layer 1",
        "gpu1: layer 2",
        "link0-1",
        "kept activations",
        "buffers",
        "limit",
        "forward",
        "backward",
        "transfer",
        "time (ms)",
    ):
        assert f">{words}</text>" in text
    for use in evaluate_pattern(CHAIN, PLAN).devices:
        assert f">gpu{use.gpu}, memory up to {use.peak_bytes:.4g} of 20 B</text>" in text
    assert "<title>F1 of batch 1, gpu0: 0 to 1 ms</title>" in text, "what a browser says below the pointer"


def test_a_terminal_names_tasks_where_it_has_room_and_has_the_same_colours() -> None:
    pattern, pipeline = view_of(CHAIN, PLAN, rules_of(CHAIN, {})).timelines
    first = gantt(pattern, "ms")[0]
    assert first.plain.strip().startswith("gpu0 |F1₁───")
    assert {str(span.style) for span in first.spans} == {f"#000000 on {colour}" for colour in PHASES[:2]}
    row = gantt(pipeline, "ms")[0].plain
    assert row.strip().startswith("gpu0 |0000")
    assert "a" in row, "backward of batch 0"
    assert "=" in gantt(pipeline, "ms")[2].plain


def test_links_without_any_transfer_that_takes_time_are_left_out() -> None:
    assert "link0-1" in view_of(CHAIN, PLAN, rules_of(CHAIN, {})).timelines[0].lanes
    free = CHAIN.replace(transfer_times=None)
    found = view_of(free, PatternPlan(4, (0, 1), ((0, 1, 2, 3),), ({},)), rules_of(free, {}))
    assert found.timelines[0].lanes == ("gpu0", "gpu1")


def test_kinds_of_memory_that_do_not_occur_are_not_in_the_legend(tmp_path: Path) -> None:
    text = svg(CHAIN.replace(memory_mode="weights", memory_bytes=None), PLAN, tmp_path)
    assert ">weights</text>" in text
    assert ">kept activations</text>" not in text
    assert ">limit</text>" not in text


@pytest.mark.slow
def test_several_batches_per_period_have_their_own_labels(tmp_path: Path) -> None:
    plan = PatternPlan(8, (0, 1), ((0, 2, 3, 5), (4, 6, 7, 9)), ({1: 1, 3: 4}, {1: 5, 3: 8}))
    text = svg(CHAIN, plan, tmp_path)
    has(text, "for 2 batches", ">3</text>")


@pytest.mark.slow
def test_odd_names_are_drawn_as_they_are(tmp_path: Path) -> None:
    """No formula, no markup, no control character, no end."""
    text = svg(CHAIN.replace(name="a$^{$<b>\x07" + "x" * 99), PLAN, tmp_path)
    assert "a$^{$&lt;b&gt;?xxx" in text
    assert "x" * 60 not in text


@pytest.mark.slow
def test_a_wide_pattern_is_drawn(tmp_path: Path) -> None:
    """C_4 has 37 layers on 9 GPUs, all of them with links."""
    problem = theory.family(4).problem
    plan = solve(problem).plan
    assert ">gpu8: layer" in svg(problem, plan, tmp_path)


# ---- the schedule of one sample ----------------------------------------------------------------------


FORK = PlacementProblem(
    tuple(Node(name, 1.0, 2.0, 0.0, 0.5 * (name in "ax")) for name in "axybz"), (("a", "b"), ("x", "b")), 1, 1,
    name="fork $x$",
)  # fmt: skip
SPLIT = PlacementPlan(
    (Device("acc0", "accelerator", ("a", "b"), (("a",), ("b",))), Device("cpu0", "cpu", ("x", "y", "z")))
)
LATENCY = LatencyRules()


def spans_by_lane(plan: PlacementPlan) -> dict[str, list[tuple[float, float, str]]]:
    """Start, end and name of what runs in each lane."""
    (timeline,) = view_of(FORK, plan, LATENCY).timelines
    return {
        lane: [(bar.start, bar.end, bar.label) for bar in timeline.bars if bar.lane == lane]
        for lane in timeline.lanes
    }


def test_the_pool_takes_as_many_lanes_as_run_at_a_time() -> None:
    lanes = spans_by_lane(SPLIT)
    assert lanes["acc0"] == [(0.0, 1.5, "a"), (2.0, 4.0, "b")]
    assert list(lanes) == ["acc0", "CPU pool", "CPU pool 2", "CPU pool 3"]
    assert [name for lane in list(lanes)[1:] for _, _, name in lanes[lane]] == ["x", "y", "z"]


def test_nodes_one_after_the_other_share_a_lane() -> None:
    plan = PlacementPlan((Device("cpu0", "cpu", tuple("axybz")),))
    lanes = spans_by_lane(plan)
    assert len(lanes) == 4
    assert sum(len(spans) for spans in lanes.values()) == 5


def test_a_plan_on_the_pool_alone_is_drawn_in_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    draw(view_of(FORK, PlacementPlan((Device("cpu0", "cpu", tuple("axybz")),)), LATENCY))
    assert "CPU pool |" in capsys.readouterr().out


@pytest.mark.slow
def test_the_picture_is_the_same_for_the_same_plan(tmp_path: Path) -> None:
    for name in ("one.svg", "two.svg"):
        draw_plan(FORK, SPLIT, tmp_path / name, LATENCY)
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
    torn = PlacementPlan((Device("acc0", "accelerator", ("b", "a"), (("b",), ("a",))), *SPLIT.devices[1:]))
    with pytest.raises(UsageError, match="wait for each other in a circle"):
        draw_plan(FORK, torn, tmp_path / "torn.svg", LATENCY)


# ---- stage graphs ------------------------------------------------------------------------------------


def drawn(problem: GraphPipelineProblem, plan: StageGraphPlan, path: Path) -> str:
    draw_plan(problem, plan, path)
    return path.read_text("utf-8")


def test_stages_and_times_stand_in_the_picture(tmp_path: Path) -> None:
    text = drawn(chain_problem(3, memory_bytes=100), chain_plan(3), tmp_path / "plan.svg")
    has(text, "stage 2: 1 operator<", "d 1, b 1, k 1, held 3", "depth 3")
    assert "idle 20.0 % of all devices' time" in text.replace("&#39;", "'")


@pytest.mark.parametrize("in_a_row", [True, False])
def test_the_words_of_a_stage_stay_in_its_box(
    in_a_row: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    figures: list[Any] = []
    monkeypatch.setattr(pictures, "write_picture", lambda figure, path: figures.append(figure))
    problem = case_study()
    draw_plan(problem, layer_stages(problem, 2, in_a_row), tmp_path / "plan.svg")
    figures[0].draw_without_rendering()
    top = figures[0].axes[0]
    boxes = [bar.get_window_extent() for bar in top.patches if bar.get_height() == BOX_HEIGHT]
    words = [text.get_window_extent() for text in top.texts if text.get_text()]
    assert len(words) == 8
    assert min(box.width for box in boxes) >= max(text.width for text in words)


@pytest.mark.sweeps
@pytest.mark.slow("0", "2")
@pytest.mark.parametrize("seed", range(3))
def test_random_plans_give_the_same_picture_again(seed: int, tmp_path: Path) -> None:
    problem = random_graph_problem(seed)
    plan = random_plan(problem, seed)
    assert drawn(problem, plan, tmp_path / "one.svg") == drawn(problem, plan, tmp_path / "two.svg")


def test_branches_keep_their_rows() -> None:
    """Two branches of two stages that join: nobody's arrows cross."""
    assert lanes_of((0, 0, 1, 1, 2), ((0, 2), (1, 3), (2, 4), (3, 4))) == [0, 1, 0, 1, 0]
    assert lanes_of((0, 0, 1, 1), ((1, 2), (0, 3))) == [0, 1, 1, 0]


@pytest.mark.slow
def test_a_long_iteration_stays_a_small_file(tmp_path: Path) -> None:
    problem, plan = chain_problem(8, 512), chain_plan(8, 1, 512)
    assert sum(len(stage.tasks) for stage in simulate(problem, plan).stages) > MOST_SHAPES
    drawn(problem, plan, tmp_path / "long.svg")
    assert (tmp_path / "long.svg").stat().st_size < 500_000


def test_a_deadlock_is_written_where_the_timeline_would_be(tmp_path: Path) -> None:
    stages = (GraphStage((0,), 1, 3, 3, 15), GraphStage((1,), 1, 2, 4, 8))
    text = drawn(chain_problem(2, 24), StageGraphPlan(stages, ((0, 1),)), tmp_path / "locked.svg")
    assert "The schedule cannot be run" in text


def test_what_has_no_costs_is_not_drawn() -> None:
    with pytest.raises(NotAStageGraphError, match="in no stage"):
        view_of(chain_problem(3), chain_plan(2), StageGraphRules())
