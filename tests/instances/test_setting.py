"""Packaged language models at another sequence and micro-batch, and who is told what to type instead."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from problems.profiles import ROW

import pipeplan
from pipeplan import ProfileOptions, UsageError
from pipeplan.instances.lookup import Cluster, load_with_notes
from pipeplan.instances.lowering import at_setting

CLUSTER: dict[str, Any] = {"devices": 8, "memory_bytes": 80e9, "bandwidth": 300e9}


def at(name: str, **options: int) -> pipeplan.Profile:
    return at_setting(pipeplan.load_profile(name), ProfileOptions(**options))[0]


@pytest.mark.parametrize("name", ["llama-3-8b", "llama-3-70b", "mixtral-8x7b"])
def test_operations_are_those_of_the_traced_model_at_its_own_setting(name: str) -> None:
    traced, made = pipeplan.load_profile(name), at(name, sequence=4096, micro_batch=2)
    assert made.ids == traced.ids
    assert (made.micro_batch, made.source["sequence"]) == (2, 4096)
    for one, other in zip(made.nodes, traced.nodes, strict=True):
        assert one.parameter_bytes == other.parameter_bytes
        assert one.flops_forward == pytest.approx(2 * (other.flops_forward or 0))


def test_attention_grows_with_the_square_of_the_sequence() -> None:
    one, two = (at("llama-3-8b", sequence=tokens).nodes[1] for tokens in (8192, 16384))
    scores = 2.0 * 8192 * 8192 * 4096 * 2
    assert two.flops_forward == pytest.approx(2 * (one.flops_forward or 0) + 2 * scores)
    assert two.saved_bytes == 2 * one.saved_bytes


def test_the_setting_at_which_a_profile_was_made_changes_nothing() -> None:
    profile = pipeplan.load_profile("gpt2")
    assert at_setting(profile, ProfileOptions(sequence=1024, micro_batch=8)) == (profile, ())


def test_a_problem_is_of_the_setting_and_says_so() -> None:
    lowered = load_with_notes(
        "llama-3-8b", Cluster(**CLUSTER, profile=ProfileOptions(sequence=8192, micro_batch=2))
    )
    assert lowered.samples is not None
    assert (lowered.samples.micro_batch, lowered.samples.tokens) == (2, 8192)
    assert "made anew for --sequence 8192 and --micro-batch 2" in lowered.notes[0]


@pytest.mark.parametrize(("name", "options", "answer"), [
    ("gpt2", {"sequence": 512},
     "'gpt2' was made for micro-batch 8, sequence 1024; import it again: plan import hf"),
    ("resnet-50", {"micro_batch": 512}, "config.json --batch 512 --hardware h100-80gb"),
])  # fmt: skip
def test_what_shapes_do_not_say_is_refused_with_what_to_type(name: str, options: Any, answer: str) -> None:
    with pytest.raises(UsageError) as caught:
        at(name, **options)
    assert str(caught.value).startswith(
        f"--{next(iter(options)).replace('_', '-')} is for llama-3-70b, llama-3-8b and mixtral-8x7b"
    )
    assert answer in str(caught.value)


def test_a_measured_profile_is_of_one_setting() -> None:
    with pytest.raises(UsageError, match="measure it again, or drop --sequence"):
        at_setting(ROW, ProfileOptions(sequence=8192))


def test_a_changed_copy_of_a_packaged_profile_is_not_made_anew(tmp_path: Path) -> None:
    changed = pipeplan.load_profile("llama-3-8b").replace(micro_batch=3)
    with pytest.raises(UsageError, match="import it again"):
        at_setting(changed, ProfileOptions(micro_batch=1))
