"""Clusters beyond accelerators of one type side by side: their rules at the door, their hash, their JSON."""

from __future__ import annotations

from typing import Any

import jsonschema
import pytest
from oracles.extended_placement import tiny_extended

from pipeplan.instances.base.errors import InputError
from pipeplan.instances.placement.kind_functions import placement_from_json, placement_to_json
from pipeplan.instances.placement.problem import AcceleratorType, Level, Node, PlacementProblem
from pipeplan.instances.placement.published import placement_to_published
from pipeplan.instances.schemas import read_schema

PAIR = PlacementProblem((Node("a", 2.0, 9.0), Node("b", 3.0, 9.0)), (("a", "b"),), accelerators=4, cpus=0)
FAST = AcceleratorType("fast", 2, 64.0)


def with_times(*times: float | None, **facts: Any) -> PlacementProblem:
    """PAIR where node a has these times on the other types."""
    return PAIR.replace(nodes=(Node("a", 2.0, 9.0, other_times=times), PAIR.nodes[1]), **facts)


# ---- the door ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "field", "remedy"),
    [
        ({"levels": (Level(3),)}, "levels", "multiply"),
        ({"levels": (Level(2), Level(3))}, "levels", "multiply"),
        ({"levels": (Level(1),) * 6 + (Level(4),)}, "levels", "at most 6"),
        ({"levels": (4,)}, r"levels\[0\]", "give a Level"),
        ({"levels": (Level(-4),)}, r"levels\[0\].devices", "whole number"),
        ({"levels": (Level(4, -1.0),)}, r"levels\[0\].transfer_factor", "finite number >= 0"),
        ({"levels": (Level(4, 1.0, float("nan")),)}, r"levels\[0\].sync_bandwidth", "finite number"),
        ({"levels": (Level(4, 1.0, 0.0),)}, r"levels\[0\].sync_bandwidth", "at least"),
        ({"other_types": ("fast",)}, r"other_types\[0\]", "give an AcceleratorType"),
        ({"other_types": (FAST, FAST)}, r"other_types\[1\].name", "name of its own"),
        ({"other_types": (AcceleratorType("", 1),)}, r"other_types\[0\].name", "give the type a name"),
        ({"other_types": (AcceleratorType("x", 1.5),)}, r"other_types\[0\].count", "whole number"),  # type: ignore[arg-type]
        ({"other_types": (AcceleratorType("x", 1, -1.0),)}, r"other_types\[0\].memory_bytes", "finite number >= 0"),
        ({"other_types": (FAST,), "levels": (Level(2), Level(2))}, "other_types", "at most one level"),
    ],
)
def test_a_cluster_that_makes_no_sense_is_refused(change: dict[str, Any], field: str, remedy: str) -> None:
    with pytest.raises(InputError, match=f"^{field} .*; .*{remedy}"):
        PAIR.replace(**change)


def test_other_times_are_one_for_each_other_type() -> None:
    assert with_times(1.0, other_types=(FAST,)).time_on(0, 0) == 1.0
    for times, types in (((1.0,), ()), ((1.0, 2.0), (FAST,))):
        with pytest.raises(InputError, match=r"nodes\[0\].other_times has"):
            with_times(*times, other_types=types)
    with pytest.raises(InputError, match=r"nodes\[0\].other_times\[0\] is negative"):
        with_times(-1.0, other_types=(FAST,))
    with pytest.raises(InputError, match=r"nodes\[0\].other_times .* not a list"):
        PAIR.replace(nodes=(Node("a", 2.0, 9.0, other_times=1.0), PAIR.nodes[1]), other_types=(FAST,))  # type: ignore[arg-type]


def test_without_other_times_all_types_are_as_fast_and_able_as_the_base_type() -> None:
    problem = PAIR.replace(nodes=(PAIR.nodes[0], Node("b", 3.0, 9.0, supported=False)), other_types=(FAST,), cpus=1)
    assert [problem.time_on(0, kind) for kind in (None, 0)] == [2.0, 2.0]
    assert [problem.time_on(1, kind) for kind in (None, 0)] == [None, None]


def test_a_node_that_only_another_type_can_take_is_placeable() -> None:
    """Here node a is supported by no base accelerator, is too large for one, or there are none."""
    a = Node("a", 2.0, 9.0, size_bytes=50.0, supported=False, other_times=(1.0,))
    assert PAIR.replace(nodes=(a, PAIR.nodes[1]), other_types=(FAST,)).extensions == {"types"}
    large = Node("a", 2.0, 9.0, size_bytes=50.0)
    assert PAIR.replace(nodes=(large, PAIR.nodes[1]), memory_bytes=10.0, other_types=(FAST,)).extensions == {
        "types"
    }
    assert PAIR.replace(accelerators=0, other_types=(FAST,)).accelerators == 0


@pytest.mark.parametrize("other", [AcceleratorType("fast", 0), AcceleratorType("fast", 2, 40.0)])
def test_a_node_that_no_type_can_take_is_refused(other: AcceleratorType) -> None:
    a = Node("a", 2.0, 9.0, size_bytes=50.0, supported=False, other_times=(1.0,))
    with pytest.raises(InputError, match=r"nodes\[0\] has no device: no type .* node 'a' and there is no CPU; add"):
        PAIR.replace(nodes=(a, PAIR.nodes[1]), other_types=(other,))


# ---- what a problem uses, and its hash -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("facts", "extensions"),
    [
        ({}, set()),
        ({"levels": (Level(4),)}, set()),
        ({"levels": (Level(4, 2.0),)}, {"levels"}),
        ({"levels": (Level(4, 1.0, 8.0),)}, {"levels"}),
        ({"levels": (Level(2), Level(2))}, {"levels"}),
        ({"other_types": (FAST,)}, {"types"}),
        ({"other_types": (FAST,), "levels": (Level(4, 1.0, 8.0),)}, {"types", "levels"}),
    ],
)
def test_a_problem_says_what_it_needs_beyond_the_flat_one(facts: dict[str, Any], extensions: set[str]) -> None:
    """One level that only counts the accelerators adds nothing."""
    assert PAIR.replace(**facts).extensions == extensions


def test_the_hash_of_a_flat_problem_is_what_it_was_before_there_were_extensions() -> None:
    assert PAIR.hash == "95bf2bd415392ccb"


def test_the_hash_depends_on_every_fact_of_types_and_levels() -> None:
    weights = (Node("a", 2.0, 9.0, weight_bytes=1.0), PAIR.nodes[1])
    variants = [
        PAIR,
        PAIR.replace(nodes=weights),
        *(PAIR.replace(levels=(Level(4, factor, sync),)) for factor in (1.0, 2.0) for sync in (None, 1.0, 2.0)),
        PAIR.replace(levels=(Level(2), Level(2))),
        PAIR.replace(levels=(Level(1), Level(4))),
        *(
            PAIR.replace(other_types=(AcceleratorType(*facts),))
            for facts in (("x", 1), ("y", 1), ("x", 2), ("x", 1, 5.0))
        ),
        *(with_times(time, other_types=(AcceleratorType("x", 1),)) for time in (None, 1.0, 2.0)),
    ]
    assert len({problem.hash for problem in variants}) == len(variants)


# ---- files -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(30))
def test_our_own_json_holds_every_fact(seed: int) -> None:
    problem = tiny_extended(seed)
    data = placement_to_json(problem)
    jsonschema.validate(data, read_schema("placement-1"))
    assert placement_from_json(data) == problem


def test_our_own_json_of_a_flat_problem_has_no_new_keys() -> None:
    data = placement_to_json(PAIR)
    assert {"other_types", "levels"}.isdisjoint(data)
    assert set(data["nodes"][0]) == {"id", "accelerator_time", "cpu_time"}


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"levels": {}}, "levels"),
        ({"levels": [4]}, r"levels\[0\]"),
        ({"levels": [{"transfer_factor": 2}]}, r"levels\[0\].devices"),
        ({"levels": [{"devices": 4, "bandwidth": 2}]}, r"levels\[0\].bandwidth"),
        ({"other_types": [{"name": "fast"}]}, r"other_types\[0\].count"),
        ({"other_types": [{"name": "fast", "count": 1, "memory": 3}]}, r"other_types\[0\].memory"),
        (
            {"nodes": [{"id": "a", "accelerator_time": 1, "cpu_time": 1, "other_times": 3}]},
            r"nodes\[0\].other_times",
        ),
        (
            {"nodes": [{"id": "a", "accelerator_time": 1, "cpu_time": 1, "weight_bytes": -3}]},
            r"nodes\[0\].weight_bytes",
        ),
    ],
)
def test_malformed_files_are_refused_where_the_fault_is(change: dict[str, Any], field: str) -> None:
    data = {**placement_to_json(PAIR), "edges": [], **change}
    with pytest.raises(InputError, match=f"^{field} "):
        placement_from_json(data)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(data, read_schema("placement-1"))


@pytest.mark.parametrize(
    ("problem", "field"),
    [
        (PAIR.replace(levels=(Level(4, 2.0),)), "levels"),
        (PAIR.replace(other_types=(FAST,)), "other_types"),
        (PAIR.replace(nodes=(PAIR.nodes[0], Node("b", 3.0, 9.0, weight_bytes=1.0))), r"nodes\[1\].weight_bytes"),
    ],
)
def test_the_published_format_refuses_what_it_cannot_hold(problem: PlacementProblem, field: str) -> None:
    with pytest.raises(InputError, match=f"^{field} has no place in the published format; write"):
        placement_to_published(problem)
