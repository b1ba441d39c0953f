"""The placement problem: its rules at the door, its derived structure, its hash."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from hypothesis import given
from problems.strategies import placement_problems

from pipeplan import AcceleratorType, InputError, Node, PlacementProblem
from pipeplan.instances.placement.kind_functions import placement_from_json, placement_to_json


def node(node_id: Any, **fields: Any) -> Node:
    return Node(**{"id": node_id, "accelerator_time": 1.0, "cpu_time": 2.0, **fields})


def problem(nodes: Any, edges: Any = (), accelerators: Any = 2, cpus: Any = 0, **fields: Any) -> PlacementProblem:
    return PlacementProblem(nodes=nodes, edges=edges, accelerators=accelerators, cpus=cpus, **fields)


DIAMOND = problem([node(i) for i in "sabt"], [("s", "a"), ("s", "b"), ("a", "t"), ("b", "t"), ("s", "a")])


# ---- structure -----------------------------------------------------------------------------------------


def test_structure_is_in_positions_and_a_doubled_edge_is_one_arc() -> None:
    assert DIAMOND.arcs == ((0, 1), (0, 2), (1, 3), (2, 3))
    assert DIAMOND.successors == ((1, 2), (3,), (3,), ())
    assert DIAMOND.predecessors == ((), (0,), (0,), (1, 2))
    assert DIAMOND.index["t"] == 3


def test_colour_classes_keep_one_and_the_text_1_apart() -> None:
    nodes = [node("a", color=1), node("b"), node("c", color="1"), node("d", color=1)]
    assert problem(nodes).color_classes == ((0, 3), (1,), (2,))


@given(placement_problems())
def test_the_topological_order_respects_every_arc(any_problem: PlacementProblem) -> None:
    place = {v: i for i, v in enumerate(any_problem.topological_order)}
    assert sorted(place) == list(range(len(any_problem.nodes)))
    assert all(place[u] < place[v] for u, v in any_problem.arcs)


# ---- hash ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fields", [{"name": "x"}, {"time_unit": None}])
def test_the_hash_ignores_names(fields: dict[str, Any]) -> None:
    assert DIAMOND.replace(**fields).hash == DIAMOND.hash
    assert problem([node(1, name="x")]).hash == problem([node(1)]).hash


def test_the_hash_does_not_depend_on_how_a_number_is_written() -> None:
    assert (
        problem([node(1, size_bytes=1, cpu_time=0)]).hash == problem([node(1, size_bytes=1.0, cpu_time=-0.0)]).hash
    )
    assert problem([node(1)], memory_bytes=1).hash == problem([node(1)], memory_bytes=1.0).hash


@pytest.mark.parametrize("field", [f.name for f in dataclasses.fields(Node) if f.name != "name"])
def test_the_hash_depends_on_every_other_field(field: str) -> None:
    values = {"id": "other", "color": 7, "supported": False, "backward": True, "other_times": (None,)}
    base = DIAMOND.replace(cpus=1, other_types=(AcceleratorType("fast", 1),))
    first = dataclasses.replace(base.nodes[3], **{field: values.get(field, 0.25)})
    edges = base.edges
    if field == "id":
        edges = tuple((u, "other" if v == "t" else v) for u, v in edges)
    if field == "transfer_time":
        first = dataclasses.replace(base.nodes[0], transfer_time=0.25)
        assert base.replace(nodes=(first, *base.nodes[1:])).hash != base.hash
        return
    assert base.replace(nodes=(*base.nodes[:3], first), edges=edges).hash != base.hash


@pytest.mark.parametrize(
    "fields", [{"accelerators": 3}, {"cpus": 1}, {"memory_bytes": 5.0}, {"edges": (("s", "a"),)}]
)
def test_the_hash_depends_on_the_cluster_and_the_edges(fields: dict[str, Any]) -> None:
    assert DIAMOND.replace(**fields).hash != DIAMOND.hash


# ---- the door: what only a program, not a file, can get wrong ------------------------------------------


def test_sums_of_amounts_stay_finite() -> None:
    with pytest.raises(InputError, match=r"size_bytes is too large \(1e\+308\)"):
        problem([node(1, size_bytes=1e308, color=1), node(2, size_bytes=1e308, color=1)], memory_bytes=1.0)


# ---- the door: feasibility of each class ---------------------------------------------------------------


def test_a_cpu_takes_what_no_accelerator_can() -> None:
    nodes = [node(1, size_bytes=9.0), node(2, supported=False, color=1), node(3, color=1)]
    assert problem(nodes, cpus=1, memory_bytes=8.0).cpus == 1


def test_a_node_that_fits_nowhere_is_named_with_both_sizes() -> None:
    with pytest.raises(
        InputError, match="9 bytes for node 'wide', more than an accelerator's 8 bytes, and there is"
    ):
        problem([node(1), node("wide", size_bytes=9.0)], memory_bytes=8.0)


# ---- the door: cycles ----------------------------------------------------------------------------------


def test_a_cycle_is_spelt_out_without_the_way_to_it() -> None:
    with pytest.raises(InputError, match="contain the cycle 2 -> 3 -> 2;"):
        problem([node(i) for i in (1, 2, 3)], [(1, 2), (2, 3), (3, 2)])


@pytest.mark.sweeps
def test_a_long_chain_is_no_trouble() -> None:
    n = 100_000
    chain = problem([node(i) for i in range(n)], [(i, i + 1) for i in range(n - 1)])
    assert chain.topological_order[-1] == n - 1
    with pytest.raises(InputError, match="more"):
        chain.replace(edges=(*chain.edges, (n - 1, 0)))


def test_a_cycle_is_found_behind_dead_ends() -> None:
    nodes = [node(i) for i in range(6)]
    with pytest.raises(InputError, match="contain the cycle 3 -> 4 -> 5 -> 3;"):
        problem(nodes, [(0, 1), (0, 2), (1, 2), (3, 2), (3, 4), (4, 5), (5, 3)])


@pytest.mark.parametrize(("limit", "field"), [("MAX_NODES", "nodes"), ("MAX_EDGES", "edges")])
def test_the_size_of_a_problem_is_limited(monkeypatch: pytest.MonkeyPatch, limit: str, field: str) -> None:
    monkeypatch.setattr(f"pipeplan.instances.placement.problem.{limit}", 2)
    with pytest.raises(InputError, match=f"{field} has 3 entries; give at most 2"):
        problem([node(i) for i in range(3 if field == "nodes" else 2)], [(0, 1)] * 3)


# ---- Clusters beyond accelerators of one type side by side: their rules at the door, their hash, their JSON.


PAIR = PlacementProblem((Node("a", 2.0, 9.0), Node("b", 3.0, 9.0)), (("a", "b"),), accelerators=4, cpus=0)
FAST = AcceleratorType("fast", 2, 64.0)


def with_times(*times: float | None, **facts: Any) -> PlacementProblem:
    """PAIR where node a has these times on the other types."""
    return PAIR.replace(nodes=(Node("a", 2.0, 9.0, other_times=times), PAIR.nodes[1]), **facts)


# ---- the door ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("change", "field", "remedy"), [
    ({"other_types": ("fast",)}, r"other_types\[0\]", "give an AcceleratorType"),
    ({"other_types": (FAST, FAST)}, r"other_types\[1\].name", "name of its own"),
    ({"other_types": (AcceleratorType("", 1),)}, r"other_types\[0\].name", "give the type a name"),
    ({"other_types": (AcceleratorType("x", 1.5),)}, r"other_types\[0\].count", "whole number"),  # type: ignore[arg-type]
    ({"other_types": (AcceleratorType("x", 1, -1.0),)}, r"other_types\[0\].memory_bytes", "finite number >= 0"),
])  # fmt: skip
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


def test_the_hash_of_a_flat_problem_is_what_it_was_before_there_were_extensions() -> None:
    assert PAIR.hash == "95bf2bd415392ccb"


def test_the_hash_depends_on_every_fact_of_types() -> None:
    variants = [
        PAIR,
        *(
            PAIR.replace(other_types=(AcceleratorType(*facts),))
            for facts in (("x", 1), ("y", 1), ("x", 2), ("x", 1, 5.0))
        ),
        *(with_times(time, other_types=(AcceleratorType("x", 1),)) for time in (None, 1.0, 2.0)),
    ]
    assert len({problem.hash for problem in variants}) == len(variants)


# ---- files -----------------------------------------------------------------------------------------------


# ---- Our own format keeps every field, refuses what it does not know, and lets defaults be omitted.


MINIMAL = {
    "schema": "pipeplan.placement/1",
    "accelerators": 1,
    "cpus": 0,
    "nodes": [{"id": 1, "accelerator_time": 2, "cpu_time": 3}],
    "edges": [],
}


def test_what_is_omitted_has_its_default() -> None:
    node = Node(1, 2, 3, 0, 0, supported=True, backward=False, color=None, name=None)
    problem = PlacementProblem((node,), (), 1, 0, memory_bytes=None, name="placement", time_unit="s")
    assert placement_from_json(MINIMAL) == problem


def test_the_writer_omits_the_defaults_of_nodes_only() -> None:
    written = {**MINIMAL, "name": "placement", "time_unit": "s", "memory_bytes": None}
    assert placement_to_json(placement_from_json(MINIMAL)) == written


def test_equal_looking_ids_of_two_types_stay_apart() -> None:
    nodes = [{"id": 1, "accelerator_time": 2, "cpu_time": 3}, {"id": "1", "accelerator_time": 4, "cpu_time": 3}]
    problem = placement_from_json({**MINIMAL, "nodes": nodes, "edges": [[1, "1"]]})
    assert problem.arcs == ((0, 1),)
