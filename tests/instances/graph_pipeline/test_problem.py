"""Graph pipelines at the door: curves, links, files, and one sentence for every fault."""

from __future__ import annotations

import math
from typing import Any

import pytest
from problems.graph_pipelines_with_plans import chain_plan, chain_problem, operator

from pipeplan import GraphPipelineProblem, GraphStage, InputError, Link, Operator, StageGraphPlan, TimeCurve
from pipeplan.instances.graph_pipeline.kind_functions import graph_pipeline_from_json, graph_pipeline_to_json

MEASURED = TimeCurve((1, 2, 8), (3.0, 4.0, 16.0))


@pytest.mark.parametrize(("q", "seconds"), [
    (1, 3), (2, 4), (8, 16), (1.5, 3.5), (5, 10), (16, 32), (0.5, 2.5),
], ids=["point", "point", "point", "between", "between", "beyond", "before"])  # fmt: skip
def test_a_curve_is_exact_at_its_points_and_linear_elsewhere(q: float, seconds: float) -> None:
    assert MEASURED(q) == pytest.approx(seconds, rel=1e-12)
    assert TimeCurve((4, 5), (1, 9))(1) == 0, "never negative"
    assert TimeCurve((4,), (2.0,))(1) == 0.5, "a single point is continued in proportion"


def test_which_link_does_not_depend_on_where_stages_are_put() -> None:
    inside, between = Link(100.0), Link(1.0)
    problem = chain_problem(8, link=inside, node_link=between, devices_per_node=4)
    assert problem.boundary_link is between
    assert problem.replace(devices=4).boundary_link is inside
    assert [problem.inner_link(d) for d in (2, 4, 5)] == [inside, inside, between]
    assert chain_problem(8, link=inside).boundary_link is inside
    assert (Link(50.0, 0.5).seconds(100), Link().seconds(100)) == (2.5, 0), "latency and bytes"


def good(**changes: Any) -> GraphPipelineProblem:
    fields: dict[str, Any] = {
        "operators": (operator("a"), operator("b")), "edges": (("a", "b"),), "mini_batch": 8, "devices": 2,
    }  # fmt: skip
    return GraphPipelineProblem(**{**fields, **changes})


def with_curve(curve: TimeCurve) -> tuple[Operator, ...]:
    return (Operator("a", curve, MEASURED), operator("b"))


FAULTS: list[tuple[str, dict[str, Any]]] = [
    ("operators", {"operators": ()}),
    ("operators[1].id", {"operators": (operator("a"), operator("a"))}),
    ("operators[0].forward.samples", {"operators": with_curve(TimeCurve((), ()))}),
    ("operators[0].forward.samples[0]", {"operators": with_curve(TimeCurve((0, 1), (1, 1)))}),
    ("operators[0].forward.samples[1]", {"operators": with_curve(TimeCurve((1, 1), (1, 1)))}),
    ("operators[0].forward.seconds", {"operators": with_curve(TimeCurve((1, 2), (1,)))}),
    ("operators[0].forward.seconds[1]", {"operators": with_curve(TimeCurve((1, 2), (1, math.nan)))}),
    ("edges[0].target", {"edges": (("a", "c"),)}),
    ("edges[0]", {"edges": (("a", "a"),)}),
    ("edges[1]", {"edges": (("a", "b"), ("a", "b"))}),
    ("edges", {"edges": (("a", "b"), ("b", "a"))}),
    ("link.bandwidth", {"link": Link(0.0)}),
    ("devices_per_node", {"node_link": Link(1.0)}),
    ("node_link", {"devices_per_node": 4}),
    ("time_unit", {"time_unit": "a unit with a long name"}),
]


@pytest.mark.parametrize(("field", "changes"), FAULTS, ids=[f"{field} {i}" for i, (field, _) in enumerate(FAULTS)])
def test_a_fault_is_named(field: str, changes: dict[str, Any]) -> None:
    with pytest.raises(InputError) as caught:
        good(**changes)
    assert caught.value.field == field


def test_the_hash_knows_every_field_but_the_names() -> None:
    problem = good()
    assert problem.replace(name="other", time_unit="ms").hash == problem.hash
    changes: list[dict[str, Any]] = [
        {"mini_batch": 16}, {"devices": 3}, {"memory_bytes": 5}, {"link": Link(1.0)}, {"weight_copies": 4},
        {"workspace_bytes": 1}, {"edges": ()}, {"node_link": Link(1.0), "devices_per_node": 1},
        {"node_link": Link(1.0), "devices_per_node": 2}, {"operators": with_curve(MEASURED)},
    ]  # fmt: skip
    hashes = {problem.replace(**change).hash for change in changes}
    assert len(hashes | {problem.hash}) == len(changes) + 1


def test_a_short_file_gets_the_defaults() -> None:
    data = graph_pipeline_to_json(good())
    required = ("schema", "operators", "edges", "mini_batch", "devices", "time_unit")
    assert graph_pipeline_from_json({key: data[key] for key in required}) == good()
    plan = chain_plan(2).to_json()
    del plan["stages"][0]["k"]
    assert StageGraphPlan.from_json(plan).stages[0] == GraphStage((0,), 1, 1, 1, 2)
