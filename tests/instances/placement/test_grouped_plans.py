"""Plans with types, replicas and groups as JSON."""

from __future__ import annotations

from itertools import islice
from typing import Any

import jsonschema
import pytest
from oracles.extended_placement import all_plans, tiny_extended

from pipeplan.instances.base.errors import InputError
from pipeplan.instances.placement.plan import Device, DeviceGroup, PlacementPlan
from pipeplan.instances.schemas import read_schema

NESTED = PlacementPlan(
    (Device("acc0", "accelerator", ("a",), replicas=2, group="node0"), Device("cpu0", "cpu", ("b",))),
    (DeviceGroup("node0", 2, 3, "rack"), DeviceGroup("rack", 3)),
)


@pytest.mark.parametrize("seed", range(12))
def test_a_plan_is_what_its_json_says(seed: int) -> None:
    for plan in islice(all_plans(tiny_extended(seed)), 50):
        jsonschema.validate(plan.to_json(), read_schema("plan-1"))
        assert PlacementPlan.from_json(plan.to_json()) == plan


def test_only_what_differs_from_the_default_is_written() -> None:
    assert NESTED.to_json() == {
        "kind": "placement",
        "devices": [
            {"name": "acc0", "type": "accelerator", "nodes": ["a"], "replicas": 2, "group": "node0"},
            {"name": "cpu0", "type": "cpu", "nodes": ["b"]},
        ],
        "groups": [{"name": "node0", "level": 2, "replicas": 3, "parent": "rack"}, {"name": "rack", "level": 3}],
    }


@pytest.mark.parametrize(
    ("path", "value", "field"),
    [
        (("devices", 0, "replicas"), "2", r"plan.devices\[0\].replicas"),
        (("devices", 0, "replicas"), 1.5, r"plan.devices\[0\].replicas"),
        (("devices", 0, "replicas"), 10**9, r"plan.devices\[0\].replicas"),
        (("devices", 0, "group"), 7, r"plan.devices\[0\].group"),
        (("devices", 0, "accelerator_type"), ["fast"], r"plan.devices\[0\].accelerator_type"),
        (("groups",), {}, "plan.groups"),
        (("groups", 0), "node0", r"plan.groups\[0\]"),
        (("groups", 0), {"name": "node0"}, r"plan.groups\[0\].level"),
        (("groups", 0), {"level": 2}, r"plan.groups\[0\].name"),
        (("groups", 0, "level"), None, r"plan.groups\[0\].level"),
        (("groups", 0, "parent"), 3, r"plan.groups\[0\].parent"),
    ],
)
def test_malformed_plans_are_refused_where_the_fault_is(path: tuple[Any, ...], value: Any, field: str) -> None:
    data: Any = NESTED.to_json()
    place = data
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    with pytest.raises(InputError, match=f"^{field} "):
        PlacementPlan.from_json(data)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(data, read_schema("plan-1"))


def test_replicas_without_a_meaning_are_read_and_left_to_the_referee() -> None:
    data = NESTED.to_json()
    data["devices"][0]["replicas"] = 0
    assert PlacementPlan.from_json(data).devices[0].replicas == 0
