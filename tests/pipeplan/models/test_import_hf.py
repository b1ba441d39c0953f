"""`plan import hf`: a configuration alone becomes a profile; nothing is fetched."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from command_line import Plan, done, refused

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

import pipeplan  # noqa: E402
from pipeplan.models import from_torch  # noqa: E402

pytestmark = pytest.mark.torch


LLAMA: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 128, "hidden_size": 64,
    "intermediate_size": 128, "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2,
    "max_position_embeddings": 64, "torch_dtype": "bfloat16", "tie_word_embeddings": False,
}  # fmt: skip
TOWER = {"num_hidden_layers": 2, "hidden_size": 32, "intermediate_size": 64, "num_attention_heads": 2}
CONFIGS: dict[str, dict[str, Any]] = {
    "llama": LLAMA,
    "gpt2": {
        "architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "n_layer": 2, "n_embd": 32, "n_head": 2,
        "vocab_size": 100, "n_positions": 64,
    },
    "bert": {"architectures": ["BertForMaskedLM"], "model_type": "bert", "vocab_size": 100, **TOWER},
    "bert classes": {
        "architectures": ["BertForSequenceClassification"], "model_type": "bert", "vocab_size": 100, **TOWER,
    },
    "bert answers": {
        "architectures": ["BertForQuestionAnswering"], "model_type": "bert", "vocab_size": 100, **TOWER,
    },
    "t5": {
        "architectures": ["T5ForConditionalGeneration"], "model_type": "t5", "vocab_size": 100, "d_model": 32,
        "d_kv": 16, "num_heads": 2, "d_ff": 64, "num_layers": 2,
    },
    "mixtral": {
        **LLAMA, "architectures": ["MixtralForCausalLM"], "model_type": "mixtral", "num_local_experts": 4,
    },
    "resnet": {
        "architectures": ["ResNetForImageClassification"], "model_type": "resnet", "hidden_sizes": [8, 16],
        "depths": [1, 1], "embedding_size": 8, "layer_type": "basic",
    },
    "vit": {"architectures": ["ViTForImageClassification"], "model_type": "vit", "image_size": 32, **TOWER},
    "clip": {
        "architectures": ["CLIPModel"], "model_type": "clip", "text_config": {**TOWER, "vocab_size": 100},
        "vision_config": {**TOWER, "image_size": 32, "patch_size": 8},
    },
    "whisper": {
        "architectures": ["WhisperForConditionalGeneration"], "model_type": "whisper", "d_model": 32,
        "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 2, "decoder_attention_heads": 2,
        "encoder_ffn_dim": 64, "decoder_ffn_dim": 64, "vocab_size": 100, "max_source_positions": 30,
        "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 3,
    },
}  # fmt: skip
DEVICE = ("--hardware", "h100-80gb")


def held_once(profile: pipeplan.Profile) -> float:
    second = {name for _, name in profile.tied}
    return sum(size for node in profile.nodes for name, size in node.parameters.items() if name not in second)


@pytest.mark.parametrize("family", CONFIGS)
def test_families_from_their_configurations(family: str) -> None:
    profile = pipeplan.import_hf(CONFIGS[family], batch=2, sequence=16, hardware="h100-80gb")
    content = dict(CONFIGS[family])
    config = transformers.AutoConfig.for_model(content.pop("model_type"), **content)
    with torch.device("meta"):
        model = getattr(transformers, content["architectures"][0])(config)
    assert held_once(profile) == 2 * sum(p.numel() for p in model.parameters())
    assert profile.micro_batch == 2
    assert all(profile.time(node.forward) >= 0 for node in profile.nodes)
    assert sum(node.flops_backward or 0 for node in profile.nodes) > sum(
        n.flops_forward or 0 for n in profile.nodes
    )


@pytest.mark.parametrize("family", ["llama", "t5", "clip", "whisper"])
def test_inference_has_no_backward_pass(family: str) -> None:
    profile = pipeplan.import_hf(CONFIGS[family], sequence=16, hardware="h100-80gb", training=False)
    assert not profile.training
    assert all(node.backward == 0 and node.saved_bytes == 0 for node in profile.nodes)


@pytest.fixture
def config(tmp_path: Path) -> Callable[..., Path]:
    def write(**changes: Any) -> Path:
        path = tmp_path / "tiny-llama" / "config.json"
        path.parent.mkdir(exist_ok=True)
        content = {key: value for key, value in (LLAMA | changes).items() if value is not None}
        path.write_text(json.dumps(content), encoding="utf-8")
        return path

    return write


def test_from_a_configuration_to_a_plan(plan: Plan, config: Callable[..., Path], tmp_path: Path) -> None:
    profile = tmp_path / "my.json"
    said = done(plan("import", "hf", config(), "--batch", 2, "--sequence", 32, *DEVICE, "-o", profile))
    assert "a profile of 7 nodes" in said.out
    data = json.loads(profile.read_text())
    assert data["name"] == "tiny-llama"
    assert data["source"]["architecture"] == "LlamaForCausalLM"
    assert data["source"]["dtype"] == "bfloat16"
    on = ("--devices", 2, "--memory", "1GB", "--bandwidth", "1GB/s")
    assert plan("solve", profile, *on, "--json").json["found"] == "optimal"


def test_a_folder_holds_its_configuration(config: Callable[..., Path]) -> None:
    assert pipeplan.import_hf(config().parent, sequence=8, hardware="h100-80gb").name == "tiny-llama"


@pytest.mark.parametrize(
    ("changes", "options", "message"),
    [
        ({"model_type": None}, (), r"config\.json: model_type is missing; give a model's config\.json"),
        (
            {"model_type": "lama"},
            (),
            r"model_type is 'lama', which transformers .* does not have; write a function",
        ),
        ({"architectures": None}, (), r"architectures is missing; name the model's class"),
        ({"architectures": ["MyLlama"]}, (), r"architectures name 'MyLlama', which transformers .* lacks; write"),
        ({"architectures": ["LlamaConfig"]}, (), r"architectures name 'LlamaConfig'"),
        (
            {"architectures": ["LlamaModel"]},
            (),
            r"architectures name LlamaModel, whose loss is unknown; name a class",
        ),
        ({"num_attention_heads": 5}, (), r"config\.json: .*; "),
        ({"pad_token_id": 500}, (), r"the configuration is refused by transformers \(.*\); correct it"),
        ({"hidden_size": "wide"}, (), r"config\.json: .*; "),
        ({}, ("--sequence", 65), r"--sequence is 65, more than the model's 64 positions; give at most 64"),
        ({}, ("--sequence", 0), r"--sequence"),
        ({}, ("--batch", 0), r"--batch"),
        ({}, ("--dtype", "float8"), r"--dtype is 'float8'.*bfloat16"),
        ({}, ("--hardware", "h100"), r"There is no hardware named 'h100'"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_bad_input_ends_in_one_sentence(
    plan: Plan, config: Callable[..., Path], changes: dict[str, Any], options: tuple[Any, ...], message: str
) -> None:
    said = plan("import", "hf", config(**changes), *("--sequence", 16), *DEVICE, *options, "--json")
    assert said.code == 2
    assert re.search(message, " ".join(said.err.split()))
    assert "Traceback" not in said.err


def test_what_is_missing(plan: Plan, config: Callable[..., Path], tmp_path: Path) -> None:
    def sentence(*arguments: Any) -> str:
        said = plan("import", "hf", *arguments, "--json")
        assert said.code == 2
        return " ".join(said.err.split())

    assert "--sequence is missing: the model reads text" in sentence(config(), *DEVICE)
    assert "Give --hardware, one of" in sentence(config(), "--sequence", 16)
    assert "nothing is fetched from a hub" in sentence("meta-llama/Llama-3-8B", *DEVICE)
    assert "does not exist" in sentence(tmp_path / "other.json", *DEVICE)
    (tmp_path / "list.json").write_text("[1]", encoding="utf-8")
    assert "holds no object" in sentence(tmp_path / "list.json", *DEVICE)


def test_without_transformers_a_sentence_says_what_to_install(
    plan: Plan, config: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    for missing in ("torch", "transformers"):
        monkeypatch.setattr(
            from_torch, "find_spec", lambda package, gone=missing: None if package == gone else object()
        )
        said = plan("import", "hf", config(), *DEVICE, "--trace", "--json")
        refused(said, f"{missing} is not installed; run pip install 'pipeplan[hf]'")


def test_a_trace_that_takes_long_names_what_takes_moments(plan: Plan, tmp_path: Path) -> None:
    config, profile = tmp_path / "config.json", tmp_path / "profile.json"
    config.write_text(json.dumps(LLAMA))
    asked = ("import", "hf", config, "--sequence", 16, "--hardware", "h100-80gb", "-o", profile)
    said = " ".join(plan(*asked).err.split())
    assert "--no-trace calculates from the shapes, in moments, with other nodes and times" in said
    for more in (["--no-trace"], ["--trace"], ["--activations", "eager"]):
        found = done(plan(*asked, *more))
        assert "--no-trace" not in found.err
