"""Files of chains and patterns: what is written is read again, and the caller's cluster overrides the file's."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from pipeplan.instances.base.errors import InputError, UsageError
from pipeplan.instances.base.result import Found, Result, Stop
from pipeplan.instances.chain.kind_functions import chain_from_json, chain_to_json
from pipeplan.instances.chain.plan import PatternPlan
from pipeplan.instances.chain.problem import ChainProblem
from pipeplan.instances.files import save
from pipeplan.instances.lookup import load
from pipeplan.instances.placement.plan import PlacementPlan
from pipeplan.instances.placement.problem import Node, PlacementProblem
from pipeplan.instances.stored_results import load_plan, load_result, plan_from_json

CHAIN = ChainProblem([1, 2], [1, 2.5], [3, 2, 0], [5, 6], gpus=2, memory_bytes=100, bandwidth=2, time_unit="ms")
ODD = CHAIN.replace(
    bandwidth=None, transfer_times=(1, 0, 2), duplex="full", weight_copies=1, memory_mode="strict", name="odd",
    exclusive_buffers=True, memory_bytes=None, time_unit=None,
)  # fmt: skip
PLACEMENT = PlacementProblem((Node("a", 1, 1),), (), 1, 0)
ONE = PatternPlan(7, (0, 1), ((0, 2.5, 4.5, 8),), ({1: 1, 3: 7},))
TWO = PatternPlan(14, (0, 1), ((0, 2, 4, 8), (7, 9, 11, 15)), ({1: 1, 3: 7}, {1: 8, 3: 14}))
DEFAULTS = {"forward": [1], "backward": [1], "activations": [1, 1], "weights": [0], "gpus": 1}


@pytest.mark.parametrize("problem", [CHAIN, ODD])
def test_a_chain_comes_back_from_its_file(problem: ChainProblem, tmp_path: Path) -> None:
    save(problem, tmp_path / "chain.json")
    assert load(tmp_path / "chain.json") == problem


def test_what_equals_its_default_may_be_omitted() -> None:
    assert chain_from_json({"schema": "pipeplan.chain/1", **DEFAULTS}) == ChainProblem([1], [1], [1, 1], [0], 1)


@pytest.mark.parametrize(
    ("change", "field", "remedy"),
    [
        ({"memory": -1}, "memory", "finite number"),
        ({"memoy": 1}, "memoy", '"memory"'),
        ({"gpus": None}, "gpus", "whole number"),
        ({"weights": {}}, "weights", "list"),
        ({"schema": "pipeplan.chain/9"}, "schema", "pipeplan.chain/1"),
    ],
)
def test_faults_are_named_as_the_file_names_them(
    change: dict[str, Any], field: str, remedy: str, tmp_path: Path
) -> None:
    path = tmp_path / "chain.json"
    path.write_text(json.dumps({**chain_to_json(CHAIN), **change}), "utf-8")
    with pytest.raises(InputError) as caught:
        load(path)
    assert (caught.value.field, caught.value.file) == (field, str(path))
    assert remedy in caught.value.remedy


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


def test_the_kind_of_problem_can_be_asked_for(tmp_path: Path) -> None:
    save(CHAIN, tmp_path / "chain.json")
    assert load(tmp_path / "chain.json", kind="chain") == CHAIN
    with pytest.raises(InputError, match="of the kind chain; give a problem of the kind placement"):
        load(tmp_path / "chain.json", kind="placement")


def test_a_chain_has_no_published_format(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="Only placement and staging problems"):
        save(CHAIN, tmp_path / "chain.json", format="published")


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


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"kind": "placement"}, "plan.kind"),
        ({"period": "7"}, "plan.period"),
        ({"period": float("nan")}, "plan.period"),
        ({"allocation": [0, 1.0]}, "plan.allocation[1]"),
        ({"starts": [0, None, 1, 2]}, "plan.starts[1]"),
        ({"starts": {}}, "plan.starts"),
        ({"starts": [[0, 1], [1, 2]]}, "plan.starts"),
        ({"batches_per_period": 2}, "plan.starts"),
        ({"batches_per_period": "1"}, "plan.batches_per_period"),
        ({"transfers": {"one": 1}}, "plan.transfers"),
        ({"transfers": {"1": True}}, "plan.transfers.1"),
        ({"transfers": [{}, {}]}, "plan.transfers"),
    ],
)
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
