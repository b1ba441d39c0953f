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

from problems.models import FAMILIES  # noqa: E402

import pipeplan  # noqa: E402
from pipeplan.models import from_torch  # noqa: E402

pytestmark = pytest.mark.torch


LLAMA: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 128, "hidden_size": 64,
    "intermediate_size": 128, "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2,
    "max_position_embeddings": 64, "torch_dtype": "bfloat16", "tie_word_embeddings": False,
}  # fmt: skip
# Families by their small models, and other heads of one of them.
HEADS = {"bert classes": "BertForSequenceClassification", "bert answers": "BertForQuestionAnswering"}


def config_of(family: str) -> dict[str, Any]:
    model = FAMILIES[family.split()[0]]()[0]
    content: dict[str, Any] = json.loads(json.dumps(model.config.to_dict(), default=str))
    return content | {"architectures": [HEADS.get(family, type(model).__name__)]}


DEVICE = ("--hardware", "h100-80gb")


@pytest.mark.parametrize("family", [*FAMILIES, *HEADS])
def test_families_from_their_configurations(family: str) -> None:
    content = config_of(family)
    profile = pipeplan.import_hf(content, batch=2, sequence=16, hardware="h100-80gb")
    config = transformers.AutoConfig.for_model(content.pop("model_type"), **content)
    with torch.device("meta"):
        model = getattr(transformers, content["architectures"][0])(config)
    held = sum(node.parameter_bytes for node in profile.nodes) - profile.tied_bytes
    assert held == 2 * sum(p.numel() for p in model.parameters())
    assert profile.micro_batch == 2
    assert all(profile.time(node.forward) >= 0 for node in profile.nodes)
    forward, backward = (
        sum(getattr(n, f"flops_{side}") for n in profile.nodes) for side in ("forward", "backward")
    )
    assert backward > forward


@pytest.mark.parametrize("family", ["llama", "t5", "clip", "whisper"])
def test_inference_has_no_backward_pass(family: str) -> None:
    profile = pipeplan.import_hf(config_of(family), sequence=16, hardware="h100-80gb", training=False)
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


def test_from_a_configuration_in_its_folder_to_a_plan(
    plan: Plan, config: Callable[..., Path], tmp_path: Path
) -> None:
    profile = tmp_path / "my.json"
    said = done(plan("import", "hf", config().parent, "--batch", 2, "--sequence", 32, *DEVICE, "-o", profile))
    assert "a profile of 7 nodes" in said.out
    data = json.loads(profile.read_text())
    source = data["source"]
    assert (data["name"], source["architecture"], source["dtype"]) == ("tiny-llama", "LlamaForCausalLM", "bfloat16")
    on = ("--devices", 2, "--memory", "1GB", "--bandwidth", "1GB/s")
    assert plan("solve", profile, *on, "--json").json["found"] == "optimal"


BAD: list[tuple[dict[str, Any], tuple[Any, ...], str]] = [
    ({"model_type": None}, (), r"config\.json: model_type is missing; give a model's config\.json"),
    ({"model_type": "lama"}, (), r"model_type is 'lama', which transformers .* does not have; write a function"),
    ({"architectures": None}, (), r"architectures is missing; name the model's class"),
    ({"architectures": ["MyLlama"]}, (), r"architectures name 'MyLlama', which transformers .* lacks; write"),
    ({"architectures": ["LlamaConfig"]}, (), r"architectures name 'LlamaConfig'"),
    ({"architectures": ["LlamaModel"]}, (), r"architectures name LlamaModel, whose loss is unknown; name a class"),
    ({"num_attention_heads": 5}, (), r"config\.json: .*; "),
    ({"pad_token_id": 500}, (), r"the configuration is refused by transformers \(.*\); correct it"),
    ({"hidden_size": "wide"}, (), r"config\.json: .*; "),
    ({}, ("--sequence", 65), r"--sequence is 65, more than the model's 64 positions; give at most 64"),
    ({}, ("--sequence", 0), r"--sequence"),
    ({}, ("--batch", 0), r"--batch"),
    ({}, ("--dtype", "float8"), r"--dtype is 'float8'.*bfloat16"),
    ({}, ("--hardware", "h100"), r"There is no hardware named 'h100'"),
]


@pytest.mark.parametrize(("changes", "options", "message"), BAD)
def test_bad_input_ends_in_one_sentence(
    plan: Plan, config: Callable[..., Path], changes: dict[str, Any], options: tuple[Any, ...], message: str
) -> None:
    said = plan("import", "hf", config(**changes), *("--sequence", 16), *DEVICE, *options, "--json")
    refused(said)
    assert re.search(message, " ".join(said.err.split()))


def test_what_is_missing(plan: Plan, config: Callable[..., Path], tmp_path: Path) -> None:
    (tmp_path / "list.json").write_text("[1]", encoding="utf-8")
    for arguments, sentence in (
        ((config(), *DEVICE), "--sequence is missing: the model reads text"),
        ((config(), "--sequence", 16), "Give --hardware, one of"),
        (("meta-llama/Llama-3-8B", *DEVICE), "nothing is fetched from a hub"),
        ((tmp_path / "other.json", *DEVICE), "does not exist"),
        ((tmp_path / "list.json", *DEVICE), "holds no object"),
    ):
        refused(plan("import", "hf", *arguments, "--json"), sentence)


def test_without_transformers_a_sentence_says_what_to_install(
    plan: Plan, config: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    for missing in ("torch", "transformers"):
        monkeypatch.setattr(
            from_torch, "find_spec", lambda package, gone=missing: None if package == gone else object()
        )
        said = plan("import", "hf", config(), *DEVICE, "--trace", "--json")
        refused(said, f"{missing} is not installed; run pip install 'pipeplan[hf]'")


def test_a_trace_that_takes_long_names_what_takes_moments(plan: Plan, config: Callable[..., Path]) -> None:
    asked = ("import", "hf", config(), "--sequence", 16, *DEVICE, "--json")
    note = "--no-trace calculates at once from the shapes, with different nodes and times"
    assert note in " ".join(plan(*asked).err.split())
    for more in (["--no-trace"], ["--trace"], ["--activations", "eager"]):
        assert "--no-trace" not in done(plan(*asked, *more)).err
