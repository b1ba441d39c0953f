"""The placement problem: its rules at the door, its derived structure, its hash."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from hypothesis import given
from problems.strategies import placement_problems

from pipeplan.instances.base.errors import InputError
from pipeplan.instances.placement.problem import AcceleratorType, Node, PlacementProblem


def node(node_id: Any, **fields: Any) -> Node:
    return Node(**{"id": node_id, "accelerator_time": 1.0, "cpu_time": 2.0, **fields})


def problem(nodes: Any, edges: Any = (), accelerators: Any = 2, cpus: Any = 0, **fields: Any) -> PlacementProblem:
    return PlacementProblem(nodes=nodes, edges=edges, accelerators=accelerators, cpus=cpus, **fields)


DIAMOND = problem([node(i) for i in "sabt"], [("s", "a"), ("s", "b"), ("a", "t"), ("b", "t"), ("s", "a")])


# ---- structure -----------------------------------------------------------------------------------------


def test_lists_become_tuples() -> None:
    assert problem([node(1), node(2)], [[1, 2]]).edges == ((1, 2),)


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


@given(placement_problems())
def test_colour_classes_are_a_partition(any_problem: PlacementProblem) -> None:
    members = [i for group in any_problem.color_classes for i in group]
    assert sorted(members) == list(range(len(any_problem.nodes)))


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


def test_replace_is_checked_too() -> None:
    with pytest.raises(InputError, match="accelerators is negative"):
        DIAMOND.replace(accelerators=-1)


@pytest.mark.parametrize("edge", [1, "ab", (1,), (1, 2, 3)])
def test_an_edge_is_a_pair(edge: Any) -> None:
    with pytest.raises(InputError, match=r"edges\[0\] is .*, not a pair; give two node ids"):
        problem([node(1), node(2)], [edge])


def test_sums_of_amounts_stay_finite() -> None:
    with pytest.raises(InputError, match=r"size_bytes is too large \(1e\+308\)"):
        problem([node(1, size_bytes=1e308, color=1), node(2, size_bytes=1e308, color=1)], memory_bytes=1.0)


@pytest.mark.parametrize("count", [1.0, "1", None, True])
def test_a_count_is_a_whole_number(count: Any) -> None:
    with pytest.raises(InputError, match=r"cpus is .*, not a whole number"):
        problem([node(1)], cpus=count)


# ---- the door: feasibility of each class ---------------------------------------------------------------


def test_a_cpu_takes_what_no_accelerator_can() -> None:
    nodes = [node(1, size_bytes=9.0), node(2, supported=False, color=1), node(3, color=1)]
    assert problem(nodes, cpus=1, memory_bytes=8.0).cpus == 1


@pytest.mark.parametrize(
    ("nodes", "field"),
    [
        ([node(1, size_bytes=9.0)], "nodes[0].size_bytes"),
        ([node(1, size_bytes=5.0, color="x"), node(2, size_bytes=4.0, color="x")], "nodes[0].color"),
        ([node(1), node(2, supported=False)], "nodes[1].supported"),
        ([node(1, color=1), node(2, supported=False, color=1)], "nodes[1].supported"),
    ],
)
def test_without_a_cpu_each_class_must_fit_an_accelerator(nodes: list[Node], field: str) -> None:
    with pytest.raises(InputError) as caught:
        problem(nodes, memory_bytes=8.0)
    assert caught.value.field == field


def test_a_node_that_fits_nowhere_is_named_with_both_sizes() -> None:
    with pytest.raises(
        InputError, match="9 bytes for node 'wide', more than an accelerator's 8 bytes, and there is"
    ):
        problem([node(1), node("wide", size_bytes=9.0)], memory_bytes=8.0)


def test_a_class_that_just_fits_is_accepted() -> None:
    nodes = [node(i, size_bytes=0.1, color=1) for i in range(10)]
    assert problem(nodes, memory_bytes=1.0).memory_bytes == 1.0


def test_memory_is_of_each_accelerator_and_need_not_hold_everything() -> None:
    assert problem([node(i, size_bytes=1.0) for i in range(10)], memory_bytes=1.0)


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
