"""Chain problems: what is derived, what is refused, what the hash sees."""

from __future__ import annotations

import json
import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from pipeplan import Found, InputError, PatternPlan, PlacementPlan, Result, Stop, UsageError, load, save
from pipeplan.instances.chain.kind_functions import chain_from_json
from pipeplan.instances.chain.problem import MEMORY_MODES, ChainProblem
from pipeplan.instances.placement.problem import Node, PlacementProblem
from pipeplan.instances.stored_results import load_plan, load_result, plan_from_json

GOOD: dict[str, Any] = {
    "forward": [1, 2, 3], "backward": [4, 5, 6], "activations": [10, 20, 30, 40], "weights": [1, 1, 2], "gpus": 2,
}  # fmt: skip


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


def test_a_bandwidth_times_every_edge_but_that_at_the_loss_and_without_one_transfers_take_no_time() -> None:
    assert (chain().edge_times, chain().has_transfers) == ((0, 0, 0, 0, 0), False)
    assert (chain(bandwidth=10).edge_times, chain(bandwidth=10).has_transfers) == ((2, 3, 0, 3, 2), True)


def test_transfer_times_may_be_given_and_that_at_the_loss_is_ignored() -> None:
    given = chain(transfer_times=[1, 2, 99, 4, 5])
    assert given.edge_times == (1, 2, 0, 4, 5)
    assert given.hash == chain(transfer_times=[1, 2, 0, 4, 5]).hash


FINITE = "finite number >= 0"


@pytest.mark.parametrize(("changes", "field", "remedy"), [
    ({"forward": []}, "forward", "at least one layer"),
    ({"backward": [4, 5]}, "backward", "give 3"),
    ({"weights": [1]}, "weights", "give 3"),
    ({"activations": [1, 2, 3]}, "activations", "give 7"),
    ({"activations": [1, 2, 3, math.inf]}, "activations[3]", FINITE),
    ({"gpus": 0}, "gpus", "from 1"),
    ({"bandwidth": 0}, "bandwidth", "positive"),
    ({"bandwidth": 1e-320}, "bandwidth", FINITE),
    ({"bandwidth": 1, "transfer_times": [0] * 5}, "transfer_times", "one of the two"),
    ({"transfer_times": [0] * 4}, "transfer_times", "give 5"),
    ({"memory_mode": "all"}, "memory_mode", '"strict"'),
    ({"time_unit": "sec"}, "time_unit", "write s"),
    ({"time_unit": "slots"}, "time_unit", "give one of s, ms, us, µs, ns, min, h, d, or null"),
])  # fmt: skip
def test_a_broken_rule_is_named_with_its_remedy(changes: dict[str, Any], field: str, remedy: str) -> None:
    with pytest.raises(InputError) as caught:
        chain(**changes)
    assert caught.value.field == field
    assert remedy in caught.value.remedy


@pytest.mark.parametrize("changes", [
    {"forward": [1, 2, 4]}, {"backward": [4, 5, 7]}, {"weights": [1, 1, 1]}, {"gpus": 3}, {"memory_bytes": 9},
    {"activations": [10, 20, 30, 41]}, {"bandwidth": 10}, {"duplex": "full"}, {"weight_copies": 1},
    {"exclusive_buffers": True}, *({"memory_mode": mode} for mode in MEMORY_MODES if mode != "reserved"),
])  # fmt: skip
def test_the_hash_sees_what_can_change_a_plan_s_value(changes: dict[str, Any]) -> None:
    assert chain(**changes).hash != chain().hash


def test_the_hash_sees_neither_names_nor_ways_of_writing() -> None:
    assert chain(name="other", time_unit="ms").hash == chain().hash
    assert chain(forward=[1.0, 2.0, 3.0], weight_copies=3).hash == chain().hash
    assert chain(bandwidth=10).hash == chain(transfer_times=[2, 3, 0, 3, 2]).hash


# ---- Files of chains and patterns: what is written is read again, and the caller's cluster overrides the file's.


CHAIN = ChainProblem([1, 2], [1, 2.5], [3, 2, 0], [5, 6], gpus=2, memory_bytes=100, bandwidth=2, time_unit="ms")
ODD = CHAIN.replace(
    bandwidth=None, transfer_times=(1, 0, 2), duplex="full", weight_copies=1, memory_mode="strict", name="odd",
    exclusive_buffers=True, memory_bytes=None, time_unit=None,
)  # fmt: skip
PLACEMENT = PlacementProblem((Node("a", 1, 1),), (), 1, 0)
ONE = PatternPlan(7, (0, 1), ((0, 2.5, 4.5, 8),), ({1: 1, 3: 7},))
TWO = PatternPlan(14, (0, 1), ((0, 2, 4, 8), (7, 9, 11, 15)), ({1: 1, 3: 7}, {1: 8, 3: 14}))
DEFAULTS = {"forward": [1], "backward": [1], "activations": [1, 1], "weights": [0], "gpus": 1}


def test_what_equals_its_default_may_be_omitted() -> None:
    assert chain_from_json({"schema": "pipeplan.chain/1", **DEFAULTS}) == ChainProblem([1], [1], [1, 1], [0], 1)


def test_the_caller_s_cluster_overrides_the_file_s(tmp_path: Path) -> None:
    path = tmp_path / "chain.json"
    save(CHAIN, path)
    assert load(path, devices=4, memory_bytes=7) == CHAIN.replace(gpus=4, memory_bytes=7)
    assert load(path, memory_bytes=float("inf")) == CHAIN.replace(memory_bytes=None)
    assert load(path, bandwidth=4000) == CHAIN.replace(bandwidth=4)  # bytes per second, times in milliseconds
    assert load(path, bandwidth=float("inf")) == CHAIN.replace(bandwidth=None)


def test_what_a_chain_has_not_cannot_be_overridden(tmp_path: Path) -> None:
    path = tmp_path / "chain.json"
    save(ODD, path)
    with pytest.raises(UsageError, match="--cpus is for placement"):
        load(path, cpus=1)
    with pytest.raises(UsageError, match="--inference is for profiles and tables"):
        load(path, training=False)
    with pytest.raises(UsageError, match="bytes per second, but the chain's time_unit is null"):
        load(path, bandwidth=1)


# ---- patterns ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("plan", [ONE, TWO])
def test_a_pattern_comes_back_from_a_plan_file_and_from_a_result(plan: PatternPlan, tmp_path: Path) -> None:
    save(plan, tmp_path / "plan.json")
    assert load_plan(tmp_path / "plan.json", CHAIN) == plan
    result = Result({"kind": "chain"}, Stop.PROVEN, Found.OPTIMAL, plan=plan, objective=7.0, bound=7.0)
    save(result, tmp_path / "result.json")
    assert load_result(tmp_path / "result.json") == result
    assert load_plan(tmp_path / "result.json") == plan


def test_one_batch_per_period_is_written_flat_and_several_as_rows() -> None:
    assert ONE.to_json() == {
        "kind": "pattern", "period": 7, "batches_per_period": 1, "allocation": [0, 1], "starts": [0, 2.5, 4.5, 8],
        "transfers": {"1": 1, "3": 7},
    }  # fmt: skip
    assert TWO.to_json()["starts"] == [[0, 2, 4, 8], [7, 9, 11, 15]]
    assert TWO.to_json()["transfers"] == [{"1": 1, "3": 7}, {"1": 8, "3": 14}]


def test_fractions_are_written_as_numbers() -> None:
    third: Any = Fraction(1, 3)
    data = PatternPlan(Fraction(6, 2), (0,), ((third, 1),), ({},)).to_json()  # type: ignore[arg-type]
    assert json.loads(json.dumps(data))["period"] == 3
    assert data["starts"] == [1 / 3, 1]


@pytest.mark.parametrize(("change", "field"), [
    ({"starts": [[0, 1], [1, 2]]}, "plan.starts"),
    ({"batches_per_period": 2}, "plan.starts"),
    ({"transfers": {"one": 1}}, "plan.transfers"),
    ({"transfers": [{}, {}]}, "plan.transfers"),
])  # fmt: skip
def test_a_malformed_pattern_is_refused_at_its_fault(change: dict[str, Any], field: str) -> None:
    with pytest.raises(InputError) as caught:
        PatternPlan.from_json({**ONE.to_json(), **change})
    assert caught.value.field == field


def test_a_plan_must_be_of_the_kind_that_the_problem_asks_for() -> None:
    placement = PlacementPlan.from_assignment(PLACEMENT, {"a": 0})
    with pytest.raises(InputError, match="of the kind placement, but the problem is a chain"):
        plan_from_json(placement.to_json(), CHAIN)
    with pytest.raises(InputError, match="give a plan of the kind placement"):
        plan_from_json(ONE.to_json(), PLACEMENT)
    with pytest.raises(InputError, match="give a plan of the kind pattern"):
        plan_from_json({"fpgas": [], "cpus": []}, CHAIN)
