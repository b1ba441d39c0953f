"""`pipeplan.verify` and `pipeplan.evaluate` take problems and plans of every kind."""

from __future__ import annotations

import pytest
from problems.graph_pipelines_with_plans import chain_plan, chain_problem

import pipeplan
from pipeplan.instances.catalogue import load_packaged


def test_a_stage_graph_is_judged() -> None:
    problem, plan = chain_problem(3), chain_plan(3)
    assert pipeplan.verify(problem, plan) == ()
    assert pipeplan.evaluate(problem, plan).iteration == 30
    assert [violation.rule for violation in pipeplan.verify(problem.replace(devices=4), plan)] == ["devices"]


@pytest.mark.parametrize(
    ("name", "planner"),
    [
        ("tiny-chain", "dp"),
        ("tiny-stages", "dp-piper"),
        ("golden-4", "contiguous"),
        ("tiny-graph", "spp-pipedream"),
    ],
)
def test_plans_of_every_kind_are_judged(name: str, planner: str) -> None:
    problem = load_packaged(name)
    plan = pipeplan.solve(problem, planner=planner).plan
    assert plan is not None
    assert pipeplan.verify(problem, plan) == ()


def test_contiguity_is_for_placements() -> None:
    with pytest.raises(
        pipeplan.UsageError, match="contiguity says nothing about a graph-pipeline problem; drop it"
    ):
        pipeplan.verify(chain_problem(3), chain_plan(3), contiguity="chain")


def test_plans_of_another_kind_are_refused() -> None:
    with pytest.raises(pipeplan.UsageError, match="A stage-graph plan does not fit a placement problem"):
        pipeplan.verify(load_packaged("tiny-chain"), chain_plan(3))
