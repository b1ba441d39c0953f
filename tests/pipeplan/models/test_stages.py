"""Plans as stages: pieces of devices, their order, and what a replica holds."""

from __future__ import annotations

from itertools import pairwise

from export_samples import llama, on_stages, placed, row, stage_graph, staged
from hypothesis import given
from hypothesis import strategies as st
from problems.profiles import profiles

from pipeplan import LeveledPlan, LeveledStage, Profile
from pipeplan.instances.base.graph import adjacency, topological_order
from pipeplan.models.stages import stages_of

ABC = row(["a", "b", "c", "d"])


@given(profiles(), st.lists(st.integers(0, 2), min_size=6, max_size=6))
def test_no_stage_waits_for_a_later_one(profile: Profile, owner: list[int]) -> None:
    """Whatever nodes a device holds; every node is in one stage, of its device."""
    held = [[node.id for node, d in zip(profile.nodes, owner, strict=False) if d == device] for device in range(3)]
    found = stages_of(placed(held), profile)
    assert sorted(found.stage_of) == sorted(profile.ids)
    for node, reader in profile.ends:
        assert found.stage_of[node] <= found.stage_of[reader]
    for stage in found.stages:
        assert {stage.device} == {f"acc{owner[profile.index[node]]}" for node in stage.nodes}
    assert found.stages[0].rank == 0
    assert found.ranks == len({d for d, _ in zip(owner, profile.nodes, strict=False)})


@given(profiles(), st.lists(st.integers(0, 2), min_size=6, max_size=6))
def test_a_device_is_divided_only_where_it_must_be(profile: Profile, owner: list[int]) -> None:
    """Two pieces of it that follow each other would, as one, wait for themselves."""
    held = [[node.id for node, d in zip(profile.nodes, owner, strict=False) if d == device] for device in range(3)]
    found = stages_of(placed(held), profile)
    for device in range(3):
        own = [number for number, stage in enumerate(found.stages) if stage.device == f"acc{device}"]
        for one, other in pairwise(own):
            joined = [one if number == other else number for number in range(len(found.stages))]
            arcs = {(joined[x], joined[y]) for x, y in found.edges if joined[x] != joined[y]}
            assert topological_order(adjacency(len(joined), arcs)) is None


def test_a_device_at_both_ends_holds_two_stages() -> None:
    found = stages_of(placed([("a", "d"), ("b", "c")]), ABC)
    assert [(stage.nodes, stage.rank, stage.in_flight) for stage in found.stages] == [
        (("a",), 0, 3),
        (("b", "c"), 1, 2),
        (("d",), 0, 1),
    ]
    assert found.edges == ((0, 1), (1, 2))
    assert found.training


def test_replicas_share_what_is_in_flight() -> None:
    held = on_stages(llama(4), (2, 2))
    assert [stage.in_flight for stage in stages_of(staged(held, replicas=2), llama(4)).stages] == [2, 1]
    plan = LeveledPlan((LeveledStage((), 2, children=tuple(LeveledStage(nodes, 3) for nodes in held)),))
    assert [(stage.replicas, stage.in_flight) for stage in stages_of(plan, llama(4)).stages] == [(6, 2), (6, 1)]


def test_stages_of_a_graph_are_put_in_order() -> None:
    held = [("c", "d"), ("a",), ("b",)]
    found = stages_of(stage_graph(held, [(1, 2), (2, 0)]), ABC)
    assert [stage.device for stage in found.stages] == ["stage 1", "stage 2", "stage 0"]
    assert [stage.rank for stage in found.stages] == [0, 1, 2]


def test_what_a_solver_lists_from_the_end_is_turned_round() -> None:
    assert stages_of(staged([("b", "a"), ("d", "c")]), ABC).stages[0].nodes == ("a", "b")


def test_a_file_that_lists_a_reader_first_is_put_in_order() -> None:
    profile = Profile(ABC.nodes[::-1], ABC.tensors)
    assert [profile.nodes[i].id for i in profile.model_order] == ["a", "b", "c", "d"]
