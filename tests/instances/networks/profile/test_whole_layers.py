"""Profiles of whole layers: what joins which layer, what is kept of the costs, and what is refused."""

from __future__ import annotations

import pytest
from export_samples import llama, row

from pipeplan.instances.base.curve import TimeCurve
from pipeplan.instances.base.errors import InputError, UsageError
from pipeplan.instances.lowering import lower
from pipeplan.instances.networks.profile.profile import Profile, ProfileNode, ProfileTensor
from pipeplan.instances.networks.profile.whole_layers import whole_layers


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


def test_operators_of_a_layer_are_one_node_and_only_tensors_between_layers_are_left() -> None:
    names = ("embed", "h.0.attention", "h.0.mlp", "h.1.attention", "h.1.mlp")
    layers = whole_layers(row(names))
    assert layers.profile.ids == ("h.0", "h.1")
    assert [(tensor.producer, tensor.readers) for tensor in layers.profile.tensors] == [
        ("h.0", ("h.1",)),
        ("h.1", ()),
    ]


def test_tied_parameters_of_one_layer_are_counted_once() -> None:
    profile = whole_layers(llama(1, tied=True)).profile
    assert profile.tied == ()
    assert profile.nodes[0].parameter_bytes == 12.0


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
        UsageError, match=r"--whole-layers is for .* problems, and this is a training; drop --whole"
    ):
        lower(llama(2), kind="training", devices=1, memory_bytes=1e9, bandwidth=1e9, whole_layers=True)
