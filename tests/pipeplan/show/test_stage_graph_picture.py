"""The picture of a stage graph says what the plan and its simulation say."""

from __future__ import annotations

from pathlib import Path

import pytest
from problems.graph_pipelines_with_plans import chain_plan, chain_problem, random_graph_problem, random_plan

from pipeplan.instances.graph_pipeline.plan import GraphStage, StageGraphPlan
from pipeplan.instances.graph_pipeline.problem import GraphPipelineProblem
from pipeplan.instances.graph_pipeline.referee.evaluate import NotAStageGraphError
from pipeplan.instances.graph_pipeline.rules import StageGraphRules
from pipeplan.instances.simulate import simulate
from pipeplan.show.pictures.plans import draw_plan
from pipeplan.show.pictures.schedule import MOST_SHAPES
from pipeplan.show.pictures.stage_graph import lanes_of
from pipeplan.show.view import view_of


def drawn(problem: GraphPipelineProblem, plan: StageGraphPlan, path: Path) -> str:
    draw_plan(problem, plan, path)
    return path.read_text("utf-8")


def test_stages_and_times_stand_in_the_picture(tmp_path: Path) -> None:
    text = drawn(chain_problem(3, memory_bytes=100), chain_plan(3), tmp_path / "plan.svg")
    assert "stage 2: 1 operator on 1" in text
    assert "held 3" in text
    assert "depth 3" in text
    assert "idle 20.0 % of all devices' time" in text.replace("&#39;", "'")


@pytest.mark.parametrize("seed", range(3))
def test_random_plans_give_the_same_picture_again(seed: int, tmp_path: Path) -> None:
    problem = random_graph_problem(seed)
    plan = random_plan(problem, seed)
    assert drawn(problem, plan, tmp_path / "one.svg") == drawn(problem, plan, tmp_path / "two.svg")


def test_branches_keep_their_rows() -> None:
    """Two branches of two stages that join: nobody's arrows cross."""
    assert lanes_of((0, 0, 1, 1, 2), ((0, 2), (1, 3), (2, 4), (3, 4))) == [0, 1, 0, 1, 0]
    assert lanes_of((0, 0, 1, 1), ((1, 2), (0, 3))) == [0, 1, 1, 0]


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
