"""PipeDream profiles as graph pipelines."""

from __future__ import annotations

import pytest
from malformed import PROFILE

from pipeplan.instances.errors import InputError
from pipeplan.instances.graph_pipeline.from_pipedream import profile_to_graph_pipeline
from pipeplan.instances.graph_pipeline.plan import GraphStage, StageGraphPlan
from pipeplan.instances.graph_pipeline.problem import Link
from pipeplan.instances.graph_pipeline.referee.evaluate import evaluate_stage_graph
from pipeplan.instances.placement.pipedream import parse_profile


def test_times_are_in_proportion_and_the_input_is_left_out() -> None:
    """n2 takes 1 + 2 ms for 4 samples and puts out 8 bytes of them; n3 has two outputs, 8 and 4 bytes."""
    problem = profile_to_graph_pipeline(
        parse_profile(PROFILE), samples=4, devices=2, mini_batch=16, bandwidth=1000.0, name="small"
    )
    assert [operator.id for operator in problem.operators] == ["n2", "n3"]
    assert problem.edges == (("n2", "n3"),)
    second, third = problem.operators
    assert (second.forward(4), second.backward(8), second.weight_bytes) == (1, 4, 16)
    assert (second.output_bytes, third.stash_bytes) == (2, 3)
    assert (problem.link, problem.time_unit) == (Link(1.0), "ms")


def test_a_plan_of_a_profile() -> None:
    """A micro-batch of 4 takes 3 ms in either stage, and 8 bytes at 1 byte/ms each way between them."""
    problem = profile_to_graph_pipeline(
        parse_profile(PROFILE), samples=4, devices=2, mini_batch=16, bandwidth=1000.0
    )
    plan = StageGraphPlan((GraphStage(("n2",), 1, 4, 1, 8), GraphStage(("n3",), 1, 4, 1, 4)), ((0, 1),))
    assert evaluate_stage_graph(problem, plan).time_per_sample == pytest.approx((3 + 2 * 8) / 4)


def test_how_many_samples_were_measured_must_be_said() -> None:
    with pytest.raises(InputError, match="samples is 0"):
        profile_to_graph_pipeline(parse_profile(PROFILE), samples=0, devices=2, mini_batch=16)
