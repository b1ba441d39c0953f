"""Staging problems on devices of several types: the door, files, and what the referee says of plans."""

from __future__ import annotations

from typing import Any

import jsonschema
import pytest

from pipeplan.instances.base.errors import InputError
from pipeplan.instances.schemas import read_schema
from pipeplan.instances.staging.kind_functions import staging_from_json, staging_to_json, staging_to_published
from pipeplan.instances.staging.plan import PlannedStage, StagedPlan
from pipeplan.instances.staging.problem import Configuration, DeviceType, Edge, Layer, StagingLevel, StagingProblem
from pipeplan.instances.staging.referee import evaluate_stages, verify_stages

WAY = Configuration("only", 8.0, weight_bytes=5.0, memory_per_batch=4.0, memory_fixed=2.0)
PROBLEM = StagingProblem(
    (Layer("a", {1: (WAY,)}), Layer("b", {1: (WAY,)})), (Edge("a", "b", 10.0),), 3, 5.0, 4,
    device_types=(DeviceType("fast", 1, 2.0, 10.0), DeviceType("slow", 2, 0.5)),
)  # fmt: skip


def plan(*kinds: str | None, replicas: int = 1) -> StagedPlan:
    """A layer on each kind, the second with so many replicas."""
    degrees = (1, replicas)
    return StagedPlan(
        tuple(PlannedStage((v,), d, 1, {v: "only"}, kind) for v, d, kind in zip("ab", degrees, kinds, strict=True))
    )


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"devices": 4}, "device_types make 3 devices, not 4"),
    ({"memory_bytes": 1.0}, "memory_bytes is given beside types with memories of their own"),
    ({"levels": (StagingLevel(3, 5.0),)}, "device_types are given beside levels"),
    ({"device_types": (DeviceType("x", 1), DeviceType("x", 2))}, "device_types"),
    ({"device_types": (DeviceType("x", 3, 0.0),)}, r"device_types\[0\].speed is 0"),
    ({"device_types": (DeviceType("x", 3, 1.0, -1.0),)}, r"device_types\[0\].memory_bytes"),
    ({"device_types": (DeviceType("x", 1.5), DeviceType("y", 1.5))}, r"device_types\[0\].devices"),  # type: ignore[arg-type]
    ({"device_types": (DeviceType(7, 3),)}, r"device_types\[0\].name"),  # type: ignore[arg-type]
]


@pytest.mark.parametrize(("change", "said"), REFUSED)
def test_the_door(change: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        PROBLEM.replace(**change)


def test_types_are_an_extension_and_part_of_the_hash() -> None:
    flat = PROBLEM.replace(device_types=())
    assert (PROBLEM.extensions, flat.extensions) == ({"types"}, frozenset())
    kinds = [PROBLEM.device_types, (DeviceType("fast", 1, 2.0, 10.0), DeviceType("slow", 2, 0.6)), ()]
    assert len({PROBLEM.replace(device_types=types).hash for types in kinds}) == 3
    assert flat.types == (DeviceType("device", 3, 1.0, None),)


def test_files_come_back_and_obey_the_schema() -> None:
    data = staging_to_json(PROBLEM)
    jsonschema.validate(data, read_schema("staging-1"))
    assert staging_from_json(data) == PROBLEM
    for stages in (plan("fast", "slow"), plan(None, None)):
        jsonschema.validate(stages.to_json(), read_schema("staged-plan-1"))
        assert StagedPlan.from_json(stages.to_json()) == stages
    assert "device_type" not in plan(None, None).to_json()["stages"][0]


@pytest.mark.parametrize(
    "kind", [{"name": "x"}, {"devices": 3}, {"name": "x", "devices": 3, "colour": 1}, {"name": "x", "devices": "3"}]
)
def test_schema_and_reader_refuse_the_same(kind: dict[str, Any]) -> None:
    data = {**staging_to_json(PROBLEM), "device_types": [kind]}
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(data, read_schema("staging-1"))
    with pytest.raises(InputError, match="device_types"):
        staging_from_json(data)


def test_the_published_format_has_no_types() -> None:
    with pytest.raises(InputError, match="device_types cannot be said in the published format"):
        staging_to_published(PROBLEM)


def test_time_is_divided_by_speed_and_links_are_the_same_for_all() -> None:
    """8 / 2 and 2 x 10 / 5; 8 / 0.5 on two replicas, half the transfer, 4 x 5 / 2 / 2 / 5 for weights."""
    first, second = evaluate_stages(PROBLEM, plan("fast", "slow", replicas=2)).stages
    assert (first.compute, first.transfers, first.load) == (4.0, 4.0, 8.0)
    assert (second.compute, second.transfers, second.synchronisation, second.load) == (8.0, 2.0, 1.0, 11.0)
    assert (first.binds, second.binds) == (("computation", "memory"), ("computation",))


def test_memory_is_that_of_the_type() -> None:
    """Two in flight take 10 bytes, three take 14: the fast device has 10, the slow ones have no limit."""
    assert not verify_stages(PROBLEM, plan("fast", "slow"))
    assert evaluate_stages(PROBLEM, plan("fast", "slow")).stages[0].binds == ("computation", "memory")
    full = verify_stages(PROBLEM, plan("fast", "slow", replicas=2))
    assert [violation.rule for violation in full] == ["memory"]
    assert "holds 14 bytes with 3 micro-batches in flight" in full[0].message
    assert not verify_stages(PROBLEM, plan("slow", "fast"))


@pytest.mark.parametrize(
    ("kinds", "said"),
    [
        (("fast", "fast"), "The plan uses 2 devices of type"),
        (("fast", None), "Stage 1 does not say on which type of devices it is."),
        (("fast", "new"), "Stage 1 is on devices of type"),
    ],
)
def test_broken_rules(kinds: tuple[str | None, str | None], said: str) -> None:
    found = verify_stages(PROBLEM, plan(*kinds))
    assert any(said in violation.message for violation in found)


def test_plans_for_devices_that_are_alike_name_no_type() -> None:
    flat = PROBLEM.replace(device_types=())
    assert not verify_stages(flat, plan(None, None))
    assert [violation.rule for violation in verify_stages(flat, plan("fast", None))] == ["configuration"]
