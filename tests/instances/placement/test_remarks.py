"""Times that stand for "forbidden" are taken as they are, and the reader hears how to say it better."""

from __future__ import annotations

import pytest

from pipeplan.instances.placement.kind_functions import remarks
from pipeplan.instances.placement.problem import AcceleratorType, Node, PlacementProblem
from pipeplan.planners.options import SolveOptions
from pipeplan.planners.run.solve import solve


def problem(*nodes: Node, accelerators: int = 1, cpus: int = 1) -> PlacementProblem:
    return PlacementProblem(nodes, (), accelerators, cpus)


@pytest.mark.parametrize(
    "given",
    [
        problem(Node("a", 1.0, 2.0), Node("b", 100.0, 1e5)),
        problem(Node("a", 1e-9, 1e-9), Node("b", 1.0, 1.0)),
        problem(Node("a", 1e12, 3e12), Node("b", 2e12, 1e12)),
        problem(Node("a", 1e12, 1.0, supported=False), Node("b", 1.0, 1.0)),
        problem(Node("a", 1.0, 1e12), Node("b", 1.0, 1.0), cpus=0),
    ],
    ids=["ordinary", "small and large", "all are large", "said already", "no CPU"],
)
def test_ordinary_times_need_no_remark(given: PlacementProblem) -> None:
    assert list(remarks(given)) == []


def test_a_forbidden_accelerator_has_a_field_of_its_own() -> None:
    (said,) = remarks(problem(Node("a", 1e12, 1.0), Node("b", 1e12, 1.0), Node("c", 1.0, 1.0)))
    assert "accelerator_time 1e+12 of node 'a' and of 1 more" in said
    assert '"supported": false' in said


def test_a_forbidden_cpu_has_none() -> None:
    (said,) = remarks(problem(Node("a", 1.0, 1e9), Node("b", 1.0, 1.0)))
    assert "cpu_time 1e+09 of node 'a' is" in said
    assert "supported" not in said


def test_another_type_is_forbidden_by_null() -> None:
    given = PlacementProblem(
        (Node(0, 1.0, 1.0, other_times=(1e9,)),), (), 1, 0, other_types=(AcceleratorType("old", 1),)
    )
    (said,) = remarks(given)
    assert "other_times 1e+09 of node 0" in said
    assert "null" in said


def test_a_result_carries_the_remark() -> None:
    given = problem(Node("a", 1e12, 1.0), Node("b", 1.0, 1.0))
    result = solve(given, planner="one-device", limits=SolveOptions(threads=1))
    assert set(remarks(given)) <= set(result.messages)
