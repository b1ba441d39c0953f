"""The staging problem: refusals by field, structure by position, what its hash sees, and devices of several types."""

from __future__ import annotations

from typing import Any

import pytest

from pipeplan import InputError, PlannedStage, StagedPlan
from pipeplan.instances.staging.problem import (
    MAX_DEGREE,
    MAX_MICRO_BATCHES,
    Configuration,
    DeviceType,
    Edge,
    Layer,
    StagingLevel,
    StagingProblem,
)
from pipeplan.instances.staging.referee import evaluate_stages, verify_stages

FAST, SMALL = Configuration("fast", 2.0, 1.0, 4.0, 3.0), Configuration("small", 3.0, 1.0, 1.0, 3.0)
HALF = Configuration("fast", 1.2, 0.5, 2.0, 1.5, {"a": 0.5})
LAYERS = (Layer("a", {1: (FAST, SMALL)}), Layer("b", {1: (FAST,), 2: (HALF,)}), Layer(3, {1: (FAST,), 4: (SMALL,)}))
EDGES = (Edge("a", "b", 5.0), Edge("b", 3), Edge("a", 3, 1.0))
PROBLEM = StagingProblem(LAYERS, EDGES, devices=2, bandwidth=10.0, micro_batches=4, memory_bytes=100.0)


def layers(way: Configuration | None = None, **changes: Any) -> tuple[Layer, ...]:
    """The three layers, the second one with another way or other values."""
    fields: dict[str, Any] = {"id": "b", "configurations": {1: (way or FAST,)}, "name": None, **changes}
    return (LAYERS[0], Layer(**fields), LAYERS[2])


def way(**changes: Any) -> Configuration:
    fields: dict[str, Any] = {"id": "way", "time": 1.0, **changes}
    return Configuration(**fields)


# ---- structure -----------------------------------------------------------------------------------------


def test_neighbours_and_order_are_positions() -> None:
    assert PROBLEM.arcs == ((0, 1), (1, 2), (0, 2))
    assert PROBLEM.successors == ((1, 2), (2,), ())
    assert PROBLEM.predecessors == ((), (0,), (1, 0))
    assert PROBLEM.topological_order == (0, 1, 2)


def test_degrees_are_those_that_some_layer_offers_and_the_cluster_has_room_for() -> None:
    assert PROBLEM.degrees == (1, 2)
    assert PROBLEM.replace(devices=4).degrees == (1, 2, 4)
    assert PROBLEM.replace(layers=(*LAYERS[:2], Layer(3, {1: (FAST,), 2: ()}))).degrees == (1, 2)


# ---- hash ----------------------------------------------------------------------------------------------

OTHER_VALUES: dict[str, dict[str, Any]] = {
    "devices": {"devices": 4},
    "bandwidth": {"bandwidth": 11.0},
    "micro-batches": {"micro_batches": 5},
    "memory": {"memory_bytes": 99.0},
    "no memory limit": {"memory_bytes": None},
    "levels": {"levels": (StagingLevel(2, 10.0),)},
    "edge bytes": {"edges": (Edge("a", "b", 6.0), *EDGES[1:])},
    "fewer edges": {"edges": EDGES[:2]},
    "a degree more": {"layers": layers(configurations={1: (FAST,), 2: (HALF,), 3: (HALF,)})},
    "a way less": {"layers": (Layer("a", {1: (FAST,)}), *LAYERS[1:])},
    "time": {"layers": layers(way(time=7.0))},
    "weight": {"layers": layers(way(weight_bytes=7.0))},
    "memory per batch": {"layers": layers(way(memory_per_batch=7.0))},
    "memory fixed": {"layers": layers(way(memory_fixed=7.0))},
    "gather in": {"layers": layers(way(gather_in={"a": 7.0}))},
    "gather out": {"layers": layers(way(gather_out={3: 7.0}))},
    "the id of a way": {"layers": layers(way(id="other"))},
}


def test_every_change_of_value_changes_the_hash() -> None:
    base = PROBLEM.replace(layers=layers(way()))
    hashes = {base.hash, PROBLEM.hash, *(base.replace(**change).hash for change in OTHER_VALUES.values())}
    assert len(hashes) == len(OTHER_VALUES) + 2


def test_names_and_the_order_of_gathers_do_not_change_the_hash() -> None:
    one, other = way(gather_out={3: 1.0}, gather_in={"a": 2.0}), way(gather_in={"a": 2}, gather_out={3: 1})
    base = PROBLEM.replace(layers=layers(one))
    assert base.hash == PROBLEM.replace(layers=layers(other, name="b's name"), name="other").hash


# ---- the door ------------------------------------------------------------------------------------------

REFUSED: list[tuple[str, dict[str, Any], str, str]] = [
    ("a unit of nothing", {"time_unit": "x"}, "time_unit", "give one of s, ms"),
    ("too many batches", {"micro_batches": MAX_MICRO_BATCHES + 1}, "micro_batches", str(MAX_MICRO_BATCHES)),
    ("levels that do not multiply", {"levels": (StagingLevel(3, 1.0),)}, "levels", "multiply"),
    ("no layers", {"layers": (), "edges": ()}, "layers", "at least one"),
    ("layer id", {"layers": layers(id=1.5)}, "layers[1].id", "whole number or a text"),
    ("degree in words", {"layers": layers(configurations={"1": (FAST,)})}, "layers[1].configurations['1']",
     "whole"),
    ("huge degree", {"layers": layers(configurations={MAX_DEGREE + 1: (FAST,)})},
     f"layers[1].configurations[{MAX_DEGREE + 1}]", str(MAX_DEGREE)),
    ("way without a name", {"layers": layers(way(id=7))}, "layers[1].configurations[1][0].id", "text"),
    ("two ways of one name", {"layers": layers(configurations={1: (FAST, FAST)})},
     "layers[1].configurations[1][1].id", "of their own"),
    ("gather from a stranger", {"layers": layers(way(gather_in={3: 1.0}))},
     "layers[1].configurations[1][0].gather_in", "neighbour"),
    ("edge from nowhere", {"edges": (Edge("x", "b"),)}, "edges[0].source", "name a layer"),
    ("edge twice", {"edges": (EDGES[0], Edge("a", "b", 7.0))}, "edges[1]", "add the bytes"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "field", "remedy"), [case[1:] for case in REFUSED], ids=[c[0] for c in REFUSED]
)
def test_the_door_names_the_field_and_the_remedy(changes: dict[str, Any], field: str, remedy: str) -> None:
    # What the changed field meant for the others is out of the way: no gathers, no levels.
    base = PROBLEM.replace(layers=layers())
    with pytest.raises(InputError) as caught:
        base.replace(**changes)
    assert caught.value.field == field
    assert remedy in f"{caught.value.problem}; {caught.value.remedy}"


# ---- devices of several types ------------------------------------------------------------------------------

ONLY = Configuration("only", 8.0, weight_bytes=5.0, memory_per_batch=4.0, memory_fixed=2.0)
TYPED = StagingProblem(
    (Layer("a", {1: (ONLY,)}), Layer("b", {1: (ONLY,)})), (Edge("a", "b", 10.0),), 3, 5.0, 4,
    device_types=(DeviceType("fast", 1, 2.0, 10.0), DeviceType("slow", 2, 0.5)),
)  # fmt: skip


def typed_plan(*kinds: str | None, replicas: int = 1) -> StagedPlan:
    """A layer on each kind, the second with so many replicas."""
    degrees = (1, replicas)
    return StagedPlan(
        tuple(PlannedStage((v,), d, 1, {v: "only"}, kind) for v, d, kind in zip("ab", degrees, kinds, strict=True))
    )


REFUSED_TYPES: list[tuple[dict[str, Any], str]] = [
    ({"devices": 4}, "device_types make 3 devices, not 4"),
    ({"memory_bytes": 1.0}, "memory_bytes is given beside types with memories of their own"),
    ({"levels": (StagingLevel(3, 5.0),)}, "device_types are given beside levels"),
    ({"device_types": (DeviceType("x", 1), DeviceType("x", 2))}, "device_types"),
    ({"device_types": (DeviceType("x", 3, 0.0),)}, r"device_types\[0\].speed is 0"),
]


@pytest.mark.parametrize(("change", "said"), REFUSED_TYPES)
def test_types_are_checked(change: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        TYPED.replace(**change)


def test_types_are_an_extension_and_part_of_the_hash() -> None:
    flat = TYPED.replace(device_types=())
    assert (TYPED.extensions, flat.extensions) == ({"types"}, frozenset())
    kinds = [TYPED.device_types, (DeviceType("fast", 1, 2.0, 10.0), DeviceType("slow", 2, 0.6)), ()]
    assert len({TYPED.replace(device_types=types).hash for types in kinds}) == 3
    assert flat.types == (DeviceType("device", 3, 1.0, None),)


def test_stages_name_no_type_where_there_is_one() -> None:
    assert "device_type" not in typed_plan(None, None).to_json()["stages"][0]


def test_time_is_divided_by_speed_and_links_are_the_same_for_all() -> None:
    """8 / 2 and 2 x 10 / 5; 8 / 0.5 on two replicas, half the transfer, 4 x 5 / 2 / 2 / 5 for weights."""
    first, second = evaluate_stages(TYPED, typed_plan("fast", "slow", replicas=2)).stages
    assert (first.compute, first.transfers, first.load) == (4.0, 4.0, 8.0)
    assert (second.compute, second.transfers, second.synchronisation, second.load) == (8.0, 2.0, 1.0, 11.0)
    assert (first.binds, second.binds) == (("computation", "memory"), ("computation",))


def test_memory_is_that_of_the_type() -> None:
    """Two in flight take 10 bytes, three take 14: the fast device has 10, the slow ones have no limit."""
    assert not verify_stages(TYPED, typed_plan("fast", "slow"))
    assert evaluate_stages(TYPED, typed_plan("fast", "slow")).stages[0].binds == ("computation", "memory")
    full = verify_stages(TYPED, typed_plan("fast", "slow", replicas=2))
    assert [violation.rule for violation in full] == ["memory"]
    assert "holds 14 bytes with 3 micro-batches in flight" in full[0].message
    assert not verify_stages(TYPED, typed_plan("slow", "fast"))


@pytest.mark.parametrize(("kinds", "said"), [
    (("fast", "fast"), "The plan uses 2 devices of type"),
    (("fast", None), "Stage 1 does not say on which type of devices it is."),
    (("fast", "new"), "Stage 1 is on devices of type"),
])  # fmt: skip
def test_rules_of_types_are_broken(kinds: tuple[str | None, str | None], said: str) -> None:
    found = verify_stages(TYPED, typed_plan(*kinds))
    assert any(said in violation.message for violation in found)


def test_plans_for_devices_that_are_alike_name_no_type() -> None:
    flat = TYPED.replace(device_types=())
    assert not verify_stages(flat, typed_plan(None, None))
    assert [violation.rule for violation in verify_stages(flat, typed_plan("fast", None))] == ["configuration"]
