"""The picture of a stage graph says what the plan and its simulation say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from problems.graph_pipelines_with_plans import chain_plan, chain_problem, random_graph_problem, random_plan

from pipeplan.instances.graph_pipeline.models import case_study, layer_stages
from pipeplan.instances.graph_pipeline.plan import GraphStage, StageGraphPlan
from pipeplan.instances.graph_pipeline.problem import GraphPipelineProblem
from pipeplan.instances.graph_pipeline.referee import NotAStageGraphError
from pipeplan.instances.graph_pipeline.rules import StageGraphRules
from pipeplan.instances.simulate import simulate
from pipeplan.show.pictures import plans
from pipeplan.show.pictures.plans import BOX_HEIGHT, MOST_SHAPES, draw_plan, lanes_of
from pipeplan.show.view import view_of


def drawn(problem: GraphPipelineProblem, plan: StageGraphPlan, path: Path) -> str:
    draw_plan(problem, plan, path)
    return path.read_text("utf-8")


def test_stages_and_times_stand_in_the_picture(tmp_path: Path) -> None:
    text = drawn(chain_problem(3, memory_bytes=100), chain_plan(3), tmp_path / "plan.svg")
    assert "stage 2: 1 operator<" in text
    assert "d 1, b 1, k 1, held 3" in text
    assert "depth 3" in text
    assert "idle 20.0 % of all devices' time" in text.replace("&#39;", "'")


@pytest.mark.parametrize("in_a_row", [True, False])
def test_the_words_of_a_stage_stay_in_its_box(
    in_a_row: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    figures: list[Any] = []
    monkeypatch.setattr(plans, "write_picture", lambda figure, path: figures.append(figure))
    problem = case_study()
    draw_plan(problem, layer_stages(problem, 2, in_a_row), tmp_path / "plan.svg")
    figures[0].draw_without_rendering()
    top = figures[0].axes[0]
    boxes = [bar.get_window_extent() for bar in top.patches if bar.get_height() == BOX_HEIGHT]
    words = [text.get_window_extent() for text in top.texts if text.get_text()]
    assert len(words) == 8
    assert min(box.width for box in boxes) >= max(text.width for text in words)


@pytest.mark.parametrize("seed", range(3))
def test_random_plans_give_the_same_picture_again(seed: int, tmp_path: Path) -> None:
    problem = random_graph_problem(seed)
    plan = random_plan(problem, seed)
    assert drawn(problem, plan, tmp_path / "one.svg") == drawn(problem, plan, tmp_path / "two.svg")


def test_branches_keep_their_rows() -> None:
    """Two branches of two stages that join: nobody's arrows cross."""
    assert lanes_of((0, 0, 1, 1, 2), ((0, 2), (1, 3), (2, 4), (3, 4))) == [0, 1, 0, 1, 0]
    assert lanes_of((0, 0, 1, 1), ((1, 2), (0, 3))) == [0, 1, 1, 0]


@pytest.mark.sweeps
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
