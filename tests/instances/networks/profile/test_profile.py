"""Profiles: checked at the door, the same after a round trip, told apart by their hashes."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import jsonschema
import pytest
from export_samples import llama, row
from hypothesis import given
from hypothesis import strategies as st
from problems.profiles import DIAMOND, ROW, profiles

from pipeplan import InputError, TimeCurve, UsageError, lower
from pipeplan.instances.networks.profile.profile import (
    Profile,
    ProfileNode,
    ProfileTensor,
    profile_from_json,
    profile_to_json,
    whole_layers,
)
from pipeplan.instances.schemas import read_schema

SCHEMA = jsonschema.Draft202012Validator(read_schema("profile-1"))


@given(profiles() | st.just(DIAMOND))
def test_a_profile_survives_its_file(profile: Profile) -> None:
    data = json.loads(json.dumps(profile_to_json(profile)))
    SCHEMA.validate(data)
    again = profile_from_json(data)
    assert again == profile
    assert again.hash == profile.hash


def test_what_follows_from_a_profile() -> None:
    assert DIAMOND.arcs == ((0, 1), (0, 2), (1, 3), (2, 3))
    assert (ROW.is_row, DIAMOND.is_row) == (True, False)
    assert (ROW.has_curves, DIAMOND.has_curves) == (False, True)
    assert DIAMOND.time(DIAMOND.nodes[2].forward) == 1.5
    assert DIAMOND.nodes[0].parameter_bytes == 5.0
    alone = Profile((ProfileNode("a", 1.0), ProfileNode("b", 1.0)), ())
    assert not alone.is_row


def test_names_are_no_part_of_the_hash_and_costs_are() -> None:
    assert DIAMOND.replace(name="x", source={}).hash == DIAMOND.hash
    slower = replace(DIAMOND.nodes[1], forward=4.0)
    changes: list[dict[str, Any]] = [
        {"nodes": (DIAMOND.nodes[0], slower, *DIAMOND.nodes[2:])},
        {"tensors": (replace(DIAMOND.tensors[0], gradient=False), *DIAMOND.tensors[1:])},
        {"training": False},
        {"micro_batch": 3},
        {"time_unit": "s"},
    ]
    assert len({DIAMOND.hash, *(DIAMOND.replace(**change).hash for change in changes)}) == len(changes) + 1


def spoilt(place: str, **changes: Any) -> dict[str, Any]:
    """The first node or tensor with other fields."""
    first, *rest = getattr(DIAMOND, place)
    return {place: (replace(first, **changes), *rest)}


BAD: list[tuple[dict[str, Any], str]] = [
    ({"time_unit": "min"}, "time_unit is 'min'; give one of s, ms, us, ns"),
    ({"nodes": (), "tensors": (), "tied": ()}, "nodes is empty"),
    (spoilt("nodes", id=""), "nodes[0].id is empty"),
    (spoilt("nodes", backward=TimeCurve((2, 1), (1, 1))), "nodes[0].backward.samples[1] is 1, not above"),
    (spoilt("nodes", flops_forward=float("nan")), "nodes[0].flops_forward is NaN"),
    (spoilt("nodes", parameters={"w": -1.0}), "nodes[0].parameters['w'] is negative"),
    ({"nodes": (*DIAMOND.nodes, DIAMOND.nodes[0])}, "nodes[4].id repeats 'stem' of nodes[0]"),
    (spoilt("tensors", producer="nobody"), "tensors[0].producer names the unknown node 'nobody'"),
    (spoilt("tensors", readers=("left", "nobody")), "tensors[0].readers[1] names the unknown node 'nobody'"),
    (spoilt("tensors", readers=("stem",)), "tensors[0].readers holds its producer 'stem'"),
    (spoilt("tensors", readers=("left", "left")), "tensors[0].readers name a node twice"),
    (spoilt("tensors", bytes=float("inf")), "tensors[0].bytes is infinite"),
    (spoilt("tensors", shape=(2, -1)), "tensors[0].shape[1] is -1"),
    ({"tensors": (*DIAMOND.tensors, DIAMOND.tensors[0])}, "tensors[5].id repeats 'x' of tensors[0]"),
    ({"tied": (("stem.weight", "gone"),)}, "tied[0] names the unknown parameter 'gone'"),
    ({"tensors": (*DIAMOND.tensors, ProfileTensor("back", "head", ("stem",), 1.0))}, "tensors contain the cycle"),
]


@pytest.mark.parametrize(("changes", "words"), BAD, ids=[words[:30] for _, words in BAD])
def test_what_is_wrong_is_said_at_the_door(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError) as caught:
        DIAMOND.replace(**changes)
    assert words in str(caught.value)


# ---- whole layers --------------------------------------------------------------------------------------


def test_the_embedding_is_with_the_first_layer_and_the_head_with_the_last() -> None:
    layers = whole_layers(llama(3, tied=True))
    assert layers.members == {
        "model.layers.0": ("model.embed_tokens", "model.layers.0"),
        "model.layers.1": ("model.layers.1",),
        "model.layers.2": ("model.layers.2", "model.norm", "lm_head"),
    }
    assert layers.joined == {"model.embed_tokens", "model.norm", "lm_head"}
    first, _, last = layers.profile.nodes
    assert (first.forward, first.backward, first.saved_bytes, first.parameter_bytes) == (2.0, 4.0, 20.0, 8.0)
    assert (last.forward, last.parameter_bytes) == (3.0, 12.0)
    assert layers.profile.is_row
    assert layers.profile.tied_bytes == llama(3, tied=True).tied_bytes
    alone = whole_layers(llama(1, tied=True)).profile  # tied parameters of one layer are counted once
    assert (alone.tied, alone.nodes[0].parameter_bytes) == ((), 12.0)


def test_operators_of_a_layer_are_one_node_and_only_tensors_between_layers_are_left() -> None:
    names = ("embed", "h.0.attention", "h.0.mlp", "h.1.attention", "h.1.mlp")
    layers = whole_layers(row(names))
    assert layers.profile.ids == ("h.0", "h.1")
    assert [(tensor.producer, tensor.readers) for tensor in layers.profile.tensors] == [
        ("h.0", ("h.1",)),
        ("h.1", ()),
    ]


def test_curves_are_added_at_all_samples_that_were_measured() -> None:
    one, other = TimeCurve((1.0, 4.0), (1.0, 4.0)), TimeCurve((2.0, 4.0), (10.0, 20.0))
    nodes = (ProfileNode("embed", one, 1.0), ProfileNode("h.0", other, 1.0))
    profile = Profile(nodes, (ProfileTensor("x", "embed", ("h.0",), 1.0),))
    together = whole_layers(profile).profile.nodes[0].forward
    assert isinstance(together, TimeCurve)
    assert together.samples == (1.0, 2.0, 4.0)
    assert [together(q) for q in (1, 2, 4)] == [one(q) + other(q) for q in (1, 2, 4)]


def test_profiles_without_numbered_layers_are_refused_and_so_is_a_training_problem() -> None:
    with pytest.raises(
        InputError, match=r"--option whole-layers finds no numbered layers, .* such as 'stem'; drop it"
    ):
        whole_layers(row(("stem", "head")))
    with pytest.raises(
        UsageError, match=r"--option whole-layers is for .* problems, and this is a training; drop --option whole"
    ):
        lower(llama(2), kind="training", devices=1, memory_bytes=1e9, bandwidth=1e9, whole_layers=True)
