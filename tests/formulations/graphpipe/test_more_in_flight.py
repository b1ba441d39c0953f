"""Stages hold more than the rule asks for where memory is left and transfers are hidden by it."""

from __future__ import annotations

import pytest

from pipeplan import StageGraphPlan, load_packaged, solve
from pipeplan.formulations.graphpipe.more_in_flight import with_more_in_flight
from pipeplan.instances.graph_pipeline.referee import evaluate_stage_graph, verify_stage_graph

NAMES = ("tiny-graph", "case-study", "mmt-8")


def planned(name: str, held: str, **more: object) -> tuple[StageGraphPlan, float]:
    result = solve(load_packaged(name), planner="graphpipe", options={"samples_held": held, **more})
    assert isinstance(result.plan, StageGraphPlan)
    assert result.verified
    assert result.objective is not None
    return result.plan, result.objective


@pytest.mark.at_once(1)
@pytest.mark.parametrize("name", NAMES)
def test_transfers_are_hidden_by_what_is_held_beyond_the_rule(name: str) -> None:
    assert planned(name, "more")[1] < 0.995 * planned(name, "rule")[1]


def test_the_time_per_sample_is_not_shorter_for_it() -> None:
    found = [planned("tiny-graph", held, objective="time-per-sample") for held in ("more", "rule")]
    assert found[0] == found[1]


def test_it_ends_where_no_stage_shortens_the_iteration_by_holding_more() -> None:
    problem = load_packaged("tiny-graph")
    better, shorter = with_more_in_flight(problem, *planned("tiny-graph", "rule"))
    assert not verify_stage_graph(problem, better)
    assert shorter == evaluate_stage_graph(problem, better).iteration < planned("tiny-graph", "rule")[1]
    assert with_more_in_flight(problem, better, shorter) == (better, shorter)


def test_memory_that_is_full_leaves_the_rule() -> None:
    """With what the plan of the rule takes on its fullest device, and no more."""
    problem = load_packaged("tiny-graph")
    plan, value = planned("tiny-graph", "rule")
    tight = problem.replace(memory_bytes=max(s.memory_bytes for s in evaluate_stage_graph(problem, plan).stages))
    assert with_more_in_flight(tight, plan, value)[1] >= with_more_in_flight(problem, plan, value)[1]
