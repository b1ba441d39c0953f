"""Chain problems: what is derived, what is refused, what the hash sees."""

from __future__ import annotations

import math
from typing import Any

import pytest

from pipeplan.instances.base.errors import InputError
from pipeplan.instances.chain.problem import MEMORY_MODES, ChainProblem

GOOD: dict[str, Any] = {
    "forward": [1, 2, 3],
    "backward": [4, 5, 6],
    "activations": [10, 20, 30, 40],
    "weights": [1, 1, 2],
    "gpus": 2,
}


def chain(**changes: Any) -> ChainProblem:
    return ChainProblem(**{**GOOD, **changes})


def test_tasks_stand_in_the_order_of_one_batch() -> None:
    problem = chain()
    assert (problem.layers, problem.tasks) == (3, 6)
    assert problem.durations == (1, 2, 3, 6, 5, 4)
    assert problem.layer_of == (0, 1, 2, 2, 1, 0)
    assert problem.remote_edges == (1, 2, 4, 5)


def test_activations_up_to_the_loss_are_mirrored() -> None:
    assert chain().activations == (10, 20, 30, 40, 30, 20, 10)
    full = (10, 20, 30, 40, 3, 2, 0)
    assert chain(activations=full).activations == full
    assert chain().replace(gpus=3).activations == chain().activations


def test_transfers_take_no_time_without_a_bandwidth() -> None:
    assert chain().edge_times == (0, 0, 0, 0, 0)
    assert not chain().has_transfers


def test_a_bandwidth_times_every_edge_but_that_at_the_loss() -> None:
    assert chain(bandwidth=10).edge_times == (2, 3, 0, 3, 2)
    assert chain(bandwidth=10).has_transfers


def test_transfer_times_may_be_given_and_that_at_the_loss_is_ignored() -> None:
    given = chain(transfer_times=[1, 2, 99, 4, 5])
    assert given.edge_times == (1, 2, 0, 4, 5)
    assert given.hash == chain(transfer_times=[1, 2, 0, 4, 5]).hash


FINITE = "finite number >= 0"


@pytest.mark.parametrize(
    ("changes", "field", "remedy"),
    [
        ({"forward": []}, "forward", "at least one layer"),
        ({"forward": 3}, "forward", "a list"),
        ({"forward": [1, math.nan, 1]}, "forward[1]", FINITE),
        ({"backward": [4, 5]}, "backward", "give 3"),
        ({"backward": [4, 5, -1]}, "backward[2]", FINITE),
        ({"weights": [1]}, "weights", "give 3"),
        ({"weights": [1, "1", 1]}, "weights[1]", FINITE),
        ({"activations": [1, 2, 3]}, "activations", "give 7"),
        ({"activations": [1, 2, 3, math.inf]}, "activations[3]", FINITE),
        ({"gpus": 0}, "gpus", "from 1"),
        ({"gpus": 1.5}, "gpus", "whole number"),
        ({"gpus": True}, "gpus", "whole number"),
        ({"memory_bytes": -1}, "memory_bytes", FINITE),
        ({"weight_copies": None}, "weight_copies", FINITE),
        ({"bandwidth": 0}, "bandwidth", "positive"),
        ({"bandwidth": math.inf}, "bandwidth", FINITE),
        ({"bandwidth": 1e-320}, "bandwidth", FINITE),
        ({"bandwidth": 1, "transfer_times": [0] * 5}, "transfer_times", "one of the two"),
        ({"transfer_times": [0] * 4}, "transfer_times", "give 5"),
        ({"transfer_times": [0, 0, 0, -1, 0]}, "transfer_times[3]", FINITE),
        ({"duplex": "both"}, "duplex", '"half", "full"'),
        ({"memory_mode": "all"}, "memory_mode", '"strict"'),
        ({"exclusive_buffers": 1}, "exclusive_buffers", "true or false"),
        ({"name": 3}, "name", "a text"),
        ({"time_unit": "sec"}, "time_unit", "write s"),
        ({"time_unit": "slots"}, "time_unit", "give one of s, ms, us, µs, ns, min, h, d, or null"),
    ],
)  # fmt: skip
def test_a_broken_rule_is_named_with_its_remedy(changes: dict[str, Any], field: str, remedy: str) -> None:
    with pytest.raises(InputError) as caught:
        chain(**changes)
    assert caught.value.field == field
    assert remedy in caught.value.remedy


@pytest.mark.parametrize(
    "changes",
    [
        {"forward": [1, 2, 4]}, {"backward": [4, 5, 7]}, {"weights": [1, 1, 1]}, {"gpus": 3}, {"memory_bytes": 9},
        {"activations": [10, 20, 30, 41]}, {"bandwidth": 10}, {"duplex": "full"}, {"weight_copies": 1},
        {"exclusive_buffers": True}, *({"memory_mode": mode} for mode in MEMORY_MODES if mode != "reserved"),
    ],
)  # fmt: skip
def test_the_hash_sees_what_can_change_a_plan_s_value(changes: dict[str, Any]) -> None:
    assert chain(**changes).hash != chain().hash


def test_the_hash_sees_neither_names_nor_ways_of_writing() -> None:
    assert chain(name="other", time_unit="ms").hash == chain().hash
    assert chain(forward=[1.0, 2.0, 3.0], weight_copies=3).hash == chain().hash
    assert chain(bandwidth=10).hash == chain(transfer_times=[2, 3, 0, 3, 2]).hash
