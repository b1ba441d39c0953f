"""Our own format keeps every field, refuses what it does not know, and lets defaults be omitted."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from problems.strategies import placement_problems

from pipeplan.instances.base.errors import InputError
from pipeplan.instances.base.json_file import dump_json
from pipeplan.instances.placement.kind_functions import placement_from_json, placement_to_json
from pipeplan.instances.placement.problem import Node, PlacementProblem

MINIMAL = {
    "schema": "pipeplan.placement/1",
    "accelerators": 1,
    "cpus": 0,
    "nodes": [{"id": 1, "accelerator_time": 2, "cpu_time": 3}],
    "edges": [],
}


@given(placement_problems())
def test_a_round_trip_keeps_everything(problem: PlacementProblem) -> None:
    again = placement_from_json(json.loads(dump_json(placement_to_json(problem))))
    assert again == problem
    assert again.hash == problem.hash
    assert [type(node.id) for node in again.nodes] == [type(node.id) for node in problem.nodes]


def test_what_is_omitted_has_its_default() -> None:
    assert placement_from_json(MINIMAL) == PlacementProblem(
        nodes=(
            Node(1, 2, 3, size_bytes=0, transfer_time=0, supported=True, backward=False, color=None, name=None),
        ),
        edges=(),
        accelerators=1,
        cpus=0,
        memory_bytes=None,
        name="placement",
        time_unit="s",
    )


def test_the_writer_omits_the_defaults_of_nodes_only() -> None:
    assert placement_to_json(placement_from_json(MINIMAL)) == {
        **MINIMAL,
        "name": "placement",
        "time_unit": "s",
        "memory_bytes": None,
    }


def test_equal_looking_ids_of_two_types_stay_apart() -> None:
    nodes = [{"id": 1, "accelerator_time": 2, "cpu_time": 3}, {"id": "1", "accelerator_time": 4, "cpu_time": 3}]
    problem = placement_from_json({**MINIMAL, "nodes": nodes, "edges": [[1, "1"]]})
    assert problem.arcs == ((0, 1),)


def test_an_unknown_key_comes_with_the_nearest_known_one() -> None:
    with pytest.raises(InputError, match='acelerators is an unknown key; write "accelerators" or remove it'):
        placement_from_json({**MINIMAL, "acelerators": 1})
