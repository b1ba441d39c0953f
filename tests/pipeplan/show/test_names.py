"""Layers as ranges: whole where there is room, shortened from the middle where there is not."""

from __future__ import annotations

import re

import pytest

from pipeplan.instances.placement.problem import Node, PlacementProblem
from pipeplan.show.words import Order, Range, order_of, shortened


def fold(names: list[str], *places: int) -> str:
    return Order(dict(enumerate(names))).fold(places).text()


NUMBERED = [str(i) for i in range(12)]


def test_neighbours_become_ranges_in_the_order_in_which_they_run() -> None:
    assert fold(NUMBERED, *range(12)) == "0-11"
    assert fold(NUMBERED, 9, 2, 3, 0, 4) == "0, 2-4, 9"
    assert fold([f"layer {i}" for i in range(12)], 3, 4, 5) == "layer 3-5"
    assert fold([f"layer{i}" for i in range(12)], 3, 4, 5) == "layer3-layer5"
    assert fold(["embedding", "layer0", "layer1"], 0, 1, 2) == "embedding-layer1"
    assert fold(["conv-1", "conv-2"], 0, 1) == "conv-1 to conv-2", "a hyphen of their own"
    assert fold(NUMBERED) == ""


def test_what_is_held_is_named_and_counted() -> None:
    order = Order({i: str(i) for i in range(12)})
    assert order.fold([4]).named("layer") == "layer 4"
    assert order.fold([4, 5]).named("layer") == "layers 4-5"
    assert order.fold([]).named("layer") == "no layers"
    assert order.fold([4, 5]).named("layer", 9) == "4-5", "no room"
    assert Order({0: "layer0", 1: "layer1"}).fold([0, 1]).named("layer") == "layer0-layer1"
    assert order.fold([4, 5, 8], implied={8}).count == 3
    assert order.fold([4, 5, 8], implied={8}).text() == "4-5"
    assert order.fold([4, 99]).count == 1, "unknown"


@pytest.mark.parametrize("most", range(13, 60))
def test_texts_keep_to_their_width(most: int) -> None:
    names = [f"block{i}.attention.projection" for i in range(30)]
    held = Order(dict(enumerate(names))).fold([*range(5), 7, *range(9, 20), 25])
    text = held.text(most)
    assert len(text) <= most
    assert text.startswith("b")
    assert held.text() == text or ".." in text or "+" in text


def test_names_are_cut_behind_their_numbers_or_out_of_the_middle() -> None:
    assert shortened("branch0.1.attention", 13) == "branch0.1.."
    assert shortened("ParallelTransformerLayer17", 12) == "Paral..yer17"
    assert shortened("short", 12) == "short"
    assert Range("branch0.0.attention", "branch0.1.down").text(24) == "branch0.0..-1.down"


@pytest.mark.parametrize(
    ("first", "last", "most", "said"),
    [
        ("branch0.0.attention", "branch0.1.down", 26, "branch0.0.attention-1.down"),
        ("model.layers.12.attn", "model.layers.17.mlp", 30, "model.layers.12.attn-17.mlp"),
        ("model.layers.12.attn", "model.layers.17.mlp", 60, "model.layers.12.attn-model.layers.17.mlp"),
    ],
)
def test_what_both_names_share_goes_before_anything_is_cut(first: str, last: str, most: int, said: str) -> None:
    assert Range(first, last).text(most) == said


@pytest.mark.parametrize("most", range(8, 24))
def test_no_number_is_cut_and_dots_stand_alone(most: int) -> None:
    assert re.search(r"(?<!\d)1234$", shortened("TransformerLayerOfMine1234", most))
    assert "..." not in shortened("model.embed_tokens", most)


def test_ranges_follow_the_edges_where_the_file_does_not() -> None:
    nodes = tuple(Node(id=i, accelerator_time=1.0, cpu_time=1.0) for i in "cab")
    problem = PlacementProblem(
        name="p", nodes=nodes, edges=(("a", "b"), ("b", "c")), accelerators=1, cpus=0, memory_bytes=None
    )
    assert order_of(problem, problem.nodes).fold("abc").text() == "a-c"


def test_nodes_go_by_names_of_their_own() -> None:
    def ordered(*names: str | None) -> str:
        nodes = tuple(Node(id=i, name=name, accelerator_time=1.0, cpu_time=1.0) for i, name in enumerate(names))
        problem = PlacementProblem(name="p", nodes=nodes, edges=(), accelerators=1, cpus=0, memory_bytes=None)
        return ", ".join(order_of(problem, problem.nodes).names)

    assert ordered("in", "out") == "in, out"
    assert ordered("same", "same") == "0, 1"
    assert ordered("in", None) == "0, 1"
