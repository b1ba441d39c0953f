"""Profiles from the shapes in a configuration, against those of the same models traced with torch."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from command_line import Plan, done, refused

import pipeplan
from pipeplan.instances.base.errors import InputError, UsageError
from pipeplan.instances.networks.profile.work import on_hardware
from pipeplan.instances.physics.hardware import DEVICES
from pipeplan.instances.training.build import problem_of
from pipeplan.instances.training.config_json import model_from_config
from pipeplan.instances.training.plan import NOTHING, Configuration, Degrees
from pipeplan.instances.training.referee import stash_bytes
from pipeplan.instances.training.to_profile import with_fused_activations
from pipeplan.models import from_torch

LLAMA = {
    "model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 8192,
    "intermediate_size": 28672, "num_attention_heads": 64, "num_hidden_layers": 80, "num_key_value_heads": 8,
    "vocab_size": 128256,
}  # fmt: skip
MIXTRAL = {
    "model_type": "mixtral", "architectures": ["MixtralForCausalLM"], "hidden_size": 4096,
    "intermediate_size": 14336, "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 8,
    "vocab_size": 32000,
}  # fmt: skip
TRACED = {"llama-3-70b": LLAMA, "mixtral-8x7b": MIXTRAL}


@pytest.mark.parametrize("name", TRACED)
def test_operations_and_parameters_are_those_of_the_traced_model(name: str) -> None:
    """Kernels are fused, so layers keep less, and they are faster, but for experts, which reach less of the peak."""
    traced = on_hardware(pipeplan.load_profile(name), DEVICES["h100-80gb"])
    shapes = pipeplan.import_hf(TRACED[name], sequence=4096, hardware="h100-80gb", trace=False)
    assert shapes.ids == traced.ids
    for one, other in zip(shapes.nodes, traced.nodes, strict=True):
        assert one.flops_forward == other.flops_forward
        assert one.flops_backward == other.flops_backward
        assert one.parameter_bytes == other.parameter_bytes
    layer, theirs = shapes.nodes[1], traced.nodes[1]
    assert 0.5 < layer.saved_bytes / theirs.saved_bytes < 0.8
    assert (
        0.7 < shapes.time(layer.forward) / traced.time(theirs.forward) < (1.5 if name.startswith("mixtral") else 1)
    )
    assert [tensor.bytes for tensor in shapes.tensors[:-1]] == [t.bytes for t in traced.tensors if t.readers]


def test_latent_attention_and_experts_have_shapes_too() -> None:
    config = {
        "model_type": "deepseek_v3", "architectures": ["DeepseekV3ForCausalLM"], "hidden_size": 64,
        "intermediate_size": 96, "num_attention_heads": 4, "num_hidden_layers": 3, "vocab_size": 100,
        "qk_nope_head_dim": 16, "qk_rope_head_dim": 8, "v_head_dim": 16, "kv_lora_rank": 12, "q_lora_rank": 20,
        "n_routed_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 24, "n_shared_experts": 1,
        "first_k_dense_replace": 1, "num_nextn_predict_layers": 1,
    }  # fmt: skip
    profile = pipeplan.import_hf(config, sequence=10, hardware="h100-80gb", trace=False)
    products = 64 * 20 + 20 * 4 * 24 + 64 * 20 + 12 * 4 * 32 + 4 * 16 * 64
    scores = 10 * 4 * (24 + 16)
    assert profile.nodes[1].flops_forward == 2 * 10 * (products + 3 * 64 * 96 + scores)
    assert profile.nodes[2].flops_forward == 2 * 10 * (products + 64 * 8 + 3 * 64 * 24 * 3 + scores)
    assert profile.source["warnings"] == [
        "layers for multi-token prediction are left out, as transformers leaves them out"
    ]


def test_tied_tables_are_one_parameter_and_inference_has_no_backward_pass() -> None:
    gpt2 = {"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"]}
    profile = pipeplan.import_hf(gpt2, sequence=16, hardware="h100-80gb", trace=False, training=False)
    assert profile.tied == (("transformer.wte.weight", "lm_head.weight"),)
    assert not profile.training
    assert {node.flops_backward for node in profile.nodes} == {None}


def test_what_shapes_cannot_say_asks_for_a_traced_model() -> None:
    with pytest.raises(UsageError, match="--granularity op needs a traced model; give --trace"):
        pipeplan.import_hf(LLAMA, sequence=16, hardware="h100-80gb", trace=False, granularity="op")
    with pytest.raises(InputError, match="text_config stands beside another model; give --trace"):
        pipeplan.import_hf({"text_config": LLAMA}, sequence=16, hardware="h100-80gb", trace=False)
    with pytest.raises(InputError, match="--sequence is missing"):
        pipeplan.import_hf(LLAMA, hardware="h100-80gb", trace=False)


def test_shapes_that_nobody_asked_for_are_said(plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where torch is installed the same command traces, and finds other nodes and times."""
    monkeypatch.setattr(from_torch, "find_spec", lambda package: None)
    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    asked = ("import", "hf", tmp_path / "config.json", "--sequence", 64, "--hardware", "h100-80gb", "--json")
    note = "calculated from the shapes in the configuration, since torch or transformers is not installed; --trace"
    assert note in " ".join(plan(*asked).err.split())
    shaped = done(plan(*asked, "--no-trace"))
    assert note not in " ".join(shaped.err.split())
    assert len(shaped.json["nodes"]) == 83


def test_experts_that_stay_together_are_said(plan: Plan) -> None:
    cluster = ("--devices", 8, "--memory", "80GB", "--bandwidth", "100GB/s", "--planner", "equi")
    note = "experts of a layer stay together: plan configure plans expert parallelism"
    assert note in " ".join(plan("solve", "mixtral-8x7b", *cluster).err.split())
    assert note not in " ".join(plan("solve", "llama-3-8b", *cluster).err.split())


@pytest.mark.parametrize("config", [LLAMA, MIXTRAL, {"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"]}])
def test_layers_keep_what_the_referee_of_training_counts(config: dict[str, Any]) -> None:
    """The closed form that is exact against Korthikanti et al. (2205.05198), on one GPU."""
    profile = pipeplan.import_hf(config, sequence=1024, hardware="h100-80gb", trace=False)
    model = model_from_config(config, "model")
    problem = problem_of(model, "1xh100", batch=1, sequence=1024)
    plan = Configuration(Degrees(), 1, 0, "1f1b", (len(model.units),), (NOTHING,))
    kept = stash_bytes(problem, plan, 1, NOTHING)
    rows_of_router = 1024 * 4 * model.experts.count if model.experts is not None else 0
    assert profile.nodes[1].saved_bytes == pytest.approx(kept + rows_of_router, rel=0.02)


def test_a_layer_of_llama_3_70b_keeps_what_frameworks_keep() -> None:
    """2.3 GB of 8,192 tokens; traced by operations it is 3.6 GB, and what is traced can be said to be fused."""
    profile = pipeplan.import_hf(LLAMA, sequence=8192, hardware="h100-80gb", trace=False)
    assert profile.source["activations"] == "fused"
    assert profile.nodes[1].saved_bytes == pytest.approx(2.25e9, rel=0.01)
    eager = pipeplan.load_profile("llama-3-70b")  # at 4,096 tokens
    assert 2 * eager.nodes[1].saved_bytes == pytest.approx(3.6e9, rel=0.02)
    shaped = pipeplan.import_hf(LLAMA, sequence=4096, hardware="h100-80gb", trace=False)
    fused = with_fused_activations(eager, shaped)
    assert [node.saved_bytes for node in fused.nodes] == [node.saved_bytes for node in shaped.nodes]
    assert [node.forward for node in fused.nodes] == [node.forward for node in eager.nodes]


def test_activations_are_asked_for_in_words(plan: Plan, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    asked = ("import", "hf", tmp_path / "config.json", "--sequence", 64, "--hardware", "h100-80gb", "--json")
    for options, answer in (
        (("--activations", "lazy"), "--activations is 'lazy'"),
        (("--activations", "eager", "--no-trace"), "--activations eager needs a traced model; drop --no-trace"),
        (("--activations", "fused", "--granularity", "op"), "give --activations eager"),
    ):
        refused(plan(*asked, *options), answer)
    assert "--activations eager counts what PyTorch keeps" in " ".join(plan(*asked, "--no-trace").err.split())
