"""Plans hold decisions: written, read back, and made from an assignment."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pandas
import pytest
from problems.malformed import OWN

import pipeplan
from pipeplan import Device, InputError, PlacementPlan
from pipeplan.instances.placement.kind_functions import placement_from_json


def test_a_round_trip_keeps_everything() -> None:
    plan = PlacementPlan(
        (Device("acc0", "accelerator", (1, "1"), subgraphs=((1,), ("1",))), Device("cpu0", "cpu", ()))
    )
    assert PlacementPlan.from_json(json.loads(json.dumps(plan.to_json()))) == plan


def test_an_assignment_may_be_a_list_an_array_or_a_column_by_ids() -> None:
    problem = placement_from_json({**OWN, "cpus": 1})
    ids = [node.id for node in problem.nodes]
    plan = PlacementPlan.from_assignment(problem, dict(zip(ids, (2, 1, 1), strict=True)))
    for same in ([2, 1, 1], np.array([2, 1, 1]), pandas.Series([1, 1, 2], index=[ids[1], ids[2], ids[0]])):
        assert PlacementPlan.from_assignment(problem, same) == plan
    with pytest.raises(
        InputError, match="has 2 devices for 3 nodes; give the number of a device for each node's id"
    ):
        PlacementPlan.from_assignment(problem, [0, 1])
    with pytest.raises(InputError, match="not a mapping"):
        PlacementPlan.from_assignment(problem, "abc")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="a whole number from 0 to"):
        PlacementPlan.from_assignment(problem, np.zeros((3, 1), int))


def test_numbers_of_numpy_and_pandas_are_taken_where_numbers_and_lists_are() -> None:
    times, table = np.array([1, 2, 3]), pandas.DataFrame({"weights": [3.0, 1.0, 2.0]})
    chain = pipeplan.ChainProblem(
        forward=times,
        backward=2.0 * times,
        weights=table.weights,
        activations=np.ones(7),
        gpus=np.int64(2),  # type: ignore[arg-type]
    )
    assert chain == pipeplan.ChainProblem((1, 2, 3), (2.0, 4.0, 6.0), (1.0,) * 7, (3.0, 1.0, 2.0), 2)
    assert [type(value) for value in (*chain.forward, *chain.weights, chain.gpus)] == [int] * 3 + [float] * 3 + [
        int
    ]
    nodes = [pipeplan.Node(np.int64(i), np.float32(1.5), np.float64(2.0)) for i in range(3)]  # type: ignore[arg-type]
    problem = pipeplan.PlacementProblem(nodes, np.array([[0, 1], [1, 2]]), np.int64(2), 0, name="array")  # type: ignore[arg-type]
    json.dumps([problem.edges, [node.accelerator_time for node in problem.nodes], problem.accelerators])
    limits = pipeplan.SolveOptions(time_limit_s=np.float64(3), threads=np.int64(2), seed=np.int64(1))  # type: ignore[arg-type]
    assert json.loads(json.dumps(limits.to_json()))["threads"] == 2


def test_an_assignment_becomes_devices_in_order() -> None:
    problem = placement_from_json({**OWN, "cpus": 1})
    plan = PlacementPlan.from_assignment(problem, {"a": 2, "c": 1, "b": 1})
    assert plan.devices == (
        Device("acc0", "accelerator", ()),
        Device("acc1", "accelerator", ("b", "c")),
        Device("cpu0", "cpu", ("a",)),
    )


@pytest.mark.parametrize(("device_of", "said"), [
    ({"a": 0, "b": 0, "c": -1}, "puts node 'c' on device -1; give a whole number from 0 to 2, the accelerators"),
    ({"a": 0, "b": 3, "c": 1}, "puts node 'b' on device 3; give a whole number from 0 to 2"),
    ({"a": 0, "b": True, "c": 1}, "puts node 'b' on device true; give a whole number"),
    ({"a": 0, "b": 1.0, "c": 1}, "puts node 'b' on device 1.0; give a whole number"),
    ({"a": "acc0", "b": 1, "c": 1}, "puts node 'a' on device 'acc0'; give a whole number"),
    ({"a": 0, "b": 1}, "has no node 'c'; give a device for every node"),
    ({"a": 0, "b": 1, "c": 1, "d": 1}, "has 'd', which is no node of the problem; leave it out"),
    (0, "is an int, not a mapping; give the number of a device for each node's id"),
], ids=str)  # fmt: skip
def test_an_assignment_to_what_is_not_there_is_refused(device_of: Any, said: str) -> None:
    problem = placement_from_json({**OWN, "cpus": 1})
    with pytest.raises(InputError) as caught:
        PlacementPlan.from_assignment(problem, device_of)
    assert str(caught.value).startswith(f"argument device_of {said}")


def test_merits_are_not_checked() -> None:
    devices = [{"name": "x", "type": "cpu", "nodes": ["nobody", "nobody"]}]
    assert PlacementPlan.from_json({"kind": "placement", "devices": devices}).devices[0].nodes == (
        "nobody",
        "nobody",
    )


# ---- Plans with types as JSON.


TYPED = PlacementPlan(
    (Device("acc0", "accelerator", ("a",), accelerator_type="fast"), Device("cpu0", "cpu", ("b",)))
)


def test_only_what_differs_from_the_default_is_written() -> None:
    assert TYPED.to_json() == {
        "kind": "placement",
        "devices": [
            {"name": "acc0", "type": "accelerator", "nodes": ["a"], "accelerator_type": "fast"},
            {"name": "cpu0", "type": "cpu", "nodes": ["b"]},
        ],
    }


@pytest.mark.parametrize(("key", "value"), [("replicas", 2), ("group", "node0")])
def test_replicas_and_groups_of_earlier_versions_are_refused(key: str, value: object) -> None:
    """Read without them, the plan would be judged as another one."""
    data = TYPED.to_json()
    data["devices"][0][key] = value
    with pytest.raises(InputError, match=f"{key}.*plan replicas and devices within devices as a staging problem"):
        PlacementPlan.from_json(data)
